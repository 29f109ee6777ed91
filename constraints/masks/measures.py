"""Measures of the states after a mask's tokens: upper bounds of the bytes to acceptance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from ..automata.lazy import Numbered
from ..automata.region import Machine
from ..automata.sharing import Passed, Reach
from ..automata.stack import NEVER, Stack, StackAutomaton
from .completions import common_end
from .text_part import TextPart

MOST_MOVED = 2000  # new states of a walk whose stacks are looked at; with more it strays


class Longest:
    """The bytes to acceptance, bounded by the frames' machines alone, less those of the origin.

    :data:`NEVER` if the automaton is no stack automaton (``origin`` is ``None``). It also records how far down the stack walks
    move on: see :class:`~..automata.sharing.Passed`.
    """

    by_frames = True

    def __init__(self, states: Numbered, origin: Stack | None) -> None:
        self.configurations = states.configurations
        self.passed: Passed | None = None
        if origin is not None:
            assert isinstance(states.automaton, StackAutomaton)
            self.passed = Passed(states.automaton, origin)
        self._known = set[int]()
        self._of: dict[tuple[Machine, Stack | None], int] = {}  # by the top machine and the stack below it

    @property
    def reach(self) -> Reach | None:
        """How far walks have gone, ``None`` if the frames of the origin do not fix what they meet."""
        return None if self.passed is None else self.passed.reach

    def of(self, state: int) -> int:
        """Return the measure of a state."""
        if self.passed is None:
            return NEVER
        configuration = self.configurations[state]
        if not isinstance(configuration, Stack):
            return self.passed.extra(configuration)
        key = configuration.machine, configuration.parent
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = self.passed.extra(configuration)
        return found

    def moved(self, states: Set[int]) -> None:
        """Record the states that a walk has moved on from."""
        if self.passed is None or self.passed.strays:
            return
        new = states - self._known
        if len(new) > MOST_MOVED:
            self.passed.strays = True
        else:
            self._known |= new
            self.passed.add([self.configurations[state] for state in new])

    def exit(self, state: int, most: int, reach: Reach | None) -> int:
        """Return the measure of the states after some remainders, ``most`` if taken from ``state``."""
        if self.passed is None:
            return NEVER
        configuration = self.configurations[state]
        assert isinstance(configuration, Stack)
        self.passed.add_reach(configuration, reach)
        return min(NEVER, most + self.of(state))

    def within_text(self, part: TextPart) -> int:
        """Return the measure of the states within free text."""
        return self.of(part.state)

    def within_pattern(self, state: int, reached: Iterable[int] | None) -> int:
        """Return the measure of the states within a pattern."""
        return self.of(state)


class Fresh:
    """The bytes of a state's completion before the longest suffix of one of those in ``base``."""

    by_frames, reach = False, None

    def __init__(self, states: Numbered, base: Sequence[bytes]) -> None:
        self.states, self.base = states, base

    def of(self, state: int) -> int:
        """Return the measure of a state."""
        text = self.states.automaton.completion(self.states.configurations[state])
        return len(text) - max([common_end(text, one) for one in self.base])

    def moved(self, states: Set[int]) -> None:
        """Do nothing: the measure does not depend on these states."""

    def exit(self, state: int, most: int, reach: Reach | None) -> int:
        """Return the measure of the states after some remainders, ``most`` if taken from ``state``."""
        return self.of(state) + most

    def within_text(self, part: TextPart) -> int:
        """Return the measure of the states within free text."""
        new = max([self.of(part.after(k)) for k in part.counts()], default=0) + part.table.longest_rest
        return new + part.table.longest_letter if part.body.within and part.body.exceptions else new

    def within_pattern(self, state: int, reached: Iterable[int] | None) -> int:
        """Return the measure of the states within a pattern; ``reached``: all of them, if they are known."""
        if reached is not None:
            return max(map(self.of, reached), default=0)
        automaton, configuration = self.states.automaton, self.states.configurations[state]
        assert isinstance(automaton, StackAutomaton)
        active = [stack.machine for stack in automaton.active(configuration)[0]]
        longest = min([NEVER if each.longest is None else each.longest for each in active])
        return min(NEVER, longest + 1)


Measure = Longest | Fresh
"""A measure; ``by_frames``: whether it is equal for all local states of the top frame."""
