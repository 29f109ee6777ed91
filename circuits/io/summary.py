"""Circuits, chains and automata as tables, a row for each layer: text, Markdown, HTML."""

from __future__ import annotations

import html
import shutil
from collections.abc import Sequence

from ..automaton import Automaton
from ..chain import Chain
from ..circuit import Circuit


def summary(model: Circuit | Chain) -> str:
    """A text table of the layers, children before parents, with units, children and numbers of parameters."""
    header, rows = _table(model)
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in (header, *rows)
    ]
    rule = "  ".join("─" * w for w in widths)
    return "\n".join([lines[0], rule, *lines[1:], rule, _footer(model)])


def to_markdown(model: Circuit | Chain) -> str:
    """:func:`summary` as a Markdown table."""
    header, rows = _table(model)
    lines = [" | ".join(row) for row in (header, ["---"] * len(header), *rows)]
    return "\n".join(f"| {line} |" for line in lines) + f"\n\n{_footer(model)}"


def to_html(model: Circuit | Chain) -> str:
    """:func:`summary` as an HTML table, under a picture where Graphviz is installed and the model small."""
    header, rows = _table(model)
    cells = [f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    from .draw import to_svg

    small = size(model) <= 50 and shutil.which("dot")
    picture = to_svg(model) if small else ""
    return f"{picture}<table><tr>{head}</tr>{''.join(cells)}</table><p>{html.escape(_footer(model))}</p>"


def _table(model: Circuit | Chain) -> tuple[list[str], list[list[str]]]:
    if isinstance(model, Circuit):
        rows = [
            [
                str(node),
                type(model.layer(node)).__name__,
                variables(model, node),
                " × ".join(map(str, model.unit_dims(node))),
                ", ".join(map(str, model.children(node))) or "–",
                f"{sum(p.numel() for p in model.layer(node).parameters()):,}",
            ]
            for node in model.nodes()
        ]
        return ["node", "layer", "variables", "units", "children", "parameters"], rows
    shapes = {"L": model.left.shape, "B": (*model.inputs.unit_dims, model.vocab_size), "R": model.right.shape}
    weights = {"L": model.left.parameters(), "B": model.inputs.parameters(), "R": model.right.parameters()}
    types = {"L": model.left, "B": model.inputs, "R": model.right}
    rows = [
        [
            name,
            type(types[name]).__name__,
            " × ".join(map(str, shapes[name])),
            f"{sum(p.numel() for p in weights[name]):,}",
        ]
        for name in types
    ]
    states = " × ".join(map(str, model.state_dims))
    ends = [
        [name, "vector", states, f"{sum(map(len, v)):,}"]
        for name, v in (("initial", model.initial), ("final", model.final))
    ]
    return ["part", "layer", "shape", "parameters"], [ends[0], *rows, ends[1]]


def _footer(model: Circuit | Chain) -> str:
    total = f"{sum(p.numel() for p in {id(p): p for p in model.parameters()}.values()):,} parameters"
    if isinstance(model, Circuit):
        return (
            f"{size(model):,} layers over {len(model.variables)} variables, {total} (tied ones counted once)"
        )
    if isinstance(model, Automaton):
        return f"{model.num_states:,} states, {model.num_edges:,} edges, {model.vocab_size:,} tokens"
    return f"{model!r}, {total}"


def size(model: Circuit | Chain) -> int:
    """The number of nodes of a picture."""
    if isinstance(model, Automaton):
        return model.num_states
    return len(list((model if isinstance(model, Circuit) else model.unroll(2)).nodes()))


def variables(circuit: Circuit, node: int) -> str:
    """The variables of a node as text."""
    return ranges(sorted(circuit.scope(node))) or "–"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as text, runs of three and more as a range."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)
