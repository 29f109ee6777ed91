"""Upper bounds of the distance to acceptance, in tokens, from the texts of completions.

Let fewest(i) be the fewest tokens that write the last i bytes of a completion. If, after any allowed token, a completion is at
most ``fresh`` new bytes and then a suffix of the completion before, acceptance is at most

    fresh + max over i of fewest(i)    (+ 1 for EOS)

tokens away from there.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from ..automata.lazy import Numbered
from ..automata.request_limits import search
from ..vocabulary.vocabulary import Vocabulary

NEVER = 1 << 62
MAX_BOUNDS = 1 << 16  # states whose bound is cached
UNITS_A_BYTE = 2  # of work, to split a text into tokens


class Distances(Protocol):
    """The fewest tokens from a state to acceptance, EOS included where it is required.

    ``given_up`` counts the searches that took too long: there the upper bound stands.
    """

    given_up: int

    def bound(self, state: int) -> int:
        """Return an upper bound of the distance."""

    def lower_bound(self, state: int) -> int:
        """Return a lower bound of the distance."""

    def up_to(self, positions: int) -> AbstractContextManager[None]:
        """Let each search visit up to ``positions`` positions."""

    def lowered_bound(self, state: int, left: int) -> int:
        """Return an upper bound, lowered by a short search if a distance up to ``left`` is possible."""

    def within(self, state: int, left: int) -> bool:
        """Return whether the distance is at most ``left``."""

    def depends_on_names(self, state: int, left: int) -> bool:
        """Return whether :meth:`within` has to go through the texts of names."""

    def within_for_any_names(self, state: int, left: int, search: bool) -> bool | None:
        """Return :meth:`within` for all states that differ from this one in forgotten names; ``None`` if unknown.
        ``search``: whether to search if bounds do not tell."""

    def fewest(self, state: int) -> int:
        """Return the distance."""

    def searched(self, state: int, left: int, positions: int) -> bool:
        """Call :meth:`within` anew, with a search of up to ``positions`` positions."""


class Counts(NamedTuple):
    """Token counts of the suffixes of a text.

    ``fewest[i]``: the fewest tokens that write the last i bytes. ``most[i]``: the largest of ``fewest[0] .. fewest[i]``.
    """

    fewest: list[int]
    most: list[int]


class Completions:
    """Upper bounds of distances: the fewest tokens that write the completion of a state."""

    given_up = 0

    def __init__(self, states: Numbered, vocab: Vocabulary, require_eos: bool = True) -> None:
        self.states, self.vocab, self.eos = states, vocab, int(require_eos)
        self._last: tuple[bytes, Counts] = b"", Counts([0], [0])  # the last completion
        self._bounds: dict[int, tuple[int, int]] = {}

    def bound(self, state: int) -> int:
        """Return the fewest tokens that write a completion of a state, EOS included if required."""
        return self._both(state)[0]

    def lower_bound(self, state: int) -> int:
        """Return what EOS takes."""
        return self.eos

    def up_to(self, positions: int) -> AbstractContextManager[None]:
        """Change nothing: nothing is searched."""
        return nullcontext()

    def lowered_bound(self, state: int, left: int) -> int:
        """Return the bound: nothing is searched."""
        return self.bound(state)

    def within(self, state: int, left: int) -> bool:
        """Return whether the bound is at most ``left``; not exact."""
        return self.bound(state) <= left

    def depends_on_names(self, state: int, left: int) -> bool:
        """Return False: nothing is searched."""
        return False

    def within_for_any_names(self, state: int, left: int, search: bool) -> bool | None:
        """Return ``None``: unknown."""
        return None

    def fewest(self, state: int) -> int:
        """Return the bound; not exact."""
        return self.bound(state)

    def searched(self, state: int, left: int, positions: int) -> bool:
        """Call :meth:`within`: nothing is searched."""
        return self.within(state, left)

    def bound_of_ends(self, state: int) -> int:
        """Return the largest bound of all suffixes of the completions of a state."""
        return self._both(state)[1]

    def of_text(self, text: bytes) -> int:
        """Return the fewest tokens that write a text, EOS included if required."""
        return self._read(text).fewest[-1] + self.eos

    def tokens(self, text: bytes) -> list[int]:
        """Split a text into the fewest tokens that write it."""
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
        """Count the tokens of every suffix of a text; those shared with the text before are known."""
        before, counts = self._last  # at once: another thread may replace it
        known = common_end(text, before)
        fewest, most = counts.fewest[: known + 1], counts.most[: known + 1]
        trie, size = self.vocab.trie, len(text)
        own, children = trie.views.own, trie.children
        search(UNITS_A_BYTE * (size - known))
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
    """Return the length, in bytes, of the longest common suffix of two texts."""
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
