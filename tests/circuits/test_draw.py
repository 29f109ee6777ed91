"""Pictures and tables: what is drawn is what is there."""

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
import torch

import tractile as tt
from tractile.circuits.io import draw as drawing
from tractile.errors import CircuitError, TractileError
from tractile.layers import Categorical, Dense, Hadamard, Kronecker, Sum

EDGES = [(0, [1, 2, 3], 1), (1, 0, 0), (1, list(range(4, 40)), 2), (2, [5, 9], 2), (2, 7, 0)]


def automaton():
    return tt.Automaton.from_edges(EDGES, start=0, accept=[2], vocab_size=50)


def tree():
    c = tt.Circuit()
    x = [c.input(Categorical(torch.rand(2, 3)), v) for v in range(4)]
    left, right = c.product(Kronecker(), x[0], x[1]), c.product(Hadamard(), x[2], x[3])
    sums = c.sum(Sum(Dense(torch.rand(2, 4))), left), c.sum(Sum(Dense(torch.rand(2, 2))), right)
    c.sum(Sum(Dense(torch.rand(1, 2))), c.product(Hadamard(), *sums))
    return c


def texts(figure):
    return [t.get_text() for t in figure.axes[0].texts]


def test_a_circuit_is_drawn_with_every_node_and_edge(tmp_path):
    figure = tree().draw()
    labels = texts(figure)
    assert len(labels) == 10
    assert len(figure.axes[0].lines) == 9  # edges
    assert "Categorical x3\n2" in labels
    assert "Kronecker\n2×2" in labels
    heights = {t.get_text(): t.get_position()[1] for t in figure.axes[0].texts}
    assert heights["Sum\n1"] == max(heights.values())
    positions = {t.get_position() for t in figure.axes[0].texts}
    assert len(positions) == 10
    figure.savefig(tmp_path / "tree.png")
    assert (tmp_path / "tree.png").stat().st_size > 5000


def test_an_automaton_is_drawn_with_its_labels_and_ends(tmp_path):
    figure = automaton().draw()
    labels = texts(figure)
    assert sorted(labels) == sorted(["0", "1", "2", "1–3", "0", "4–39", "5, 9", "7"])
    assert len(figure.axes[0].patches) == 5 + 1 + 3 + 1  # edges, one start, states, one rim of acceptance
    names = [f"t{i}" for i in range(50)]
    assert "t1 t2 t3" in texts(automaton().draw(names))
    assert any(label.endswith("… (36)") for label in texts(automaton().draw(names)))
    figure.savefig(tmp_path / "automaton.png")


def test_chains_are_drawn_unrolled():
    assert len(texts(tt.HMM.random(3, 4).draw())) == len(list(tt.HMM.random(3, 4).unroll(2).nodes()))
    unreached = tt.Automaton.from_edges([(0, 0, 0), (1, 1, 2)], start=0, accept=[0], vocab_size=2)
    assert len(texts(unreached.draw())) == 5


def test_the_summary_counts():
    text = tree().summary()
    lines = text.splitlines()
    assert lines[0].split() == ["node", "layer", "variables", "units", "children", "parameters"]
    assert lines[6].split(maxsplit=2)[:2] == ["4", "Kronecker"]
    assert "2 × 2" in lines[6]
    assert lines[-1].startswith("10 layers over 4 variables, 38 parameters")
    tied = tt.HMM.random(2, 3).unroll(5)
    assert f"{2 + 4 + 6 + 2:,} parameters" in tied.summary().splitlines()[-1]
    assert automaton().summary().splitlines()[-1] == "3 states, 5 edges, 50 tokens"
    product = (tt.HMM.random(2, 50) * automaton()).summary()
    assert "KhatriRao" in product
    assert "2 × 3" in product


def test_notebooks_show_tables():
    for model in (tree(), tt.HMM.random(2, 2), automaton()):
        header, rows, _ = model.table()
        assert {len(row) for row in rows} == {len(header)}
        page = (
            ElementTree.fromstring(f"<div>{model._repr_html_()}</div>") if not shutil.which("dot") else None
        )
        assert page is None or len(page.findall(".//tr")) == len(rows) + 1
        assert "<table>" in model._repr_html_()


