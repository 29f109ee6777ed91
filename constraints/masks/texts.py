"""Token sets for free text in one vocabulary, made once and shared by all automata."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from ..automata.lazy import Letters
from ..automata.sharing import Reach, Sharing
from ..automata.stack import Stack
from ..vocabulary.trie import Trie
from .pattern_part import PatternTokens
from .text_tokens import Bits, LetterTable, TextTokens, bits_of, keep

MAX_LETTERS = 64  # kinds of letters cached for a vocabulary
MAX_TEXTS = 1024  # nodes whose text tokens are cached
SET_BYTES = 1 << 25  # of cached token sets
MASK_BYTES = 1 << 26  # of cached masks
ENTRY_BYTES = 1 << 11  # of an entry beside the mask: its place in a table, the keys
MAX_EXITS = 1 << 13  # cached sets of tokens that leave free text
STRAYS = object()


class ByFrames:
    """A cache by the keys of the frames that a value depends on, the top first.

    See :mod:`~..automata.sharing`. A key is a pair, of the key for the frames above and that of the frame. ``None`` stands for
    values that depend on more frames, :data:`STRAYS` for those that depend on more than the keys of all frames.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[Hashable, Hashable], Any] = OrderedDict()

    def find(self, sharing: Sharing, stack: Stack, what: Hashable) -> Any:
        """Return a value, :data:`STRAYS`, or ``None`` if there is none."""
        key, frame, kept = what, stack, self._kept
        while True:
            key = key, sharing.key(frame)
            if key not in kept:
                return None
            if (found := kept[key]) is not None or frame.parent is None:
                return found
            frame = frame.parent

    def keep(self, sharing: Sharing, stack: Stack, what: Hashable, reach: Reach | None, value: Any) -> None:
        """Cache a value by as many frames as ``reach`` says; ``None``: mark all as strays."""
        key, frame, frames = what, stack, stack.depth if reach is None else reach.frames
        for _ in range(frames):
            key = key, sharing.key(frame)
            self._kept[key] = None
            assert frame.parent is not None
            frame = frame.parent
        self._kept[key, sharing.key(frame)] = STRAYS if reach is None else value
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)


class Texts:
    """What is known of free text in one vocabulary, shared by all automata."""

    def __init__(self, trie: Trie) -> None:
        self.trie = trie
        self._tables: OrderedDict[bytes, LetterTable] = OrderedDict()
        self._table_of: OrderedDict[Letters, LetterTable] = OrderedDict()
        self._texts: OrderedDict[tuple[LetterTable, Trie, int], TextTokens] = OrderedDict()
        self._sets: OrderedDict[tuple[Trie | TextTokens, int], Bits] = OrderedDict()
        self._kinds: OrderedDict[tuple[TextTokens, int, int, int], Bits] = OrderedDict()
        self._most_sets = max(16, SET_BYTES // max(1, trie.num_bytes))
        self.patterns = PatternTokens(trie)
        self.masks = ByFrames(max(16, MASK_BYTES // (trie.num_bytes + ENTRY_BYTES)))
        self.exits = ByFrames(MAX_EXITS)

    def table(self, letters: Letters) -> LetterTable:
        """Return the transitions of letters, one object for all letters that are read alike."""
        found = self._table_of.get(letters)
        if found is None:
            made = LetterTable(letters)
            found = keep(self._tables, made.after.tobytes(), made, MAX_LETTERS, replace=False)
            keep(self._table_of, letters, found, MAX_LETTERS)
        return found

    def below(self, table: LetterTable, trie: Trie, node: int) -> tuple[TextTokens, int]:
        """Return the text tokens of a node at or above this one, and the letters between the two."""
        if trie is self.trie:
            whole = self._texts.get((table, trie, 0))
            if whole is None:
                whole = keep(self._texts, (table, trie, 0), TextTokens(table, trie, 0), MAX_TEXTS)
            if node == 0:
                return whole, 0
            if (letters := whole.letters_at(node)) > 0:
                return whole, letters
        found = self._texts.get((table, trie, node))
        if found is None:
            found = keep(self._texts, (table, trie, node), TextTokens(table, trie, node), MAX_TEXTS)
        return found, 0

    def tokens_below(self, trie: Trie, node: int) -> Bits:
        """Return the packed set of the tokens at and below a node. It is read-only."""
        found = self._sets.get((trie, node))
        if found is None:
            found = bits_of(trie, trie.order[int(trie.low[node]) : int(trie.high[node])])
            keep(self._sets, (trie, node), found, self._most_sets)
        return found

    def made_of_letters(self, text: TextTokens, most: int) -> Bits:
        """Return the set of the tokens of at most ``most`` letters, a cut one included. Read-only."""
        most = min(most, text.most)
        found = self._sets.get((text, most))
        if found is None:
            found = keep(self._sets, (text, most), bits_of(text.trie, text.tokens(most)), self._most_sets)
        return found

    def with_letters(self, text: TextTokens, least: int, most: int, local: int) -> Bits:
        """Return the tokens of ``least`` to ``most`` whole letters, then a part of one up to ``local``.
        ``local`` 0: no part. The set is read-only."""
        key = (text, least, most, local)
        found = self._kinds.get(key)
        if found is None:
            some = (text.local == local) & (text.letters >= least) & (text.letters <= most)
            found = keep(
                self._kinds, key, bits_of(text.trie, text.trie.order[text.ranks[some]]), self._most_sets
            )
        return found
