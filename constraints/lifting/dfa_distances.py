"""The fewest tokens to acceptance in a byte DFA: by search, or from a table if that is long."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from jaxtyping import Int
from numpy import ndarray

from ..automata.lazy import Numbered
from ..automata.stack import Stack
from ..vocabulary.vocabulary import Vocabulary
from .lazy_distances import Distances, short_search


@final
class DfaDistances(Distances):
    """Exact distances of the states of ``StackAutomaton(DfaMachine(…))``.

    Most masks need none, and a search finds most of the others. It is too long where texts must hold several keywords; then
    ``written``, which gives the distances of all states of the token-level automaton, is called once.
    """

    def __init__(
        self,
        states: Numbered,
        vocab: Vocabulary,
        require_eos: bool,
        written: Callable[[], Int[ndarray, " states"]],
    ) -> None:
        super().__init__(states, vocab, require_eos, short_search(vocab))
        self._written = written
        self._all_known: list[int] | None = None

    def bound(self, state: int) -> int:
        """See :meth:`Distances.bound`."""
        return super().bound(state) if self._all_known is None else self._distance(state, self._all_known)

    def lowered_bound(self, state: int, left: int) -> int:
        """See :meth:`Distances.lowered_bound`."""
        return super().lowered_bound(state, left) if self._all_known is None else self.bound(state)

    def within(self, state: int, left: int) -> bool:
        """See :meth:`Distances.within`."""
        if self._all_known is None:
            return super().within(state, left)
        return self._distance(state, self._all_known) <= left

    def fewest(self, state: int) -> int:
        """See :meth:`Distances.fewest`."""
        return super().fewest(state) if self._all_known is None else self._distance(state, self._all_known)

    def _exhausted(self, state: int, most: int) -> tuple[int, bool]:
        if self._all_known is None:
            self._all_known = self._written().tolist()
        return self._distance(state, self._all_known), False

    def _distance(self, state: int, known: list[int]) -> int:
        configuration = self.states.configurations[state]
        assert isinstance(configuration, Stack)
        return known[configuration.local]
