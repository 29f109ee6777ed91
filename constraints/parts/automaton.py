"""Parts with token budgets as machines, and the stack automaton that reads one token's bytes.

A part is a machine that calls the machine of its texts. Its local state, the *mark*, says what one token may do:

    FRESH   the part has begun, and no byte of it has been read    it may end if ``at_least`` is 0
    NEW     the token that is being read is the first in it        it may end if ``at_least`` is at most 1
    OPEN    it may end before and after the next byte
    HELD    it may not end in this token: more tokens are needed
    DUE     it may end after the next byte, not before it
    FULL    it may end now; no further token may write into it

Marks hold for one token. :meth:`PartAutomaton.marked` sets them again before the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..automata.machines import Caller, Choice, Concatenation, Repetition
from ..automata.region import Local, Machine
from ..automata.stack import Stack, StackAutomaton

BEFORE, FRESH, NEW, OPEN, HELD, DUE, FULL = range(7)
Counts = tuple[int, ...]


class Part(Caller):
    """The texts of a machine that take ``at_least`` to ``at_most`` tokens (None: unbounded)."""

    def __init__(self, part: Machine, at_least: int, at_most: int | None, name: str) -> None:
        self.part, self.at_least, self.at_most, self.name = part, at_least, at_most, name

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        return ((self.part, FRESH),) if local == BEFORE else ()

    def final(self, local: Local) -> bool:
        if local == FRESH:
            return self.at_least == 0
        return local in (OPEN, FULL) or (local == NEW and self.at_least <= 1)

    def completion(self, local: Local) -> bytes:
        return self.part.completion(self.part.start()) if local == BEFORE else b""

    def mark(self, count: int) -> int:
        """Return the mark before a token if ``count`` tokens are in the part so far."""
        if count == self.at_most:
            return FULL
        return OPEN if count >= self.at_least else DUE if count + 1 == self.at_least else HELD

    def after_byte(self, mark: int) -> int | None:
        """Return the mark after a byte of the part is read; None if no byte may be read."""
        if mark == FRESH:
            return None if self.at_most == 0 else NEW
        return None if mark == FULL else OPEN if mark == DUE else mark


class Strand(NamedTuple):
    """A stack, and the number of tokens in each of its open parts, the outermost first."""

    stack: Stack
    counts: Counts


class PartAutomaton(StackAutomaton):
    """A stack automaton that reads one token: parts end, begin and take bytes as their marks allow."""

    def __init__(self, root: Machine) -> None:
        super().__init__(root)
        self._read: dict[Stack, Stack | None] = {}

    def stack(self, machine: Machine, local: Local, parent: Stack | None) -> Stack:
        """Push a frame.

        A part's frame is kept until its limits are known to hold, even if the part could return.
        """
        if not isinstance(machine, Part):
            return super().stack(machine, local, parent)
        key = (id(machine), local, id(parent))
        found = self._stacks.get(key)
        if found is None:
            self._machines[id(machine)] = machine
            found = self._stacks[key] = Stack(machine, local, parent)
        return found

    def _reads_only(self, stack: Stack) -> bool:
        return False  # its parts may be full

    def _active(self, stacks: Iterable[Stack], seen: set[Stack] | None = None) -> tuple[list[Stack], bool]:
        found, ends = super()._active(stacks, seen)
        taken = (self._after_byte(stack) for stack in found)
        return list(dict.fromkeys(stack for stack in taken if stack is not None)), ends

    def _after_byte(self, stack: Stack) -> Stack | None:
        """Return the stack with the marks of its parts after one byte; None if one of the parts is full."""
        new: list[Stack] = []
        frame: Stack | None = stack
        while frame is not None and frame not in self._read:
            new.append(frame)
            frame = frame.parent
        below, full = None if frame is None else self._read[frame], frame is not None
        full = full and below is None
        for frame in reversed(new):
            local = frame.local
            if isinstance(frame.machine, Part):
                local = frame.machine.after_byte(local)
                full = full or local is None
            below = self._read[frame] = None if full else self.stack(frame.machine, local, below)
        return below

    def marked(self, strand: Strand) -> Stack:
        """Return the stack of a strand with its parts marked by their token counts."""
        counts, below = iter(strand.counts), None
        for frame in frames(strand.stack):
            local = frame.local
            if isinstance(frame.machine, Part) and local != BEFORE:
                local = frame.machine.mark(next(counts))
            below = self.stack(frame.machine, local, below)
        assert below is not None
        return below

    def after_token(self, stack: Stack, counts: Counts) -> Strand:
        """Return the strand after a token that led to ``stack``; ``counts`` are those before the token."""
        found = list[int]()
        for frame in frames(stack):
            part, mark = frame.machine, frame.local
            if isinstance(part, Part) and mark != BEFORE:
                count = 1 if mark == NEW else counts[len(found)] + 1
                found.append(min(count, part.at_least) if part.at_most is None else count)
        strand = Strand(stack, tuple(found))
        return Strand(self.marked(strand), strand.counts) if found else strand


def frames(stack: Stack) -> Iterator[Stack]:
    """Iterate over the frames of a stack, the lowest first."""
    found: list[Stack] = []
    frame: Stack | None = stack
    while frame is not None:
        found.append(frame)
        frame = frame.parent
    return reversed(found)


def parts_from_before(stack: Stack) -> int:
    """Count the open parts of a stack that were open before the last token."""
    found = [f.local for f in frames(stack) if isinstance(f.machine, Part) and f.local != BEFORE]
    return len(found) - found.count(NEW)


def lacks_tokens(frame: Stack) -> bool:
    """Return whether a frame is a part that needs more tokens."""
    return isinstance(frame.machine, Part) and frame.local in (HELD, DUE)


class Twins:
    """The machines without token budgets, which read the bytes alone.

    A machine without parts is its own twin.
    """

    def __init__(self) -> None:
        self._of: dict[int, tuple[Machine, Machine]] = {}

    def of(self, machine: Machine) -> Machine:
        """Return the machine without budgets; local states are kept unless it is a part itself."""
        found = self._of.get(id(machine))
        if found is None:
            found = self._of[id(machine)] = machine, self._made(machine)
        return found[1]

    def _made(self, machine: Machine) -> Machine:
        if isinstance(machine, Part):
            return self.of(machine.part)
        below = called(machine)
        twins = [self.of(each) for each in below]
        if all(a is b for a, b in zip(below, twins, strict=True)):
            return machine
        if isinstance(machine, Repetition):
            return Repetition(twins[0], machine.low, machine.high)
        assert isinstance(machine, Choice | Concatenation)
        return type(machine)(twins)

    def has_parts(self, machine: Machine) -> bool:
        """Return whether a machine, or one that it calls, has a token budget of its own."""
        return self.of(machine) is not machine


def called(machine: Machine) -> Sequence[Machine]:
    """Return the machines called by a ``+``, ``|``, ``repeat`` or ``tokens``; no other calls parts."""
    if isinstance(machine, Choice):
        return machine.options
    if isinstance(machine, Concatenation):
        return machine.parts
    return (machine.part,) if isinstance(machine, Repetition | Part) else ()


def parts_of(machine: Machine) -> list[Part]:
    """Return all parts of a machine, inner ones before those around them."""
    found = dict[Part, None]()
    for each in called(machine):
        found |= dict.fromkeys(parts_of(each))
    if isinstance(machine, Part):
        found[machine] = None
    return list(found)
