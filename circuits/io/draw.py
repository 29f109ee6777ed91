"""Pictures of circuits, chains and automata.

    model.draw()      a matplotlib figure
    to_dot(model)     Graphviz source;  to_svg(model) runs Graphviz on it, if the ``dot`` program is installed

A model returns its :class:`Picture` (nodes and edges), which this module draws. A circuit has its inputs below and its root on
top; a chain is drawn as two steps unrolled; an automaton has its start states on the left, accepting states with a double rim.
"""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...errors import CircuitError, TractileError

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Names = Sequence[str] | None  # the label of each token; None: its id
Point = tuple[float, float]

LIMIT = 200  # the most nodes in a picture; larger ones are illegible
COLOURS = {
    "input": "#dbe9d5",
    "sum": "#d4e1f5",
    "product": "#f7e3c8",
    "state": "#ffffff",
    "accepting": "#ffffff",
}


class Node(NamedTuple):
    """A node of a picture, with its caption; ``kind`` is a key of ``COLOURS``."""

    number: int
    caption: str
    kind: str


class Picture(NamedTuple):
    """Nodes, and edges (from, to, label): with ``starts`` (states) of an automaton, else of a circuit (parents to children)."""

    nodes: list[Node]
    edges: list[tuple[int, int, str]]
    starts: Sequence[int] = ()


class Drawable(ABC):
    """A model that can be drawn."""

    @abstractmethod
    def num_nodes(self) -> int:
        """Return the number of nodes of the picture."""

    @abstractmethod
    def picture(self, names: Names = None) -> Picture:
        """Return the nodes and edges to draw; ``names[v]`` is the label of token v of an automaton (default: its id)."""

    def draw(self, names: Names = None) -> Figure:
        """Draw a matplotlib figure; ``names[v]`` is the label of token v of an automaton (default: its id).

        Raises :class:`CircuitError` past 200 nodes.
        """
        return _figure(picture_of(self, names))


def picture_of(model: Drawable, names: Names = None) -> Picture:
    """Return the picture of a model. Raises :class:`CircuitError` past 200 nodes."""
    if model.num_nodes() > LIMIT:
        raise CircuitError(
            f"draw: {model.num_nodes():,} nodes are too many for a picture (limit {LIMIT}); see summary()"
        )
    return model.picture(names)


def token_label(tokens: Sequence[int], names: Names) -> str:
    """Write an edge's tokens by name, or without names as ranges of ids; shorten a long label."""
    text = ranges(tokens) if names is None else " ".join(names[t] for t in tokens)
    return text if len(text) <= 24 else f"{text[:20].rstrip(', ')} … ({len(tokens)})"


def ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers as text, runs of three and more as a range."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


def to_dot(model: Drawable, names: Names = None) -> str:
    """Return Graphviz source of a model's picture; ``names[v]`` is the label of token v of an automaton (default: its id).

    Raises :class:`CircuitError` past 200 nodes.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.circuits import to_dot
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> for line in to_dot(one, names=["a", "b"]).splitlines()[-4:-1]:
    ...     print(line.strip())
    0 -> 0 [label="a"];
    0 -> 1 [label="b"];
    1 -> 1 [label="a"];
    """
    nodes, edges, starts = picture_of(model, names)
    lines = [
        "digraph {",
        '  node [fontname="sans-serif", fontsize=10]; edge [fontname="sans-serif", fontsize=9];',
    ]
    if starts:
        lines.append("  rankdir=LR;")
        for n in nodes:
            lines.append(f"  {n.number} [shape={'doublecircle' if n.kind == 'accepting' else 'circle'}];")
        for s in starts:
            lines += [f"  start{s} [shape=point];", f"  start{s} -> {s};"]
        lines += [f"  {s} -> {d} [label={_quoted(label)}];" for s, d, label in edges]
    else:
        for n in nodes:
            style = f'style="rounded,filled", fillcolor="{COLOURS[n.kind]}"'
            lines.append(f"  {n.number} [shape=box, {style}, label={_quoted(n.caption)}];")
        lines += [f"  {node} -> {child};" for node, child, _ in edges]
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def to_svg(model: Drawable, names: Names = None) -> str:
    """Render a model's picture as SVG text, by Graphviz.

    Raises :class:`TractileError` if Graphviz's program ``dot`` is not installed, :class:`CircuitError` past 200 nodes.
    """
    dot = shutil.which("dot")
    if dot is None:
        raise TractileError("to_svg: the program dot is not installed; install Graphviz, or use draw()")
    run = subprocess.run(
        [dot, "-Tsvg"], input=to_dot(model, names), capture_output=True, text=True, check=True
    )
    return run.stdout[run.stdout.index("<svg") :]


