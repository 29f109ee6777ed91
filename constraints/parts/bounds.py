"""Bounds of the tokens to the end of a part or text, from distances that ignore budgets.

A *stretch* is a piece of text that is read by machines without budgets. Upper bounds are those of texts in which a token
ends at each end of a stretch:

    tokens to leave a part  =  those of the stretch on top  +  the fewest of each stretch between it and the part's end

Lower bounds cover all texts but one limit at a time: the fewest tokens that write all bytes up to the end of a part, where
the last token may go beyond it. Both use the search of :mod:`~..lifting.lazy_distances`, which ignores budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...circuits.automaton import UNREACHABLE
from .. import limits
from ..automata.lazy import Numbered
from ..automata.machines import Choice, Concatenation, Repetition
from ..automata.region import Machine
from ..automata.stack import Stack, StackAutomaton
from ..lifting.crossings import Crossings
from ..lifting.lazy_distances import Distances, short_search
from ..lifting.lower_bounds import Exhausted
from ..lifting.stack_search import Search
from ..vocabulary.vocabulary import Vocabulary
from .automaton import BEFORE, Part, Twins, frames
from .top_frames import Stretches

BOUNDS, SEARCHES, LONG_SEARCHES = range(3)  # how exactly the distances of later stretches are computed


class Layout(NamedTuple):
    """A stack divided into the stretch on top and the frames below.

    ``parts``: the open parts, the outermost first. ``leave[i]``: an upper bound of the tokens from the end of the stretch to
    the end of part i; ``end``: to the end of the text, without EOS. ``last``: nothing can follow the stretch. ``on_part``:
    the stretch ends where the innermost part ends.
    """

    stretch: Stack | None
    parts: tuple[Part, ...]
    leave: tuple[int, ...]
    end: int
    last: bool
    on_part: bool


class Layouts:
    """The layouts of stacks, cached.

    ``search`` finds the tokens of a part if the fewest tokens of its text miss its budget.
    """

    def __init__(self, stretches: Stretches, search: Callable[[Part], int]) -> None:
        self.stretches, self.twins, self._search = stretches, stretches.twins, search
        self._least: dict[int, int] = {}
        self._found: dict[Stack, Layout] = {}
        self._starts: dict[int, Stack] = {}  # initial stacks of machines without budgets
        self.sharpness = BOUNDS

    def sharpen(self) -> bool:
        """Compute the distances of later stretches more exactly from now on.

        Return False if that is not possible.
        """
        if self.sharpness == LONG_SEARCHES:
            return False
        self.sharpness += 1
        self._found.clear()
        self._least.clear()
        return True

    def _fewest(self, machine: Machine) -> int:
        """Return the fewest tokens of a stretch from its beginning, as exactly as ``sharpness`` asks."""
        start = self._starts.setdefault(id(machine), Stack(machine, machine.start(), None))
        if self.sharpness == BOUNDS and (found := self.stretches.bound(start)) < UNREACHABLE:
            return found
        if self.sharpness == LONG_SEARCHES:
            self.stretches.searched(start, self.stretches.fewest(start) - 1)
        return self.stretches.fewest(start)

    def of(self, stack: Stack) -> Layout:
        """Return the layout of a stack."""
        found = self._found.get(stack)
        if found is None:
            found = self._found[stack] = self._of(stack)
        return found

    def _of(self, stack: Stack) -> Layout:
        parts, leave, cost, last = list[Part](), list[int](), 0, True
        below = [frame for frame in frames(stack) if self.twins.has_parts(frame.machine)]
        for frame in reversed(below):
            machine = frame.machine
            if isinstance(machine, Part) and frame.local != BEFORE:
                parts.append(machine)
                leave.append(cost)
            else:
                cost = min(UNREACHABLE, cost + self._rest(machine, frame.local))
                last = last and not machine.calls(frame.local)
        on_part = bool(below) and isinstance(below[-1].machine, Part) and below[-1].local != BEFORE
        stretch = self.stretches.on(stack)
        return Layout(stretch, tuple(reversed(parts)), tuple(reversed(leave)), cost, last, on_part)

    def _rest(self, machine: Machine, at: int) -> int:
        """Return an upper bound of the tokens of the calls that a machine has yet to make."""
        if isinstance(machine, Concatenation):
            return min(UNREACHABLE, sum([self.least(each) for each in machine.parts[at:]]))
        if isinstance(machine, Repetition):
            return min(UNREACHABLE, self.least(machine.part) * (machine.low - at)) if at < machine.low else 0
        if isinstance(machine, Choice):
            return 0 if at else min([self.least(each) for each in machine.options])
        assert isinstance(machine, Part)
        return self.least(machine)

    def least(self, machine: Machine) -> int:
        """Return a number of tokens that suffices for a text of a machine, or ``UNREACHABLE``."""
        found = self._least.get(id(machine))
        if found is None:
            self._least[id(machine)] = UNREACHABLE  # the value seen by recursive calls
            if not self.twins.has_parts(machine):
                found = self._fewest(machine)
            elif isinstance(machine, Part):
                found = self.least(machine.part)
                if found < machine.at_least or (machine.at_most is not None and found > machine.at_most):
                    found = self._search(machine)
            else:
                found = self._rest(machine, machine.start())
            self._least[id(machine)] = found
        return found


class LowerBounds:
    """Tokens that are necessary, one limit at a time; ``plain`` reads the bytes without limits."""

    def __init__(self, plain: StackAutomaton, vocab: Vocabulary, require_eos: bool, twins: Twins) -> None:
        self.twins, self._plain = twins, plain
        self._states = Numbered(plain)
        self._whole = Distances(self._states, vocab, require_eos, short_search(vocab))
        self._leaving = Leaving(plain, Crossings(vocab.token_dag, lambda machine: machine.divided()), 0)
        self._stacks: dict[Stack, tuple[Stack | None, ...]] = {}

    @property
    def given_up(self) -> int:
        """The number of searches that were abandoned at their limit."""
        return self._whole.given_up + self._leaving.given_up

    def _without_limits(self, stack: Stack) -> tuple[Stack | None, ...]:
        """Return the stack without budgets, cut at the end of each open part (innermost first), then whole."""
        known = self._stacks.get(stack)
        if known is not None:
            return known
        found: list[Stack | None] = [None]
        for frame in frames(stack):
            if isinstance(frame.machine, Part) and frame.local != BEFORE:
                found.insert(0, None)
                continue
            twin = self.twins.of(frame.machine)
            local = twin.start() if isinstance(frame.machine, Part) else frame.local
            found = [self._plain.stack(twin, local, each) for each in found]
        return self._stacks.setdefault(stack, tuple(found))

    def exceed(self, stack: Stack, leave: Sequence[int], end: int) -> bool:
        """Return whether more tokens are necessary than a part or the text has left.

        ``leave[i]``: tokens left to the end of the i-th open part, the outermost first; ``end``: to the end of the text, with
        EOS. ``UNREACHABLE`` is no limit.
        """
        *parts, whole = self._without_limits(stack)
        for part, most in zip(parts, reversed(leave), strict=True):
            if part is not None and most < UNREACHABLE and self._leaving.exceeds(part, most):
                return True
        if whole is None or end >= UNREACHABLE // 2:
            return False
        return not self._whole.within(self._states.number(whole), end)


class Leaving(Search):
    """The fewest tokens that write all bytes of a stack; the last of them may go beyond its end."""

    given_up, ends_with_token = 0, False

    def exceeds(self, stack: Stack, most: int) -> bool:
        """Return whether the distance is above ``most`` tokens; False if the search is abandoned."""
        try:
            return self.distance(stack, most, limits.POSITIONS) > most
        except Exhausted:
            self.given_up += 1
            return False

    def _value(self, stack: Stack, most: int) -> int:
        for frame in frames(stack):
            self._from(frame, self.root, most)
        return self._from(stack, self.root, most)

    def least(self, stack: Stack | None) -> tuple[int, int]:
        return 0, 0

    def _end(self, node: int) -> int:
        return int(node != self.root)
