"""Pictures and tables: what is drawn is what is there."""

import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
import torch

import tractile as tt
from tractile.circuits.io import draw as drawing
from tractile.circuits.io import summary as tables
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


def test_too_large_a_picture_is_refused():
    with pytest.raises(CircuitError, match="too many for a picture"):
        tt.HMM.random(2, 2).unroll(100).draw()


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


def test_ranges():
    assert drawing.ranges([0, 1, 2, 4, 7, 8]) == "0–2, 4, 7, 8"
    assert drawing.ranges([]) == ""


def test_notebooks_show_tables():
    for model in (tree(), tt.HMM.random(2, 2), automaton()):
        markdown = model._repr_markdown_()
        rows = [line for line in markdown.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in rows}) == 1
        page = (
            ElementTree.fromstring(f"<div>{tables.to_html(model)}</div>") if not shutil.which("dot") else None
        )
        assert page is None or len(page.findall(".//tr")) == len(rows) - 1
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
