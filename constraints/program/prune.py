"""Pruning: rules without texts, and budgets of parts where no tokens are counted."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from .node import Kind, Node
from .nodes import EMPTY, NOTHING, reachable
from .rewrite import least, parts_first, rebuilt, rewritten
from .spec import checked

_is_pruned = attrgetter("pruned")


def pruned(root: Node) -> Node:
    """Return a program of the same texts in which each rule has one, leaving ``WITHIN``, ``TOKENS`` and ``APART`` aside."""
    fresh = parts_first(root, _is_pruned)
    rules = [node for node in fresh if node.kind is Kind.RULE]
    if rules:  # the other nodes have texts as they are made
        found = least(fresh, _has_text, _is_pruned)
        if gone := frozenset(rules) - found:
            root = rewritten(root, lambda node: node, gone)
            fresh = parts_first(root, _is_pruned)
    for node in fresh:
        node.pruned = not node.is_nothing
    return checked(root)


def _has_text(node: Node, has: Callable[[Node], bool]) -> bool:
    if node.kind is Kind.RULE:
        return any(has(part) for part in node.parts)
    if all(has(part) for part in node.parts):
        return not node.is_nothing
    return rebuilt(node, tuple(EMPTY if has(part) else NOTHING for part in node.parts)) is not NOTHING


def without_budgets(root: Node) -> Node:
    """Return a program of the texts of ``root`` in any number of tokens."""
    return checked(rewritten(root, lambda node: node.parts[0] if node.kind is Kind.TOKENS else node))


def has_budgets(root: Node) -> bool:
    """Return whether some part of a program counts tokens."""
    return any(node.kind is Kind.TOKENS for node in reachable(root))
