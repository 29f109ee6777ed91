"""The fewest tokens from the configurations of a lazy automaton to acceptance.

    fewest(c) = min { n : some tokens t_1 … t_n spell a text from c to acceptance }     EOS included where it must be there

A bound comes first: the tokens that write one completion. Where that does not answer, a search does, which is exact:

    fewest(stack) = min over nodes n of   cost of crossing the top frame to n  +  fewest(stack below, from n)

where a node says how far a token has been read (``token_dag.py``) and crossings are shared by all stacks (``crossings.py``).
A search is given up after ``most_positions`` positions. Then an upper bound stands (see :class:`Distances`): the best of the
completion and of texts whose members come in one order. Asked again, a search goes on where it stopped. Lower bounds keep
searches short (``lower_bounds.py``): nearly always they are the distance of an object or one less. Searches are given up for
objects with a dozen or more required members, if the bounds differ, since they visit all sets of seen members; and for texts
that registers follow byte by byte, such as patterns with counters and names that must differ.

A vocabulary need not have every byte as a token: then bounds may be ``UNREACHABLE`` where the search still finds an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ...circuits.automaton import UNREACHABLE
from .. import limits
from ..automata.lazy import Body, Configuration, LazyAutomaton, Numbered
from ..automata.machines import LazyMachine
from ..automata.region import Local, LocalBody, Machine
from ..automata.stack import Stack, stacks_of
from .completions import Completions
from .crossings import Crossings
from .lower_bounds import Exhausted

if TYPE_CHECKING:
    from ..vocabulary.vocabulary import Vocabulary

KEPT = 100_000  # cached distances of stacks


def short_search(vocab: Vocabulary) -> int:
    """Return the most positions of a search for one token of a mask.
    They are enough to read the longest token several times."""
    longest = len(vocab.trie.bounds) - 2  # bytes
    return max(4 * limits.POSITIONS, 8 * longest)


class Distances:
    """Distances to acceptance, in tokens, of the states of a lazy automaton.

    ``given_up`` counts the searches that were given up after ``most_positions`` positions; ``exact`` says that there were none.
    An upper bound stands for the states that such a search was about. Whatever is allowed still ends within the budget, but a
    budget that is just enough may be refused there.
    """

    def __init__(
        self,
        states: Numbered,
        vocab: Vocabulary,
        require_eos: bool = True,
        most_positions: int = 50 * limits.POSITIONS,
    ) -> None:
        self.states, self.vocab, self.eos = states, vocab, int(require_eos)
        self.most_positions, self.given_up = most_positions, 0
        dag, automaton = vocab.token_dag, states.automaton
        self._completions = Completions(automaton, dag, self.eos)

        def search(instead: Callable[[Machine], Machine]) -> Search:
            return Search(automaton, Crossings(dag, instead), self.eos)

        self._some = search(lambda machine: machine.essential().divided())
        self._all = search(lambda machine: machine.divided())
        # Without the texts of new names: a lower and an upper bound of the distance.
        self._lower = search(lambda machine: machine.forgetting(repeats=True))
        self._upper = search(lambda machine: machine.forgetting(repeats=False))
        self._bounds: list[int] = []
        self._bound_sought: dict[int, int] = {}  # state -> tokens within which a lower bound has been sought
        self._known: dict[int, int] = {}  # state -> distance
        self._more_than: dict[int, int] = {}  # state -> tokens with which acceptance is out of reach

    @property
    def exact(self) -> bool:
        """Whether no search has been given up."""
        return not self.given_up

    def bound(self, state: int) -> int:
        """Return an upper bound of :meth:`fewest`.
        ``UNREACHABLE`` if the completion cannot be written with the vocabulary."""
        bounds = self._bounds
        if state >= len(bounds):
            bounds += [-1] * (len(self.states.configurations) - len(bounds))
        found = bounds[state]
        if found < 0:
            found = bounds[state] = self._completions.bound(self.states.configurations[state])
        return found

    def lower_bound(self, state: int) -> int:
        """Return a lower bound of :meth:`fewest`, from the parts of the text that must still come."""
        return self._lower.lower(self.states.configurations[state])

    def within(self, state: int, left: int) -> bool:
        """Return whether acceptance can be reached with at most ``left`` tokens.
        After a search that was given up, False may be wrong."""
        known = self._known.get(state)
        if known is not None:
            return known <= left
        if self.bound(state) <= left:
            return True
        if left <= self._more_than.get(state, self.eos - 1):
            return False
        return self._search(state, left, left) <= left

    def depends_on_names(self, state: int, left: int) -> bool:
        """Return whether :meth:`within` has to go through the texts of names.
        True also if that takes too long to say."""
        configuration = self.states.configurations[state]
        with suppress(Exhausted):
            found = self._lower.distance(configuration, left, self.most_positions)
            return found <= left and self._lower.crossings.forgets and self._without_names(state, left) > left
        return True

    def fewest(self, state: int) -> int:
        """Return the fewest tokens to acceptance, ``UNREACHABLE`` if none lead there."""
        known = self._known.get(state)
        if known is not None:
            return known
        return self._search(state, self.lowered_bound(state, self.bound(state) - 1))

    def searched(self, state: int, left: int, positions: int) -> bool:
        """Call :meth:`within` with a search of up to ``positions`` positions."""
        before = self.most_positions
        self.most_positions = positions
        try:
            return self.lowered_bound(state, left) <= left or self.within(state, left)
        finally:
            self.most_positions = before

    def lowered_bound(self, state: int, left: int) -> int:
        """Return :meth:`bound`, or a lower one, sought if a distance up to ``left`` is possible."""
        bound = self.bound(state)
        if bound <= left or left <= self._bound_sought.get(state, -1) or self.lower_bound(state) > left:
            return bound
        configuration = self.states.configurations[state]
        if self._lower.crossings.forgets:
            with suppress(Exhausted):
                if self._lower.distance(configuration, left, self.most_positions) > left:
                    self._bound_sought[state] = left
                    return bound
            with suppress(Exhausted):
                bound = self._without_names(state, left)
        with suppress(Exhausted):
            if bound > left:
                found = self._some.distance(configuration, left, self.most_positions)
                bound = self._bounds[state] = min(bound, found)
            self._bound_sought[state] = left
        return bound

    def _without_names(self, state: int, left: int) -> int:
        """Lower the bound of a state by texts whose new names begin differently, and return it.

        These are sought up to ``left`` tokens. Raises :class:`Exhausted`.
        """
        found = self._upper.distance(self.states.configurations[state], left, self.most_positions)
        bound = self._bounds[state] = min(self.bound(state), found)
        return bound

    def _search(self, state: int, most: int, enough: int = 0) -> int:
        """Return the distance if it is at most ``most``, otherwise something larger.

        An upper bound of at most ``enough`` may stand for the distance.
        """
        configuration, bound = self.states.configurations[state], self.bound(state)
        most = min(most, bound - 1)
        try:
            found = self._lower.distance(configuration, most, self.most_positions)
            if found <= most and self._lower.crossings.forgets:
                bound = self._without_names(state, most)
                if found < bound <= enough:
                    return bound
                if found < bound:
                    most = min(most, bound - 1)
                    found = self._all.distance(configuration, most, self.most_positions)
        except Exhausted:
            return self._exhausted(state, most)
        if found <= most:
            self._known[state] = found
        elif most == bound - 1:
            found = self._known[state] = bound
        else:
            self._more_than[state] = most
        return found

    def _exhausted(self, state: int, most: int) -> int:
        """Return the bound that stands for the distance after a search is given up."""
        self.given_up += 1
        return self.lowered_bound(state, most)


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
