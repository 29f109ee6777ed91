"""Cache keys of stack frames: masks are cached by the frames that a token can reach.

The key of a frame holds what the next few moves can depend on: for an object between two members, whether it may end and
whether another member may come, not which. Frames of machines of several automata that read the same have equal keys.

A walk down the trie from one stack holds for another stack whose top frames have equal keys, as long as it only moves on from
frames above these, from these, and from local states of their machines that the keys *cover*. A walk that goes further
*strays*, and holds for its own stack alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

from .lazy import Configuration
from .region import Local, Machine
from .stack import NEVER, Stack, StackAutomaton, stacks_of

MAX_NUMBERED = 1 << 15  # keys that have a number
_serials: WeakKeyDictionary[Machine, int] = WeakKeyDictionary()
_numbered: dict[Hashable, int] = {}
_numbers = itertools.count()


class Prefixes(Protocol):
    """The trie of the tokens of a vocabulary, with node 0 for the root."""

    def children(self, node: int) -> Mapping[int, int]:
        """Return the children of a node as a mapping from byte to node."""


class Reach(NamedTuple):
    """How far down a stack a walk from it moves on.

    ``frames``: the number of frames below the top that it moves on from. ``passed``: where keys do not cover all local states,
    the (frames below the top, first entry of a local state) that it moves on from.
    """

    frames: int
    passed: frozenset[tuple[int, Local]]


class Sharing:
    """The cache keys of the frames of one automaton."""

    def __init__(self, automaton: StackAutomaton, prefixes: Prefixes, reach: int) -> None:
        self.automaton, self.prefixes, self.reach = automaton, prefixes, reach
        self._own = new_number() if automaton.may_compare else 0  # such an automaton shares no keys

    def key(self, stack: Stack) -> Hashable:
        """Return the key of the top frame, which is kept on the stack."""
        if stack.key is None:
            machine, local = stack.machine, stack.local
            found = machine.frame_key(local, self.prefixes, self.reach)
            if found is None:
                found = serial(machine), machine.short(local, self.prefixes, self.reach)
            stack.key = found, stack.parent is None, self._own
        return stack.key

    def alike(self, stack: Stack) -> Stack:
        """Return a stack with the same keys from which walks are shorter."""
        machine, local = stack.machine, stack.local
        other = machine.alike(local, self.prefixes)
        return stack if other is local else self.automaton.stack(machine, other, stack.parent)


class Passed:
    """The record of the frames of a stack that walks from it have moved on from."""

    def __init__(self, automaton: StackAutomaton, origin: Stack) -> None:
        self.automaton, self.origin = automaton, origin
        self.frames, self.passed, self.strays = 0, set[tuple[int, Local]](), False

    @property
    def reach(self) -> Reach | None:
        """How far the walks have gone, ``None`` once one of them has strayed."""
        return None if self.strays else Reach(self.frames, frozenset(self.passed))

    def add(self, configurations: Iterable[Configuration]) -> None:
        """Record the configurations that a walk has moved on from."""
        origin, depth, reached = self.origin, self.origin.depth, self.automaton.reached
        for configuration in configurations:
            for stack in reached(configuration):
                if stack.depth > depth or stack is origin:
                    continue
                self.frames = max(self.frames, depth - stack.depth)
                if not stack.machine.covers_all:
                    frame = frame_at(origin, stack.depth)
                    if frame is not stack and frame.machine is stack.machine:
                        self._cover(frame, depth - stack.depth, stack.local[:1])

    def add_reach(self, stack: Stack, reach: Reach | None) -> None:
        """Record a stack that a walk has met, and the reach of walks that begin there."""
        if reach is None:
            self.strays = True
            return
        below = self.origin.depth - stack.depth
        self.frames = max(self.frames, reach.frames + below)
        for frames, local in reach.passed:
            if frames + below >= 0:
                frame = frame_at(self.origin, self.origin.depth - below - frames)
                if frame.machine is frame_at(stack, frame.depth).machine:
                    self._cover(frame, frames + below, local)

    def _cover(self, frame: Stack, frames: int, local: Local) -> None:
        if (frames, local) not in self.passed:
            self.passed.add((frames, local))
            self.strays |= not frame.machine.covers(frame.local, local)

    def extra(self, configuration: Configuration) -> int:
        """Return an upper bound, in bytes, from a configuration to acceptance, less the origin's.

        The bound is ``StackAutomaton.longest``. Origins whose frames have the same keys agree in the difference.
        """
        return min([self._extra(stack) for stack in stacks_of(configuration)])

    def _extra(self, stack: Stack) -> int:
        longest = self.automaton.longest
        below, frame = frame_at(stack, min(stack.depth, self.origin.depth)), self.origin
        frame = frame_at(frame, below.depth)
        while below is not frame and below.parent is not frame.parent:
            assert below.parent is not None
            assert frame.parent is not None
            below, frame = below.parent, frame.parent
        whole = longest(stack)
        if whole == NEVER:
            return NEVER
        base = below if below.machine is frame.machine else below.parent
        return whole - (0 if base is None else longest(base))


def new_number() -> int:
    """Return a number that has not been given out before."""
    return next(_numbers)


def number_of(key: Hashable) -> int:
    """Return the number of a key, a new one for a key without a number."""
    found = _numbered.get(key)
    if found is None:
        if len(_numbered) >= MAX_NUMBERED:
            _numbered.clear()
        found = _numbered[key] = new_number()
    return found


def serial(machine: Machine) -> int:
    """Return a number of a machine that no other machine ever has."""
    found = _serials.get(machine)
    if found is None:
        found = _serials[machine] = new_number()
    return found


def frame_at(stack: Stack, depth: int) -> Stack:
    """Return the frame of a stack that has ``depth`` frames below it."""
    while stack.depth > depth:
        assert stack.parent is not None
        stack = stack.parent
    return stack