def _figure(picture: Picture) -> Figure:
    import networkx as nx
    from matplotlib.figure import Figure

    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(n.number for n in picture.nodes)
    graph.add_edges_from((s, d) for s, d, _ in picture.edges)
    if picture.starts:
        place = {
            n: (2.2 * x, -1.5 * y) for n, (y, x) in _layers(graph, _distances(graph, picture.starts)).items()
        }
    else:
        levels: dict[int, int] = {}
        for node in reversed(list(nx.topological_sort(graph))):
            levels[node] = 1 + max((levels[c] for c in graph.successors(node)), default=-1)
        place = {n: (1.9 * x, 1.2 * y) for n, (x, y) in _layers(graph.reverse(), levels).items()}
    xs, ys = ([p[i] for p in place.values()] for i in (0, 1))
    figure = Figure(figsize=(max(3.0, max(xs) - min(xs) + 2.5), max(2.0, max(ys) - min(ys) + 1.8)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(min(xs) - 1.25, max(xs) + 1.25), ylim=(min(ys) - 0.9, max(ys) + 0.9), aspect="equal")
    axes.axis("off")
    (_draw_automaton if picture.starts else _draw_circuit)(axes, picture, place)
    return figure


def _distances(graph: nx.DiGraph, starts: Sequence[int]) -> dict[int, int]:
    """Return the steps to each state from a start state; unreachable states get one more than the largest distance."""
    import networkx as nx

    found: dict[int, int] = dict(nx.multi_source_dijkstra_path_length(graph, set(starts)))
    far = max(found.values()) + 1
    return {n: found.get(n, far) for n in graph}


def _layers(graph: nx.DiGraph, levels: dict[int, int]) -> dict[int, Point]:
    """Return (place in its level, level) of each node; a level is ordered by the mean place of the nodes' predecessors."""
    place: dict[int, Point] = {}
    for level in sorted(set(levels.values())):
        row = [n for n in graph if levels[n] == level]
        means = {}
        for node in row:
            before = [place[m][0] for m in graph.predecessors(node) if m in place]
            means[node] = sum(before) / len(before) if before else 0.0
        row.sort(key=lambda n: means[n])
        middle = sum(means.values()) / len(row)
        for i, node in enumerate(row):
            place[node] = (middle + i - (len(row) - 1) / 2, float(level))
    return place


def _draw_circuit(axes: Axes, picture: Picture, place: dict[int, Point]) -> None:
    for node, child, _ in picture.edges:
        (x0, y0), (x1, y1) = place[node], place[child]
        axes.plot([x0, x1], [y0, y1], color="#777777", linewidth=0.9, zorder=1)
    for n in picture.nodes:
        box = {"boxstyle": "round,pad=0.35", "facecolor": COLOURS[n.kind], "edgecolor": "#444444"}
        axes.text(*place[n.number], n.caption, ha="center", va="center", fontsize=8, bbox=box, zorder=2)


def _draw_automaton(axes: Axes, picture: Picture, place: dict[int, Point]) -> None:
    from matplotlib.patches import Circle, FancyArrowPatch

    radius, low, high = 0.3, *axes.get_ylim()

    def arrow(start: Point, end: Point, bend: float) -> None:
        style, connection = "-|>,head_length=5,head_width=2.5", f"arc3,rad={bend}"
        patch = FancyArrowPatch(
            start, end, arrowstyle=style, connectionstyle=connection, color="#555555", zorder=1
        )
        axes.add_patch(patch)

    for s, d, text in picture.edges:
        (x0, y0), (x1, y1) = place[s], place[d]
        if s == d:
            arrow((x0 - 0.16, y0 + 0.25), (x0 + 0.16, y0 + 0.25), -1.6)
            label = (x0, y0 + 0.72)
        else:
            length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
            # a wide bend passes around states in between
            ux, uy, bend = ((x1 - x0) / length, (y1 - y0) / length, 0.18 if length < 3 else 0.6)
            start, end = (x0 + radius * ux, y0 + radius * uy), (x1 - radius * ux, y1 - radius * uy)
            arrow(start, end, -bend)
            offset = 0.5 * bend * (length - 2 * radius) + 0.12
            label = ((x0 + x1) / 2 - uy * offset, (y0 + y1) / 2 + ux * offset)
        low, high = min(low, label[1] - 0.3), max(high, label[1] + 0.3)
        axes.text(*label, text, ha="center", va="center", fontsize=7, zorder=3)
    axes.set_ylim(low, high)
    for s in picture.starts:
        x, y = place[s]
        arrow((x - 0.8, y), (x - radius, y), 0.0)
    for n in picture.nodes:
        x, y = place[n.number]
        axes.add_patch(Circle((x, y), radius, facecolor=COLOURS[n.kind], edgecolor="#333333", zorder=2))
        if n.kind == "accepting":
            axes.add_patch(Circle((x, y), radius - 0.05, fill=False, edgecolor="#333333", zorder=2))
        axes.text(x, y, n.caption, ha="center", va="center", fontsize=8, zorder=3)
