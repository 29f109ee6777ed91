"""Left recursion: rules that reach themselves before a byte has been read."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx

from ...errors import UnsupportedConstraint
from .counting import may_end
from .node import Kind, Node
from .nodes import reachable
from .rewrite import least


def nullable(root: Node) -> set[Node]:
    """Return the nodes of a program that read the empty text. ``APART`` is left aside."""
    return least(root, _is_nullable)


def _is_nullable(node: Node, has: Callable[[Node], bool]) -> bool:
    match node.kind:
        case Kind.LEX | Kind.COUNT:
            return bool(node.tables[0].label[0] >= 0) and node.low == 0
        case Kind.BAG:
            return may_end(node, 0, 0)
        case Kind.REPEAT:
            return node.low == 0 or (has(node.parts[0]) and (node.low == 1 or has(node.parts[1])))
        case Kind.ALT | Kind.RULE:
            return any(has(part) for part in node.parts)
        case Kind.WITHIN:
            return bool(node.tables[0].label[0] >= 0) and has(node.parts[0])
    return (node.kind is not Kind.TOKENS or node.low == 0) and all(has(part) for part in node.parts)


def first_parts(node: Node, empty: set[Node]) -> list[Node]:
    """Return the parts of a node that may be read before any byte; ``empty``: the nodes that read the empty text."""
    if node.kind is Kind.BAG:
        return []
    found: list[Node] = []
    for part in node.parts:
        found.append(part)
        if node.kind in (Kind.SEQ, Kind.REPEAT) and part not in empty:
            break
    return found


def left_recursive(root: Node) -> list[set[Node]]:
    """Return the sets of rules that reach themselves and each other before a byte has been read."""
    empty, graph = nullable(root), nx.DiGraph()
    for node in reachable(root):
        graph.add_edges_from((node, part) for part in first_parts(node, empty))
    circles = (
        some
        for some in nx.strongly_connected_components(graph)
        if len(some) > 1 or graph.has_edge(*some, *some)
    )
    return [{node for node in some if node.kind is Kind.RULE} for some in circles]


def check_left_recursion(root: Node) -> None:
    """Raise ``UnsupportedConstraint`` if a rule reaches itself before a byte has been read."""
    if left_recursive(root):
        raise UnsupportedConstraint(
            "a rule begins with itself: it has no next byte; rewrite the program with without_left_recursion"
        )
