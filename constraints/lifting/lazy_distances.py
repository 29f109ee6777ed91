"""The fewest tokens from the configurations of a lazy automaton to acceptance.

    fewest(c) = min { n : some tokens t_1 … t_n spell a text from c to acceptance }     EOS included where it must be there

A bound comes first: the tokens that write one completion. Where that does not answer, a search does, which is exact:

    fewest(stack) = min over nodes n of   cost of crossing the top frame to n  +  fewest(stack below, from n)

where a node says how far a token has been read (``token_dag.py``) and crossings are shared by all stacks (``crossings.py``).
A search is given up after ``most_positions`` positions. Then an upper bound stands (see :class:`Distances`): the best of the
completion and of texts whose members come in one order. What was asked before changes no answer. Lower bounds keep
searches short (``lower_bounds.py``): nearly always they are the distance of an object or one less. Searches are given up for
objects with a dozen or more required members, where all sets of seen members are visited: within other values, or if the lower
bound is too low; and for texts that registers follow byte by byte, such as patterns with counters and names that must differ.

A vocabulary need not have every byte as a token: then bounds may be ``UNREACHABLE`` where the search still finds an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from ...circuits.automaton import UNREACHABLE
from .. import limits
from ..automata.lazy import Numbered
from ..automata.region import Machine
from ..automata.stack import stacks_of
from .completions import Completions
from .crossings import Crossings
from .lower_bounds import Exhausted
from .stack_search import Search

if TYPE_CHECKING:
    from ..vocabulary.vocabulary import Vocabulary

KEPT = 1 << 16  # answers kept


def short_search(vocab: Vocabulary) -> int:
    """Return the most positions of a search for one token of a mask.
    They are enough to read the longest token several times."""
    longest = len(vocab.trie.bounds) - 2  # bytes
    return max(8 * limits.POSITIONS, 8 * longest)


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
        self._found: dict[
            tuple[int, ...], tuple[int, bool]
        ] = {}  # answers of searches; whether they were given up
        self._lowered: dict[tuple[int, ...], int] = {}

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
        return self.bound(state) <= left or self._search(state, left, left) <= left

    def depends_on_names(self, state: int, left: int) -> bool:
        """Return whether :meth:`within` has to go through the texts of names.
        True also if that takes too long to say."""
        configuration = self.states.configurations[state]
        with suppress(Exhausted):
            found = self._lower.distance(configuration, left, self.most_positions)
            return found <= left and self._lower.crossings.forgets and self._without_names(state, left) > left
        return True

    def within_for_any_names(self, state: int, left: int, search: bool) -> bool | None:
        """Return :meth:`within` for all states that this one of ``StackAutomaton.names_forgotten`` stands for.

        ``None`` if that depends on the names. Without ``search``, and after one that is given up, False may be wrong.
        """
        configuration, depends = self.states.configurations[state], False
        for stack in stacks_of(configuration):
            one = self.states.number(stack)
            if self.bound(one) <= left:
                end = self.states.run(one, self.states.automaton.completion(stack))
                if end >= 0 and self.states.accepting(end):
                    return True
                depends = True  # the completion may have a name that begins as a forgotten one does
        if search:
            try:
                if self._lower.distance(configuration, left, self.most_positions) > left:
                    return False
                if self._upper.distance(configuration, left, self.most_positions) <= left:
                    return True
                depends = True
            except Exhausted:
                self.given_up += 1
        return None if depends else False

    def fewest(self, state: int) -> int:
        """Return the fewest tokens to acceptance, ``UNREACHABLE`` if none lead there."""
        bound = self.lowered_bound(state, self.bound(state) - 1)
        return min(bound, self._search(state, bound - 1))

    @contextmanager
    def up_to(self, positions: int) -> Iterator[None]:
        """Let each search visit up to ``positions`` positions."""
        before, self.most_positions = self.most_positions, positions
        try:
            yield
        finally:
            self.most_positions = before

    def searched(self, state: int, left: int, positions: int) -> bool:
        """Call :meth:`within` with a search of up to ``positions`` positions."""
        with self.up_to(positions):
            return self.lowered_bound(state, left) <= left or self.within(state, left)

    def lowered_bound(self, state: int, left: int) -> int:
        """Return :meth:`bound`, or a lower one, sought if a distance up to ``left`` is possible."""
        bound = self.bound(state)
        if bound <= left or self.lower_bound(state) > left:
            return bound
        key = state, left, self.most_positions
        if key not in self._lowered:
            if len(self._lowered) >= KEPT:
                self._lowered.clear()
            self._lowered[key] = min(bound, self._other_texts(state, left))
        return self._lowered[key]

    def _other_texts(self, state: int, left: int) -> int:
        """Return a bound as :meth:`lowered_bound`, from texts whose new names begin differently and from short ones."""
        configuration = self.states.configurations[state]
        with suppress(Exhausted):
            found = self._lower.distance(configuration, left, self.most_positions)
            if found > left or not self._lower.crossings.forgets:
                return found
        if self._lower.crossings.forgets:
            with suppress(Exhausted):
                if (found := self._without_names(state, left)) <= left:
                    return found
        with suppress(Exhausted):
            return self._some.distance(configuration, left, self.most_positions)
        return UNREACHABLE

    def _without_names(self, state: int, left: int) -> int:
        """Return a bound of at most ``left`` from texts whose new names begin differently, ``UNREACHABLE`` if there is none.
        Raises :class:`Exhausted`."""
        return self._upper.distance(self.states.configurations[state], left, self.most_positions)

    def _search(self, state: int, most: int, enough: int = 0) -> int:
        """Return the distance if it is at most ``most``, otherwise something larger.

        An upper bound of at most ``enough`` may stand for the distance.
        """
        key = state, most, enough, self.most_positions
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= KEPT:
                self._found.clear()
            try:
                found = self._exact(state, most, enough), False
            except Exhausted:
                found = self._exhausted(state, most)
            self._found[key] = found
        self.given_up += found[1]
        return found[0]

    def _exact(self, state: int, most: int, enough: int) -> int:
        """Compute :meth:`_search`. Raises :class:`Exhausted`."""
        configuration, bound = self.states.configurations[state], self.bound(state)
        most = min(most, bound - 1)
        found = self._lower.distance(configuration, most, self.most_positions)
        if found <= most and self._lower.crossings.forgets:
            other = self._without_names(state, most)
            if found < other and other > enough:
                most = min(most, other - 1)
                found = min(other, self._all.distance(configuration, most, self.most_positions))
            else:
                found = other
        return min(found, bound)

    def _exhausted(self, state: int, most: int) -> tuple[int, bool]:
        """Return what stands for the distance after a search is given up, and whether it is only a bound."""
        return self.lowered_bound(state, most), True
