"""Bounds of the tokens that it takes to leave the open parts of a text, and to end it.

Upper bounds are of texts in which tokens end where parts do. Such a text falls into stretches without a limit in them, and

    tokens to leave a part  =  sum of the fewest tokens of the stretches before its end

Lower bounds are of all texts, with only one limit at a time: the fewest tokens that write a byte before the end of a part,
the last of which may go beyond it. Both ask the exact search of :mod:`~..lifting.lazy_distances`, which knows no parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...circuits.automaton import NEVER
from ..automata.lazy import Numbered
from ..automata.machines import Choice, Concatenation, Repetition
from ..automata.stack import Machine, Stack, StackAutomaton
from ..lifting.crossings import Crossings, Exhausted
from ..lifting.lazy_distances import Distances, Search
from ..vocabulary.vocabulary import Vocabulary
from .automaton import BEFORE, Part, Twins, frames

MOST_POSITIONS = 1_000  # of one search
NEARBY = 64  # states that are looked at for how long a text can become


class Bound(NamedTuple):
    """``leave[i]``: tokens until the i-th open part has ended, the outermost first; ``end``: until the text has, EOS apart."""

    leave: tuple[int, ...]
    end: int


class Room(NamedTuple):
    """How far the text on top of a stack, which knows no parts, can be made longer.

    ``more``: tokens beyond its bound, from which on any number is possible; ``NEVER`` where none is known. ``most``: bytes of
    its longest text, ``NEVER`` where that is not known or there is none."""

    more: int
    most: int


class UpperBounds:
    """Tokens that are enough where tokens end with the parts; ``least`` gives those of a part from its beginning."""

    def __init__(self, vocab: Vocabulary, twins: Twins, least: Callable[[Part], int]) -> None:
        self.twins, self._least_of_part = twins, least
        self._stacks = StackAutomaton(None)
        self._states = Numbered(self._stacks)
        self._distances = Distances(self._states, vocab, False, MOST_POSITIONS)
        self._single = vocab.token_dag.single
        self._least: dict[int, int] = {}
        self._found: dict[tuple[Stack, bool], Bound] = {}
        self._free: dict[Stack, Stack | None] = {}
        self._room: dict[Stack, Room] = {}

    def of(self, stack: Stack, exact: bool) -> Bound:
        """The bound of a stack; found quickly, or nearer if ``exact``."""
        found = self._found.get((stack, exact))
        if found is None:
            found = self._found[stack, exact] = self._of(stack, exact)
        return found

    def _of(self, stack: Stack, exact: bool) -> Bound:
        cost, leave = self._top(stack, exact), list[int]()
        for frame in reversed(list(frames(stack))):
            if not self.twins.has_parts(frame.machine):
                continue
            if isinstance(frame.machine, Part) and frame.local != BEFORE:
                leave.append(cost)
            else:
                cost = min(NEVER, cost + self._rest(frame))
        return Bound(tuple(reversed(leave)), cost)

    def _top(self, stack: Stack, exact: bool) -> int:
        """The tokens to the end of the frames on top that know no parts."""
        free = self.without_parts(stack)
        if free is None:
            return 0
        state = self._states.number(free)
        return self._distances.fewest(state) if exact else self._distances.bound(state)

    def without_parts(self, stack: Stack) -> Stack | None:
        """The frames on top of a stack that know no parts, as a stack of their own."""
        if stack not in self._free:
            own = None
            for frame in frames(stack):
                own = None if self.twins.has_parts(frame.machine) else self._stacks.stack(
                    frame.machine, frame.local, own
                )  # fmt: skip
            self._free[stack] = own
        return self._free[stack]

    def room(self, stack: Stack) -> Room:
        """How far the text on top can be made longer."""
        free = self.without_parts(stack)
        if free is None:
            return Room(NEVER, 0)
        found = self._room.get(free)
        if found is None:
            found = self._room[free] = self._found_room(self._states.number(free))
        return found

    def most_bytes(self, stack: Stack) -> int:
        """The bytes of the longest text to the end of the innermost open part, ``NEVER`` where that is not known."""
        for frame in reversed(list(frames(stack))):
            if self.twins.has_parts(frame.machine):
                is_part = isinstance(frame.machine, Part) and frame.local != BEFORE
                return self.room(stack).most if is_part else NEVER
        return NEVER

    def _found_room(self, start: int) -> Room:
        """Look at the states nearby: whether one leads to itself by a token, and all of them where they are few."""
        depth, queue, more = {start: 0}, [start], NEVER
        for state in queue:
            moves = self._states.moves(state)
            for low, high, target in moves:
                if state in depth and self._single[low : high + 1].any():
                    if target == state and more == NEVER:
                        bound = self._distances.bound
                        more = min(NEVER, max(0, depth[state] + bound(state) - bound(start)))
                    depth.setdefault(target, depth[state] + 1)
                if target not in queue and len(queue) < NEARBY:
                    queue.append(target)
            if len(queue) >= NEARBY and more < NEVER:
                break
        return Room(more, NEVER if len(queue) >= NEARBY else self._longest(queue))

    def _longest(self, states: list[int]) -> int:
        """The bytes of the longest path from the first of some states, which are all that can be reached."""
        longest = dict.fromkeys(states, 0)
        for _ in states:
            before = dict(longest)
            for state in states:
                after = [before[target] + 1 for _, _, target in self._states.moves(state)]
                longest[state] = max(after, default=0)
            if longest == before:
                return longest[states[0]]
        return NEVER

    def _rest(self, frame: Stack) -> int:
        """The tokens of what a machine with parts still has to call."""
        machine, at = frame.machine, frame.local
        if isinstance(machine, Concatenation):
            return min(NEVER, sum([self.least(each) for each in machine.parts[at:]]))
        if isinstance(machine, Repetition):
            return min(NEVER, self.least(machine.part) * (machine.low - at)) if at < machine.low else 0
        if isinstance(machine, Choice):
            return 0 if at else min([self.least(each) for each in machine.options])
        assert isinstance(machine, Part)
        return self.least(machine)

    def least(self, machine: Machine) -> int:
        """Tokens that are enough for a text of a machine, from its beginning."""
        found = self._least.get(id(machine))
        if found is None:
            self._least[id(machine)] = NEVER  # while it is being found
            start = self._stacks.stack(machine, machine.start(), None)
            if not self.twins.has_parts(machine):
                found = self._distances.fewest(self._states.number(start))
            elif isinstance(machine, Part):
                found = self.least(machine.part)
                if found < machine.at_least or (machine.at_most is not None and found > machine.at_most):
                    found = self._least_of_part(machine)
            else:
                found = self._rest(start)
            self._least[id(machine)] = found
        return found


class LowerBounds:
    """Tokens that are needed, whatever all other limits are; ``plain`` reads the bytes without any."""

    def __init__(self, plain: StackAutomaton, vocab: Vocabulary, require_eos: bool, twins: Twins) -> None:
        self.twins, self._plain = twins, plain
        self._states = Numbered(plain)
        self._whole = Distances(self._states, vocab, require_eos, MOST_POSITIONS)
        self._leaving = Leaving(plain, Crossings(vocab.token_dag), 0, MOST_POSITIONS)
        self._plain_stacks: dict[Stack, tuple[Stack | None, ...]] = {}

    def stacks(self, stack: Stack) -> tuple[Stack | None, ...]:
        """What a stack has up to each open part, the innermost first, and in all, without parts."""
        found = self._plain_stacks.get(stack)
        if found is None:
            found = (None,)
            for frame in frames(stack):
                if isinstance(frame.machine, Part) and frame.local != BEFORE:
                    found = (None, *found)
                    continue
                twin = self.twins.of(frame.machine)
                local = twin.start() if isinstance(frame.machine, Part) else frame.local
                found = tuple([self._plain.stack(twin, local, below) for below in found])
            self._plain_stacks[stack] = found
        return found

    def exceed(self, stack: Stack, left: Sequence[int], end: int) -> bool:
        """Whether more tokens than these are needed: to leave each open part, the outermost first, or to end, with EOS.

        ``NEVER`` is no limit."""
        *parts, whole = self.stacks(stack)
        for part, most in zip(parts, reversed(left), strict=True):
            if part is not None and most < NEVER and self._leaving.exceeds(part, most):
                return True
        if whole is None or end >= NEVER // 2:
            return False
        return not self._whole.within(self._states.number(whole), end)


class Leaving(Search):
    """The fewest tokens that write a byte before the end of a stack; the last of them may go beyond it."""

    def exceeds(self, stack: Stack, most: int) -> bool:
        """Whether it takes more than so many tokens; not, if that is not found out."""
        try:
            return self.distance(stack, most) > most
        except Exhausted:
            return False

    def _from(self, stack: Stack | None, node: int, most: int) -> int:
        if stack is None:
            return int(node != self.root)
        key = (stack, node)
        known = self._values.get(key)
        if known is not None and (known[0] < NEVER or known[1] >= most):
            return known[0]
        crossing = self.crossings.of(stack.machine, stack.local, node)
        best, cost = NEVER, 0
        while cost <= min(most, best - 1):
            for end in crossing.level(cost):
                best = min(best, cost + self._from(stack.parent, end, most - cost))
            if crossing.closed and cost + 1 >= len(crossing.levels):
                break
            cost += 1
        if best > most:
            best = NEVER
        self._values[key] = (best, most)
        return best
