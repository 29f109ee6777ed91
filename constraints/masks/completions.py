"""How many tokens a completion takes: bounds of the distance to acceptance, from texts alone.

With fewest(i) the fewest tokens that write the last i bytes of a completion, all that a token leads to is accepted within

    fresh + max over i of fewest(i)    (+ 1 for EOS)

more tokens, where a completion after it is at most ``fresh`` bytes and then an end of the completion before it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..automata.lazy import Numbered
from ..vocabulary.vocabulary import Vocabulary

NEVER = 1 << 62
MAX_BOUNDS = 1 << 16  # states whose bound is kept


class Distances(Protocol):
    """The fewest tokens from a state to acceptance, EOS included where it must be there. ``given_up`` counts the searches that
    took too long: there the upper bound stands."""

    given_up: int

    def bound(self, state: int) -> int:
        """An upper bound of the distance."""

    def lowered_bound(self, state: int, left: int) -> int:
        """An upper bound, a lower one where a distance of at most ``left`` is possible and that does not take long."""

    def within(self, state: int, left: int) -> bool:
        """Whether the distance is at most ``left``."""

    def depends_on_names(self, state: int, left: int) -> bool:
        """Whether :meth:`within` has to go through the texts of names."""

    def fewest(self, state: int) -> int:
        """The distance."""

    def searched(self, state: int, left: int, positions: int) -> bool:
        """:meth:`within`, anew and with so many positions for a search."""


class Counts(NamedTuple):
    """By the bytes from the end of a text: the fewest tokens that write them, and the most that any end of them takes."""

    fewest: list[int]
    most: list[int]


class Completions:
    """Upper bounds of distances: the tokens that the completion of a state can be written with."""

    given_up = 0

    def __init__(self, states: Numbered, vocab: Vocabulary, require_eos: bool = True) -> None:
        self.states, self.vocab, self.eos = states, vocab, int(require_eos)
        self._last: tuple[bytes, Counts] = b"", Counts([0], [0])  # the last completion
        self._bounds: dict[int, tuple[int, int]] = {}

    def bound(self, state: int) -> int:
        """The fewest tokens that spell the completion of a state, and one for end-of-sequence where it is required."""
        return self._both(state)[0]

    def lowered_bound(self, state: int, left: int) -> int:
        """The bound."""
        return self.bound(state)

    def within(self, state: int, left: int) -> bool:
        """Whether the bound is at most ``left``; not exact."""
        return self.bound(state) <= left

    def depends_on_names(self, state: int, left: int) -> bool:
        """No: nothing is searched."""
        return False

    def fewest(self, state: int) -> int:
        """The bound; not exact."""
        return self.bound(state)

    def searched(self, state: int, left: int, positions: int) -> bool:
        """:meth:`within`; nothing is searched."""
        return self.within(state, left)

    def bound_of_ends(self, state: int) -> int:
        """The largest bound of the ends of the completions of a state, themselves among them."""
        return self._both(state)[1]

    def of_text(self, text: bytes) -> int:
        """The fewest tokens that spell a text, and one for end-of-sequence where it is required."""
        return self._read(text).fewest[-1] + self.eos

    def tokens(self, text: bytes) -> list[int]:
        """A text as the fewest tokens that spell it."""
        trie, found, at = self.vocab.trie, list[int](), 0
        fewest = self._read(text).fewest
        while at < len(text):
            node, left = 0, fewest[len(text) - at] - 1
            for end in range(at, len(text)):
                node = trie.children(node)[text[end]]
                if trie.views.own[node] and fewest[len(text) - end - 1] == left:
                    found.append(int(trie.order[int(trie.low[node])]))
                    at = end + 1
                    break
        return found

    def _both(self, state: int) -> tuple[int, int]:
        found = self._bounds.get(state)
        if found is None:
            if len(self._bounds) >= MAX_BOUNDS:
                self._bounds.clear()
            bounds, ends = [], []
            for text in self.states.automaton.completions(self.states.configurations[state]):
                fewest, most = self._read(text)
                bounds.append(fewest[-1] + self.eos)
                ends.append(most[-1] + self.eos)
            found = self._bounds[state] = (min(bounds), max(ends))
        return found

    def _read(self, text: bytes) -> Counts:
        """The fewest tokens of every end of a text; what is known of the text before is used again."""
        before, counts = self._last  # at once: another thread may replace it
        known = common_end(text, before)
        fewest, most = counts.fewest[: known + 1], counts.most[: known + 1]
        trie, size = self.vocab.trie, len(text)
        own, children = trie.views.own, trie.children
        for begin in range(size - known - 1, -1, -1):
            node, least, length = 0, NEVER, size - begin
            for end in range(begin, size):
                child = children(node).get(text[end])
                if child is None:
                    break
                node, length = child, length - 1
                if own[node] and fewest[length] < least:
                    least = fewest[length]
            fewest.append(min(NEVER, least + 1))
            most.append(max(most[-1], fewest[-1]))
        counts = Counts(fewest, most)
        self._last = text, counts
        return counts


def common_end(first: bytes, second: bytes) -> int:
    """The length of the longest end that two texts have in common."""
    most = min(len(first), len(second))
    if not most or first[-1] != second[-1]:
        return 0
    if first[-most:] == second[-most:]:
        return most
    low, high = 1, most  # equal up to low, different from high on
    while high - low > 1:
        middle = (low + high) // 2
        if first[-middle:] == second[-middle:]:
            low = middle
        else:
            high = middle
    return low
