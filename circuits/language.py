"""Operations and questions on the language of an automaton over tokens: set operations, quotients, words in order.

The names are those of the automata-lib package. Languages are sets of token sequences over one vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from ..errors import CircuitError
from ..fingerprints import check_vocabularies
from . import language_algorithms as languages
from .automaton_algorithms import StateGraph, determinize, split_classes, trim, useful

if TYPE_CHECKING:
    import numpy as np

    from .automaton import Automaton


class LanguageMixin(ABC):
    """The operations of :class:`~tractile.Automaton` on its language; resulting automata are trimmed.

    Operations that determinise an automaton raise :class:`TooManyStates` past 100,000 states. Operands of different
    vocabularies raise :class:`VocabularyMismatch`.
    """

    eos_token_id: int | None
    vocabulary_fingerprint: str | None

    @property
    @abstractmethod
    def vocab_size(self) -> int:
        """The number of tokens."""

    @property
    @abstractmethod
    def partitioned(self) -> Automaton:
        """An equal automaton with one partition of the vocabulary for all states."""

    @abstractmethod
    def _over(self, graph: StateGraph, tokens: Any, eos_token_id: int | None) -> Automaton:
        """Make an automaton from a graph, over the vocabulary of this one."""

    def union(self, other: Automaton) -> Automaton:
        """Return the automaton of the sequences that either automaton accepts."""
        return self._with(other, languages.union, ends=True)

    def intersection(self, other: Automaton) -> Automaton:
        """Return the automaton of the sequences that both automata accept."""
        return self._with(other, languages.product, ends=True)

    def difference(self, other: Automaton) -> Automaton:
        """Return the automaton of the sequences that this automaton accepts and the other one does not.

        Examples
        --------
        >>> import tractile as tt
        >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
        >>> ends_in_1 = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 1, 1)], start=0, accept=[1], vocab_size=2)
        >>> list(one.difference(ends_in_1).words(max_tokens=3))
        [(1, 0), (0, 1, 0), (1, 0, 0)]
        """
        a, b, token_class = self._both(other)
        rest = languages.complement(determinize(b), int(token_class.max()) + 1)
        return self._over(trim(languages.product(a, rest)), token_class, self.eos_token_id)

    def symmetric_difference(self, other: Automaton) -> Automaton:
        """Return the automaton of the sequences that exactly one of the two automata accepts."""
        return self.difference(other).union(other.difference(self.partitioned))

    def complement(self) -> Automaton:
        """Return the automaton of all sequences over the vocabulary that this automaton does not accept."""
        graph, _, token_class = self._both(self.partitioned)
        found = languages.complement(determinize(graph), int(token_class.max()) + 1)
        return self._over(trim(found), token_class, None)

    def concatenate(self, other: Automaton) -> Automaton:
        """Return the automaton of the sequences of this automaton followed by one of the other."""
        return self._with(other, languages.concatenate)

    def kleene_star(self) -> Automaton:
        """Return the automaton of concatenations of any number of accepted sequences, the empty sequence included."""
        return self._over(trim(languages.star(self._graph)), self._classes, None)

    def reverse(self) -> Automaton:
        """Return the automaton of the reversed sequences."""
        return self._over(trim(languages.reverse(self._graph)), self._classes, None)

    def left_quotient(self, other: Automaton) -> Automaton:
        """Return the automaton of the sequences w such that uw is accepted for some u of the other automaton."""
        return self._with(other, languages.left_quotient)

    def right_quotient(self, other: Automaton) -> Automaton:
        """Return the automaton of the sequences w such that wu is accepted for some u of the other automaton."""
        return self._with(other, languages.right_quotient)

    def shuffle_product(self, other: Automaton) -> Automaton:
        """Return the automaton of a sequence of this automaton and one of the other, interleaved in any way."""
        return self._with(other, lambda a, b: languages.product(a, b, interleaved=True))

    def is_empty(self) -> bool:
        """Return whether no sequence is accepted."""
        return not bool(useful(self._graph).any())

    def is_finite(self) -> bool:
        """Return whether finitely many sequences are accepted."""
        return languages.is_finite(self._graph)

    def is_subset(self, other: Automaton) -> bool:
        """Return whether the other automaton accepts every sequence that this one accepts."""
        return self.difference(other).is_empty()

    def is_equivalent(self, other: Automaton) -> bool:
        """Return whether both automata accept the same sequences."""
        return self.is_subset(other) and other.is_subset(self.partitioned)

    def cardinality(self, max_tokens: int | None = None) -> int:
        """Count the accepted sequences, exactly; with ``max_tokens`` only sequences of at most that many tokens.

        Raises :class:`CircuitError` if there are infinitely many.

        Examples
        --------
        >>> import tractile as tt
        >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
        >>> one.cardinality(max_tokens=10)  # 1 + 2 + … + 10
        55
        """
        longest = languages.longest(self._graph)
        if longest is None and max_tokens is None:
            raise CircuitError("cardinality: infinitely many sequences are accepted; give max_tokens")
        most = min(n for n in (longest, max_tokens) if n is not None)
        sizes = self.partitioned.labels.class_sizes().tolist()
        return sum(islice(languages.counts(determinize(self._graph), sizes), most + 1))

    def words(self, max_tokens: int | None = None) -> Iterator[tuple[int, ...]]:
        """Iterate over the accepted sequences, shorter ones first, sequences of equal length in lexicographic order.

        ``max_tokens`` bounds their length; without it the iterator of an infinite language does not end.

        Examples
        --------
        >>> import tractile as tt
        >>> from itertools import islice
        >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
        >>> list(islice(one.words(), 4))
        [(1,), (0, 1), (1, 0), (0, 0, 1)]
        """
        longest = languages.longest(self._graph)
        dfa, tokens = determinize(self._graph), [t.tolist() for t in self.partitioned.labels.members()]
        ends = [n for n in (longest, max_tokens) if n is not None]
        for length in range(min(ends) + 1) if ends else count():
            yield from languages.words(dfa, tokens, length)

    @property
    def _graph(self) -> StateGraph:
        return self.partitioned.graph

    @property
    def _classes(self) -> Any:
        return self.partitioned.labels.tokens

    def _both(self, other: Automaton) -> tuple[StateGraph, StateGraph, np.ndarray[Any, Any]]:
        """Return both graphs over a common partition of the tokens, and the class of each token (none is −1)."""
        check_vocabularies(
            "the first automaton", self, "the second", other, "compile both with one vocabulary"
        )
        token_class, ours, theirs = languages.common_partition(self._classes.numpy(), other._classes.numpy())
        return split_classes(self._graph, ours), split_classes(other._graph, theirs), token_class

    def _with(self, other: Automaton, operation: Any, ends: bool = False) -> Automaton:
        """Apply a binary operation; with ``ends`` the result keeps the end token if both automata have the same."""
        a, b, token_class = self._both(other)
        eos = self.eos_token_id if ends and self.eos_token_id == other.eos_token_id else None
        return self._over(trim(operation(a, b)), token_class, eos)
