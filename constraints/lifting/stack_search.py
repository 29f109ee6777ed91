"""Distances of stacks to acceptance, in tokens: crossings of their frames from the top down, see ``lazy_distances.py``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import cast

from ...circuits.automaton import UNREACHABLE
from ..automata.lazy import Body, Configuration, LazyAutomaton
from ..automata.machines import LazyMachine
from ..automata.region import Local, LocalBody
from ..automata.stack import JOIN, Stack, lowest_first, stacks_of
from .crossings import Crossings
from .lower_bounds import Exhausted, TooDeep

MOST_VISITED = 1_500_000  # positions whose crossings are cached for lower bounds, of about 250 bytes each


class Search:
    """Distances of stacks to acceptance: frames are crossed from the top down.

    Results are cached by stack and node. Whether a search is given up does not depend on those before it: what they have found
    is used only if all of that took less than half of the positions that this one may visit; otherwise it begins anew.
    """

    ends_with_token = True  # whether the last token ends where the text does

    def __init__(self, automaton: LazyAutomaton, crossings: Crossings, eos: int) -> None:
        self.crossings, self.eos, self._spent = (
            crossings.fresh(),
            eos,
            0,
        )  # positions visited in these crossings
        self.root = crossings.dag.root
        self.whole = Whole(automaton)
        self._values: dict[tuple[Stack, int], tuple[int, int]] = {}
        self._least: dict[Stack, tuple[int, int]] = {}
        self._given_up: tuple[Configuration, int, int] | None = (
            None  # what the last search was asked that was given up
        )

    def lower(self, configuration: Configuration) -> int:
        """Return a lower bound of the distance of a configuration."""
        if not isinstance(configuration, Stack | frozenset):
            return self.eos
        try:
            return min([max(self.least(stack)) for stack in stacks_of(configuration)])
        except BaseException:
            self._forget(Crossings(self.crossings.dag, self.crossings.instead))
            raise

    def least(self, stack: Stack) -> tuple[int, int]:
        """Return lower bounds from a stack to acceptance: of tokens that end, and that begin."""
        if stack not in self._least:
            for frame in lowest_first((stack,), self._least.__contains__):
                own = self.crossings.bounds.of(frame.machine, frame.local, not frame.under)
                below = self._below(frame)
                self._least[frame] = own[0] + below[0], own[1] + below[1]
        return self._least[stack]

    def _below(self, stack: Stack) -> tuple[int, int]:
        """Return :meth:`least` of what is under the top frame."""
        found = [self.least(each) for each in stack.under] or [(self.eos, self.eos)]
        return min([ending for ending, _ in found]), min([beginning for _, beginning in found])

    def distance(self, configuration: Configuration, most: int, positions: int) -> int:
        """Return the distance if it is at most ``most``, otherwise ``UNREACHABLE``.

        Raises :class:`Exhausted` after ``positions`` positions.
        """
        key = configuration, most, positions
        if key == self._given_up:
            raise Exhausted
        if 0 < self._spent < positions // 2:
            with suppress(Exhausted):
                return self._found(configuration, most, positions // 2 - self._spent)
        if self.crossings.bounds.crossings.visited > MOST_VISITED:
            self._forget(Crossings(self.crossings.dag, self.crossings.instead))
        elif self._spent:
            self._forget(self.crossings)
        try:
            return self._found(configuration, most, positions)
        except Exhausted:
            self._given_up = key
            raise

    def _forget(self, crossings: Crossings) -> None:
        """Forget what has been found, but for the lower bounds of ``crossings``."""
        if crossings.bounds is not self.crossings.bounds:
            self._least.clear()
        self.crossings, self._spent = crossings.fresh(), 0
        self._values.clear()

    def _found(self, configuration: Configuration, most: int, positions: int) -> int:
        """Compute :meth:`distance` with what is known already."""
        crossings = self.crossings
        crossings.left = positions
        todo: list[Callable[[], object]] = [partial(self._distance, configuration, most)]
        try:
            while True:
                try:
                    found = todo[-1]()
                except TooDeep as inner:
                    todo.append(inner.go_on)
                    continue
                todo.pop()
                if not todo:
                    return cast(int, found)
        except Exhausted:
            raise
        except BaseException:  # the limits of a request, or an interrupt: it may have been stopped anywhere
            self._forget(Crossings(crossings.dag, crossings.instead))
            raise
        finally:
            if crossings is self.crossings:
                self._spent += positions - crossings.left

    def _distance(self, configuration: Configuration, most: int) -> int:
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
        whole, root = self.least(stack), self.root
        for frame in lowest_first((stack,), lambda each: (each, root) in self._values):
            part = self.least(frame)
            above = max(whole[0] - part[0], whole[1] - part[1])
            self._from(frame, root, most - above)
        return self._from(stack, root, most)

    def _end(self, node: int) -> int:
        """Return the distance from the end of the text: unreachable in the middle of a token."""
        return self.eos if node == self.root else UNREACHABLE

    def _from(self, stack: Stack, node: int, most: int) -> int:
        """Return the distance of a stack from ``node`` of a token, if at most ``most``."""
        key = (stack, node)
        known = self._values.get(key)
        if known is not None and (known[0] < UNREACHABLE or known[1] >= most):
            return known[0]
        ending, beginning = self.least(stack)
        if max(ending, beginning + (node != self.root)) > most:
            return UNREACHABLE
        best = UNREACHABLE
        if stack.machine is JOIN:
            for each in stack.under:
                best = min(best, self._from(each, node, min(most, best - 1)))
        else:
            best = self._across(stack, node, most)
        if best > most:
            best = UNREACHABLE
        self._values[key] = (best, most)
        return best

    def _across(self, stack: Stack, node: int, most: int) -> int:
        """Return the distance of a stack from ``node`` of a token, by the crossing of its top frame."""
        below = stack.parent
        crossing = self.crossings.of(stack.machine, stack.local, node, self.ends_with_token and below is None)
        least = max(self._below(stack))
        best, cost = UNREACHABLE, crossing.least
        while cost + least <= min(most, best - 1):
            for end in crossing.level(cost):
                rest = self._end(end) if below is None else self._from(below, end, min(most, best - 1) - cost)
                best = min(best, cost + rest)
            if crossing.closed and cost + 1 >= len(crossing.levels):
                break
            cost += 1
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
