"""Distances of stacks to acceptance, in tokens: crossings of their frames from the top down, see ``lazy_distances.py``."""

from __future__ import annotations

from ...circuits.automaton import UNREACHABLE
from ..automata.lazy import Body, Configuration, LazyAutomaton
from ..automata.machines import LazyMachine
from ..automata.region import Local, LocalBody
from ..automata.stack import Stack, stacks_of
from .crossings import Crossings

KEPT = 100_000  # cached distances of stacks


class Search:
    """Distances of stacks to acceptance: frames are crossed from the top down.
    Results are cached by stack and node."""

    ends_with_token = True  # whether the last token ends where the text does

    def __init__(self, automaton: LazyAutomaton, crossings: Crossings, eos: int) -> None:
        self.crossings, self.eos = crossings, eos
        self.root = crossings.dag.root
        self.whole = Whole(automaton)
        self._values: dict[tuple[Stack, int], tuple[int, int]] = {}
        self._least: dict[Stack, tuple[int, int]] = {}

    def lower(self, configuration: Configuration) -> int:
        """Return a lower bound of the distance of a configuration."""
        if not isinstance(configuration, Stack | frozenset):
            return self.eos
        return min(max(self.least(stack)) for stack in stacks_of(configuration))

    def least(self, stack: Stack | None) -> tuple[int, int]:
        """Return lower bounds from a stack to acceptance: of tokens that end, and that begin."""
        new: list[Stack] = []
        while stack is not None and stack not in self._least:
            new.append(stack)
            stack = stack.parent
        found = (self.eos, self.eos) if stack is None else self._least[stack]
        for frame in reversed(new):
            ending, beginning = self.crossings.bounds.of(frame.machine, frame.local, frame.parent is None)
            found = self._least[frame] = found[0] + ending, found[1] + beginning
        return found

    def distance(self, configuration: Configuration, most: int, positions: int) -> int:
        """Return the distance if it is at most ``most``, otherwise ``UNREACHABLE``.

        Raises :class:`Exhausted` after ``positions`` positions.
        """
        self.crossings.left = positions
        if len(self._values) > KEPT:
            self._values.clear()
        if not isinstance(configuration, Stack | frozenset):
            return self._lowest(configuration, most)
        best = UNREACHABLE
        for stack in sorted(stacks_of(configuration), key=lambda stack: max(self.least(stack))):
            best = min(best, self._value(stack, min(most, best - 1)))
        return best

    def _lowest(self, configuration: Configuration, most: int) -> int:
        """Return the distance, as :meth:`distance`, of a configuration that is no stack."""
        crossing = self.crossings.of(self.whole, configuration, self.root, bottom=True)
        for cost in range(most - self.eos + 1):
            if crossing.level(cost):
                return cost + self.eos
            if crossing.closed:
                break
        return UNREACHABLE

    def _value(self, stack: Stack, most: int) -> int:
        """Return the distance of a stack if at most ``most``; solve the stacks below first."""
        new: list[Stack] = []
        frame: Stack | None = stack.parent
        while frame is not None and (frame, self.root) not in self._values:
            new.append(frame)
            frame = frame.parent
        whole = self.least(stack)
        for frame in reversed(new):
            part = self.least(frame)
            self._from(frame, self.root, most - max(whole[0] - part[0], whole[1] - part[1]))
        return self._from(stack, self.root, most)

    def _end(self, node: int) -> int:
        """Return the distance from the end of the text: unreachable in the middle of a token."""
        return self.eos if node == self.root else UNREACHABLE

    def _from(self, stack: Stack | None, node: int, most: int) -> int:
        """Return the distance of a stack from ``node`` of a token, if at most ``most``."""
        if stack is None:
            return self._end(node)
        key = (stack, node)
        known = self._values.get(key)
        if known is not None and (known[0] < UNREACHABLE or known[1] >= most):
            return known[0]
        ending, beginning = self.least(stack)
        if max(ending, beginning + (node != self.root)) > most:
            return UNREACHABLE
        below = stack.parent
        crossing = self.crossings.of(stack.machine, stack.local, node, self.ends_with_token and below is None)
        least = max(self.least(below))
        best, cost = UNREACHABLE, crossing.least
        while cost + least <= min(most, best - 1):
            for end in crossing.level(cost):
                best = min(best, cost + self._from(below, end, min(most, best - 1) - cost))
            if crossing.closed and cost + 1 >= len(crossing.levels):
                break
            cost += 1
        if best > most:
            best = UNREACHABLE
        self._values[key] = (best, most)
        return best


class Whole(LazyMachine):
    """A lazy automaton as one machine that reports its free text."""

    def __init__(self, automaton: LazyAutomaton) -> None:
        super().__init__(automaton)
        self._bodies: dict[Configuration, Body | None] = {}

    def body(self, local: Local) -> LocalBody | None:
        if local not in self._bodies:
            self._bodies[local] = self.automaton.body(local)
        found = self._bodies[local]
        return (
            None if found is None else LocalBody(found.letters, found.most, found.exceptions, found.settled)
        )

    def after_letters(self, local: Local, count: int) -> Local:
        found = self._bodies[local]
        assert found is not None
        return found.after(count)
