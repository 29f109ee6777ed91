"""Short views: keys under which configurations share a mask though what lies further off tells them apart.

The short view of a stack has, of each frame, what the next few moves can depend on: of an object between two members, whether it
may end and whether another member may come, not which. A walk from one configuration is as good for another with the same
short view as long as it only moves on from stacks that this *covers*; where a walk goes further, it strays, and the full
view is the key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Protocol

from .lazy import Configuration
from .stack import Stack, StackAutomaton, stacks_of


class Prefixes(Protocol):
    """The beginnings of the tokens of a vocabulary, as a trie with node 0 for the root."""

    def children(self, node: int) -> Mapping[int, int]:
        """The children of a node by their bytes."""


class Sharing:
    """The short views of one automaton."""

    def __init__(self, automaton: StackAutomaton, prefixes: Prefixes, reach: int) -> None:
        self.automaton, self.prefixes, self.reach = automaton, prefixes, reach
        self._numbers: dict[tuple[int, Hashable, int], int] = {}

    def key(self, configuration: Configuration) -> Hashable:
        """The number of the short view of a stack; those of a set of them."""
        if not isinstance(configuration, Stack):
            return frozenset([self.key(stack) for stack in stacks_of(configuration)])
        if configuration.short < 0:
            for frame in lacking(configuration):
                below = -1 if frame.parent is None else frame.parent.short
                key = (id(frame.machine), frame.machine.short(frame.local, self.prefixes, self.reach), below)
                frame.short = self._numbers.setdefault(key, len(self._numbers))
        return configuration.short

    def alike(self, configuration: Configuration) -> Configuration:
        """A configuration with the same short view from which walks are shorter."""
        if not isinstance(configuration, Stack):
            return configuration
        machine, local = configuration.machine, configuration.local
        other = machine.alike(local, self.prefixes)
        return configuration if other is local else self.automaton.stack(machine, other, configuration.parent)

    def strays(self, origin: Configuration, configuration: Configuration) -> bool:
        """Whether moves from a configuration may depend on more than the short view of that which a walk began at."""
        if not isinstance(origin, Stack):
            return any(self.strays(stack, configuration) for stack in stacks_of(origin))
        least = origin.depth
        for stack in self.automaton.reached(configuration):
            if stack.depth > least:
                continue
            frame = frame_at(origin, stack.depth)
            if (
                frame is not stack
                and frame.machine is stack.machine
                and not stack.machine.covers(frame.local, stack.local)
            ):
                return True
        return False


def frame_at(stack: Stack, depth: int) -> Stack:
    """The frame of a stack with so many frames below it."""
    while stack.depth > depth:
        assert stack.parent is not None
        stack = stack.parent
    return stack


def lacking(stack: Stack) -> Iterator[Stack]:
    """The frames without a short view, the lowest first."""
    frames: list[Stack] = []
    frame: Stack | None = stack
    while frame is not None and frame.short < 0:
        frames.append(frame)
        frame = frame.parent
    return reversed(frames)
