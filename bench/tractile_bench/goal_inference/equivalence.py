"""Equivalence of two goals of a planning problem, as in Planetarium (Zuo et al. 2024, Section 3).

Each goal is completed by the atoms that hold in every state that satisfies it, and turned into a graph of objects and atoms.
The goals are equivalent if the graphs are isomorphic, so that interchangeable objects may change places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .strips import Atom, Problem, State

if TYPE_CHECKING:
    import networkx as nx


def equivalent(problem: Problem, goal: Iterable[Atom], other: Iterable[Atom], free: bool = False) -> bool:
    """Return whether two goals are equal up to a renaming of objects that leaves the initial state unchanged.

    With ``free`` any renaming is allowed (Planetarium's ``is_placeholder``). In domains other than blocksworld and gripper
    goals are equivalent only if they have the same atoms.
    """
    complete = COMPLETE.get(problem.domain)
    if complete is None or frozenset(goal) == frozenset(other):
        return frozenset(goal) == frozenset(other)
    both = [scene(problem, complete(problem, frozenset(one)), free) for one in (goal, other)]
    return isomorphic(*both)


def scene(problem: Problem, goal: State, free: bool) -> nx.DiGraph:
    """Build the graph of a goal, with edges from atoms to their arguments, labelled by argument positions.

    Nodes are the objects, labelled by type, and the atoms of the goal and (unless ``free``) of the initial state, labelled by
    predicate."""
    import networkx as nx

    graph = nx.DiGraph()
    for name, kind in problem.objects.items():
        graph.add_node(name, label=("object", kind))
    for part, atoms in (("goal", goal), ("init", frozenset() if free else problem.init)):
        for atom in atoms:
            graph.add_node((part, atom), label=(part, atom[0]))
            for argument in set(atom[1:]):
                positions = tuple(i for i, one in enumerate(atom[1:]) if one == argument)
                if argument not in problem.objects:
                    graph.add_node(argument, label=("unknown", argument))
                graph.add_edge((part, atom), argument, positions=positions)
    return graph


def isomorphic(graph: nx.DiGraph, other: nx.DiGraph) -> bool:
    """Return whether two labelled graphs are isomorphic.

    Colour refinement comes first, so that the remaining search is nearly always among symmetric nodes."""
    import networkx as nx

    colors, others = refined([graph, other])
    if Counter(colors.values()) != Counter(others.values()):
        return False
    nx.set_node_attributes(graph, colors, "color")
    nx.set_node_attributes(other, others, "color")
    found: bool = nx.is_isomorphic(
        graph,
        other,
        node_match=lambda a, b: a["color"] == b["color"],
        edge_match=lambda a, b: a["positions"] == b["positions"],
    )
    return found


def refined(graphs: Sequence[nx.DiGraph]) -> list[dict[object, int]]:
    """Colour the nodes by their labels, and refine by the neighbours' colours until stable (Weisfeiler and Lehman)."""
    numbers: dict[object, int] = {}
    colors = [
        {node: numbers.setdefault(label, len(numbers)) for node, label in graph.nodes(data="label")}
        for graph in graphs
    ]
    while True:
        kinds = len(numbers)
        numbers = {}
        colors = [
            {node: numbers.setdefault(_seen(graph, own, node), len(numbers)) for node in graph}
            for graph, own in zip(graphs, colors, strict=True)
        ]
        if len(numbers) == kinds:
            return colors


def _seen(graph: nx.DiGraph, colors: dict[object, int], node: object) -> object:
    after = sorted((one["positions"], colors[to]) for _, to, one in graph.out_edges(node, data=True))
    before = sorted((one["positions"], colors[at]) for at, _, one in graph.in_edges(node, data=True))
    return colors[node], tuple(after), tuple(before)


# ---------------------------------------------------------------- what a goal implies


def complete_blocksworld(problem: Problem, goal: State) -> State:
    """Add the blocks that are clear or on the table, and an empty arm, if that holds in all states that satisfy the goal."""
    below = {atom[1]: atom[2] for atom in goal if atom[0] == "on" and len(atom) == 3}
    held = {atom[1] for atom in goal if atom[0] == "holding"}
    loaded = set(below.values()) | {atom[1] for atom in goal if atom[0] == "clear"}
    placed = set(below) | held | {atom[1] for atom in goal if atom[0] == "on-table"}
    tops = [b for b in problem.objects if b not in loaded | held]
    bottoms = [b for b in problem.objects if b not in placed]

    def tower(block: str) -> set[str]:
        found: set[str] = set()
        while block not in found:
            found.add(block)
            block = below.get(block, block)
        return found

    def may_lie(block: str, on: str) -> bool:
        return block not in tower(on)

    arm_known = bool(held) or ("arm-empty",) in goal
    loose = set() if arm_known else set(tops) & set(bottoms)  # any of these may be held
    added: set[Atom] = set()
    added |= {("clear", b) for b in tops if b not in loose and not any(may_lie(x, b) for x in bottoms)}
    added |= {("on-table", b) for b in bottoms if b not in loose and not any(may_lie(b, t) for t in tops)}
    if not arm_known and not loose:
        added.add(("arm-empty",))
    return goal | added


def complete_gripper(problem: Problem, goal: State) -> State:
    """Add the rooms, balls and grippers that exist to a goal and, if the goal places every ball, that other grippers are free."""
    kinds = {atom for atom in problem.init if atom[0] in ("room", "ball", "gripper")}
    placed = {atom[1] for atom in goal if atom[0] in ("at", "carry")}
    used = {atom[-1] for atom in goal if atom[0] in ("carry", "free")}
    if all(atom[1] in placed for atom in kinds if atom[0] == "ball"):
        kinds |= {("free", atom[1]) for atom in kinds if atom[0] == "gripper" and atom[1] not in used}
    return goal | kinds


COMPLETE: dict[str, Callable[[Problem, State], State]] = {
    "blocksworld": complete_blocksworld,
    "gripper": complete_gripper,
}
