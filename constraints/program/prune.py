"""Pruning: rules without texts, and budgets of parts where no tokens are counted."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakSet

from .node import Kind, Node
from .nodes import EMPTY, NOTHING, reachable
from .rewrite import least, rebuilt, rewritten


def pruned(root: Node) -> Node:
    """Return a program of the same texts in which each rule has one, leaving ``WITHIN``, ``TOKENS`` and ``APART`` aside."""
    if root not in _pruned:
        found = least(root, _has_text)
        gone = frozenset(node for node in reachable(root) if node.kind is Kind.RULE and node not in found)
        root = rewritten(root, lambda node: node, gone) if gone else root
        _pruned.add(root)
    return root


_pruned: WeakSet[Node] = WeakSet()


def _has_text(node: Node, has: Callable[[Node], bool]) -> bool:
    if node.kind is Kind.RULE:
        return any(has(part) for part in node.parts)
    if all(has(part) for part in node.parts):
        return not node.is_nothing
    return rebuilt(node, tuple(EMPTY if has(part) else NOTHING for part in node.parts)) is not NOTHING


def without_budgets(root: Node) -> Node:
    """Return a program of the texts of ``root`` in any number of tokens."""
    return rewritten(root, lambda node: node.parts[0] if node.kind is Kind.TOKENS else node)


def has_budgets(root: Node) -> bool:
    """Return whether some part of a program counts tokens."""
    return any(node.kind is Kind.TOKENS for node in reachable(root))
