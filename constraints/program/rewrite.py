"""Walking and rewriting programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from . import nodes
from .node import Kind, Node


def parts_first(root: Node, known: Callable[[Node], bool] | None = None) -> list[Node]:
    """Return the nodes of a program, each after its parts, but for the bodies of rules; without those ``known`` and below."""
    found: dict[Node, None] = {}
    todo: list[Node | None] = [root]
    while todo:
        if (node := todo.pop()) is None:  # what stands before it has all its parts
            found[cast("Node", todo.pop())] = None
        elif node not in found and not (known and known(node)):
            if node.kind is Kind.RULE or not node.parts:
                found[node] = None
                todo += node.parts
            else:
                todo += (node, None, *reversed(node.parts))
    return list(found)


def least(
    left: list[Node],
    holds: Callable[[Node, Callable[[Node], bool]], bool],
    known: Callable[[Node], bool] = lambda node: False,
) -> set[Node]:
    """Return the nodes of ``left`` that have a property, as a least fixed point; ``holds(node, has)`` asks ``has`` of its parts.

    ``known``: whether another node has it.
    """
    found, waiting, users = set[Node](), set[Node](), dict[Node, list[Node]]()
    for node in left:
        for part in node.parts:
            users.setdefault(part, []).append(node)
    todo = left[::-1]
    while todo:
        if holds(node := todo.pop(), lambda part: part in found or known(part)):
            found.add(node)
            again = waiting.intersection(users.get(node, ()))
            waiting -= again
            todo += again
        else:
            waiting.add(node)
    return found


def rebuilt(node: Node, parts: tuple[Node, ...]) -> Node:
    """Return a node with other parts, as the constructors make it. Not for rules."""
    match node.kind:
        case Kind.LEX | Kind.COUNT:
            return node
        case Kind.SEQ:
            return nodes.seq(*parts)
        case Kind.ALT:
            return nodes.alt(*parts)
        case Kind.REPEAT:
            return nodes.repeat(parts[0], node.low, node.high, parts[1])
        case Kind.BAG:
            required = [label for label in range(node.members) if node.required >> label & 1]
            first, later = node.tables
            return nodes.bag(first, later, parts, node.members, required, node.low, node.high, node.ordered)
        case Kind.WITHIN:
            return nodes.within(parts[0], node.tables[0])
        case Kind.TOKENS:
            return nodes.tokens(parts[0], node.low, node.high)
        case Kind.APART:
            return nodes.apart(parts[0])
        case Kind.ITEM:
            return nodes.item(parts[0], bool(node.low))
    raise AssertionError(node.kind)


def rewritten(root: Node, change: Callable[[Node], Node], gone: frozenset[Node] = frozenset()) -> Node:
    """Return a program in which each node, its parts rewritten, is changed; rules of ``gone`` have no texts.

    ``change`` gets each node but rules, which are made anew.
    """
    order = parts_first(root)
    rules = [node for node in order if node.kind is Kind.RULE]
    new: dict[Node, Node] = {node: nodes.NOTHING if node in gone else nodes.rule() for node in rules}
    for node in order:
        if node.kind is not Kind.RULE:
            new[node] = change(rebuilt(node, tuple(new[part] for part in node.parts)))
    for node in rules:
        if node not in gone:
            nodes.define(new[node], new[node.parts[0]])
    return new[root]
