"""Stacks of frames, hash-consed: equal stacks are one object."""

from __future__ import annotations

from collections.abc import Hashable
from typing import final
from weakref import WeakValueDictionary

from ..program.node import Node


@final
class Stack:
    """A frame and the stack below it, None at the bottom. Equality is identity."""

    __slots__ = ("__weakref__", "below", "node", "register")

    def __init__(self, node: Node, register: Hashable, below: Stack | None) -> None:
        self.node, self.register, self.below = node, register, below

    def __repr__(self) -> str:
        return f"{self.node!r}:{self.register} / {self.below!r}"


_known: WeakValueDictionary[tuple[Node, Hashable, Stack | None], Stack] = WeakValueDictionary()


def push(node: Node, register: Hashable, below: Stack | None) -> Stack:
    """Return the stack of a frame and what is below it."""
    found = _known.get((node, register, below))
    if found is None:
        found = _known[node, register, below] = Stack(node, register, below)
    return found
