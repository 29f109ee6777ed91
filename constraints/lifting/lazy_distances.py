"""The fewest tokens from the configurations of a lazy automaton to acceptance.

    fewest(c) = min { n : some tokens t_1 … t_n spell a text from c to acceptance }     EOS included where it must be there

A bound comes first: the tokens that write one completion. Where that does not answer, a search does, which is exact:

    fewest(stack) = min over nodes n of   cost of crossing the top frame to n  +  fewest(stack below, from n)

where a node says how far a token has been read (``token_dag.py``) and crossings are shared by all stacks (``crossings.py``).
What is exact and what is not: a search stops after ``most_positions`` positions, and then the upper bound stands (see
:class:`Distances`). This happens for objects in any order with many members, whose sets of seen members are all gone through
where the upper bound cannot be proved to be the distance; and for texts that registers follow byte by byte, such as names
that must differ.

A vocabulary need not have every byte as a token: then bounds may be ``NEVER`` where the search still finds an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ...circuits.automaton import NEVER
from ..automata.lazy import Body, Configuration, LazyAutomaton, Numbered
from ..automata.stack import Local, LocalBody, Machine, Region, Stack, stacks_of
from .completions import Completions
from .crossings import MOST_POSITIONS, Crossings, Exhausted

if TYPE_CHECKING:
    from ..vocabulary.vocabulary import Vocabulary

KEPT = 100_000  # distances of stacks


class Distances:
    """Distances to acceptance, in tokens, of the states of a lazy automaton.

    ``exact`` is ``False`` once a search has been given up after ``most_positions`` positions: from then on the upper bound
    stands for the states that were asked about. Whatever is allowed still ends within the budget, but a budget that is just
    enough may be refused there. ``given_up`` counts those searches.
    """

    def __init__(
        self,
        states: Numbered,
        vocab: Vocabulary,
        require_eos: bool = True,
        most_positions: int = MOST_POSITIONS,
    ) -> None:
        self.states, self.vocab, self.eos = states, vocab, int(require_eos)
        self.most_positions, self.given_up = most_positions, 0
        dag, automaton = vocab.token_dag, states.automaton
        self._completions = Completions(automaton, dag, self.eos)
        self._some = Search(automaton, Crossings(dag, essential=True), self.eos, most_positions)
        self._all = Search(automaton, Crossings(dag), self.eos, most_positions)
        self._least = Least(Crossings(dag), self.eos)
        self._bounds: list[int] = []
        self._lowered: set[int] = set()  # states whose bound is that of the essential machines
        self._known: dict[int, int] = {}  # state -> distance
        self._more_than: dict[int, int] = {}  # state -> tokens with which acceptance is out of reach

    @property
    def exact(self) -> bool:
        """Whether no search has been given up."""
        return not self.given_up

    def bound(self, state: int) -> int:
        """An upper bound of :meth:`fewest`; ``NEVER`` where the completion cannot be written with the vocabulary."""
        bounds = self._bounds
        if state >= len(bounds):
            bounds += [-1] * (len(self.states.configurations) - len(bounds))
        found = bounds[state]
        if found < 0:
            found = bounds[state] = self._completions.bound(self.states.configurations[state])
        return found

    def lower_bound(self, state: int) -> int:
        """A lower bound of :meth:`fewest`, from the parts of the text that must still come."""
        return self._least.of(self.states.configurations[state])

    def within(self, state: int, left: int) -> bool:
        """Whether acceptance can be reached with at most ``left`` tokens."""
        known = self._known.get(state)
        if known is not None:
            return known <= left
        if self.bound(state) <= left:
            return True
        if left <= self._more_than.get(state, self.eos - 1):
            return False
        return self._search(state, left) <= left

    def fewest(self, state: int) -> int:
        """The fewest tokens to acceptance, ``NEVER`` if none lead there."""
        known = self._known.get(state)
        return self._search(state, self.bound(state)) if known is None else known

    def searched(self, state: int, left: int, positions: int) -> bool:
        """:meth:`within`, anew and with so many positions for the search."""
        before = self._some.most_positions, self._all.most_positions
        self._known.pop(state, None)
        self._more_than.pop(state, None)
        self._lowered.discard(state)
        self._some.most_positions = self._all.most_positions = positions
        try:
            return self.within(state, left)
        finally:
            self._some.most_positions, self._all.most_positions = before

    def _search(self, state: int, most: int) -> int:
        """The distance, if it is at most ``most``; otherwise something larger than that."""
        configuration = self.states.configurations[state]
        bound = self.bound(state)
        if state not in self._lowered:
            self._lowered.add(state)
            with suppress(Exhausted):
                bound = min(bound, self._some.distance(configuration, min(most, bound)))
                self._bounds[state] = bound
        most = min(most, bound - 1)
        if self._least.of(configuration) > most:
            found = NEVER
        else:
            found = self._searched(configuration, most)
        if found <= most:
            self._known[state] = found
        elif most == bound - 1:
            found = self._known[state] = bound
        else:
            self._more_than[state] = most
        return found

    def _searched(self, configuration: Configuration, most: int) -> int:
        try:
            return self._all.distance(configuration, most)
        except Exhausted:
            self.given_up += 1
            return NEVER


class Least:
    """Lower bounds: the tokens that end in texts which must still be read, wherever tokens begin and end around them."""

    def __init__(self, crossings: Crossings, eos: int) -> None:
        self.crossings, self.eos = crossings, eos
        self._of: dict[Stack, int] = {}
        self._part: dict[Machine, int] = {}

    def of(self, configuration: Configuration) -> int:
        """A lower bound of the distance of a configuration."""
        if not isinstance(configuration, Stack | frozenset):
            return self.eos
        return min(self._stack(stack) for stack in stacks_of(configuration))

    def _stack(self, stack: Stack) -> int:
        new: list[Stack] = []
        frame: Stack | None = stack
        while frame is not None and frame not in self._of:
            new.append(frame)
            frame = frame.parent
        below = self.eos if frame is None else self._of[frame]
        for frame in reversed(new):
            below = self._of[frame] = below + self._frame(frame)
        return below

    def _frame(self, frame: Stack) -> int:
        readings, begun = frame.machine.to_come(frame.local)
        found = []
        for parts in readings:
            costs = [self._tokens(part) for part in parts]
            found.append(sum(costs) - (max(costs, default=0) if begun else 0))
        return min(found, default=0)

    def _tokens(self, part: Machine) -> int:
        """The fewest tokens that end in a part, whatever stands around it."""
        if part not in self._part:
            self._part[part] = self._across(part)
        return self._part[part]

    def _across(self, part: Machine) -> int:
        self.crossings.left = MOST_POSITIONS // 10
        dag, start = self.crossings.dag, part.start()
        ways = [self.crossings.of(part, start, node) for node in dag.nodes_after(part.begins_after)]
        with suppress(Exhausted):
            for cost in range(1000):
                if any(way.level(cost) for way in ways):
                    return cost
                if all(way.closed for way in ways):
                    break
        return 0


class Search:
    """Distances by crossings of the frames of stacks, kept by stack and node."""

    def __init__(self, automaton: LazyAutomaton, crossings: Crossings, eos: int, most_positions: int) -> None:
        self.crossings, self.eos, self.most_positions = crossings, eos, most_positions
        self.root = crossings.dag.root
        self.whole = Whole(automaton)
        self._values: dict[tuple[Stack, int], tuple[int, int]] = {}

    def distance(self, configuration: Configuration, most: int) -> int:
        """The distance if it is at most ``most``, otherwise ``NEVER``. Raises :class:`Exhausted`."""
        self.crossings.left = self.most_positions
        if len(self._values) > KEPT:
            self._values.clear()
        try:
            if isinstance(configuration, Stack | frozenset):
                return min(self._value(stack, most) for stack in stacks_of(configuration))
            return self._lowest(configuration, most)
        except Exhausted:
            self._values.clear()
            raise

    def _lowest(self, configuration: Configuration, most: int) -> int:
        """The distance of a configuration that is no stack."""
        crossing = self.crossings.of(self.whole, configuration, self.root, bottom=True)
        for cost in range(most - self.eos + 1):
            if crossing.level(cost):
                return cost + self.eos
            if crossing.closed:
                break
        return NEVER

    def _value(self, stack: Stack, most: int) -> int:
        """The distance of a stack: those below it are asked first, the lowest one before all."""
        new: list[Stack] = []
        frame: Stack | None = stack
        while frame is not None and (frame, self.root) not in self._values:
            new.append(frame)
            frame = frame.parent
        for frame in reversed(new):
            self._from(frame, self.root, most)
        return self._from(stack, self.root, most)

    def _from(self, stack: Stack | None, node: int, most: int) -> int:
        """The distance from the middle of a token, if it is at most ``most``."""
        if stack is None:
            return self.eos if node == self.root else NEVER
        key = (stack, node)
        known = self._values.get(key)
        if known is not None and (known[0] < NEVER or known[1] >= most):
            return known[0]
        below = stack.parent
        crossing = self.crossings.of(stack.machine, stack.local, node, below is None)
        best, cost, least = NEVER, 0, self.eos
        if below is not None:  # a node saves at most its rest
            least = max(least, min(self._from(below, self.root, most), most + 1) + 1 - crossing.most_rest)
        while cost + least <= min(most, best - 1):
            for end in crossing.level(cost):
                best = min(best, cost + self._from(below, end, most - cost))
            if crossing.closed and cost + 1 >= len(crossing.levels):
                break
            cost += 1
        if best > most:
            best = NEVER
        self._values[key] = (best, most)
        return best


class Whole(Region):
    """A lazy automaton as a machine that calls none; the local state is a configuration."""

    def __init__(self, automaton: LazyAutomaton) -> None:
        self.automaton = automaton
        self._bodies: dict[Configuration, Body | None] = {}

    def start(self) -> Local:
        return self.automaton.start()

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return self.automaton.moves(local)

    def final(self, local: Local) -> bool:
        return self.automaton.accepting(local)

    def completion(self, local: Local) -> bytes:
        return self.automaton.completion(local)

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