def test_dot_source():
    source = drawing.to_dot(
        automaton(), names=['"' if i == 7 else "\\" if i == 0 else str(i) for i in range(50)]
    )
    assert '2 -> 0 [label="\\""];' in source
    assert '1 -> 0 [label="\\\\"];' in source
    assert "2 [shape=doublecircle];" in source
    assert "start0 -> 0;" in source
    assert drawing.to_dot(tree()).count(" -> ") == 9


def test_svg_needs_graphviz(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(TractileError, match="install Graphviz"):
        drawing.to_svg(automaton())
    asked = []

    def run(command, **kwargs):
        asked.append((command, kwargs["input"]))
        return subprocess.CompletedProcess(command, 0, stdout="<?xml?>\n<svg></svg>")

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    assert drawing.to_svg(automaton()) == "<svg></svg>"
    assert asked == [(["/bin/dot", "-Tsvg"], drawing.to_dot(automaton()))]
    assert automaton()._repr_html_().startswith("<svg></svg><table>")


@pytest.mark.parametrize(
    "model", [automaton(), tree(), tt.HMM.random(3, 4)], ids=["automaton", "tree", "chain"]
)
def test_everything_is_within_the_figure_and_apart(model):
    figure = model.draw()
    (axes,) = figure.axes
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    size = figure.get_size_inches()
    assert size[0] >= 3
    assert size[1] >= 2
    nodes = [t.get_position() for t in axes.texts if t.get_fontsize() == 8]
    assert len(nodes) == len(drawing.picture_of(model).nodes)
    for x, y in nodes:
        assert left + 0.85 <= x <= right - 0.85  # a state with the arrow into it
        assert low + 0.3 <= y <= high - 0.3
    for i, (x, y) in enumerate(nodes):
        assert all(abs(x - a) >= 0.99 or abs(y - b) >= 0.99 for a, b in nodes[:i])
    for text in axes.texts:
        assert left <= text.get_position()[0] <= right
        assert low <= text.get_position()[1] <= high
        assert (text.get_ha(), text.get_va()) == ("center", "center")
    assert (right - left) / size[0] < 1.5
    assert not axes.axison
    assert axes.get_aspect() == 1


def test_sources_and_tables_are_whole():
    """Graphviz source and Markdown, to the letter."""
    one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1)], start=0, accept=[1], vocab_size=2)
    assert drawing.to_dot(one).splitlines() == [
        "digraph {",
        '  node [fontname="sans-serif", fontsize=10]; edge [fontname="sans-serif", fontsize=9];',
        "  rankdir=LR;", "  0 [shape=circle];", "  1 [shape=doublecircle];", "  start0 [shape=point];",
        "  start0 -> 0;", '  0 -> 0 [label="0"];', '  0 -> 1 [label="1"];', "}",
    ]  # fmt: skip
    c = tt.Circuit()
    c.sum(Sum(Dense(torch.rand(1, 2))), c.input(Categorical(torch.rand(2, 3)), 0))
    assert drawing.to_dot(c).splitlines()[2:] == [
        f'  0 [shape=box, style="rounded,filled", fillcolor="{drawing.COLOURS["input"]}", label="Categorical x0\\n2"];',
        f'  1 [shape=box, style="rounded,filled", fillcolor="{drawing.COLOURS["sum"]}", label="Sum\\n1"];',
        "  1 -> 0;", "}",
    ]  # fmt: skip


def test_200_nodes_are_drawn_and_201_are_not():
    class Row:
        def __init__(self, count):
            self.count = count

        def num_nodes(self):
            return self.count

        def picture(self, names=None):
            return names

    assert drawing.picture_of(Row(200), ["a"]) == ["a"]
    with pytest.raises(
        CircuitError, match=r"^draw: 1,201 nodes are too many for a picture \(limit 200\); see summary"
    ):
        drawing.picture_of(Row(1_201))
    with pytest.raises(CircuitError, match="201 nodes"):
        drawing.picture_of(Row(201))
