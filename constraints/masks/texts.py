"""What is known of free text in one vocabulary: token sets that are made once, for all automata."""

from __future__ import annotations

from collections import OrderedDict

from ..automata.lazy import Letters
from ..vocabulary.trie import Trie
from .pattern_part import PatternTokens
from .text_tokens import Bits, LetterTable, TextTokens, bits_of, keep

MAX_LETTERS = 64  # kinds of letters kept for a vocabulary
MAX_TEXTS = 1024  # nodes kept for one kind of letters and one trie
SET_BYTES = 1 << 25  # of the token sets kept for one trie


class Texts:
    """What has been found out about free text in one vocabulary, shared by all automata."""

    def __init__(self, trie: Trie) -> None:
        self.trie = trie
        self._tables: OrderedDict[bytes, LetterTable] = OrderedDict()
        self._table_of: OrderedDict[Letters, LetterTable] = OrderedDict()
        self._texts: OrderedDict[tuple[LetterTable, Trie, int], TextTokens] = OrderedDict()
        self._sets: OrderedDict[tuple[Trie | TextTokens, int], Bits] = OrderedDict()
        self._kinds: OrderedDict[tuple[TextTokens, int, int, int], Bits] = OrderedDict()
        self._most_sets = max(16, SET_BYTES // max(1, trie.num_bytes))
        self.patterns = PatternTokens(trie)

    def table(self, letters: Letters) -> LetterTable:
        """The transitions of letters; the same object for letters that are read alike."""
        found = self._table_of.get(letters)
        if found is None:
            made = LetterTable(letters)
            found = keep(self._tables, made.after.tobytes(), made, MAX_LETTERS, replace=False)
            keep(self._table_of, letters, found, MAX_LETTERS)
        return found

    def below(self, table: LetterTable, trie: Trie, node: int) -> tuple[TextTokens, int]:
        """The text tokens of a node at or above the given one, and the letters between the two."""
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
        """The tokens at and below a node; not to be written to."""
        found = self._sets.get((trie, node))
        if found is None:
            found = bits_of(trie, trie.order[int(trie.low[node]) : int(trie.high[node])])
            keep(self._sets, (trie, node), found, self._most_sets)
        return found

    def made_of_letters(self, text: TextTokens, most: int) -> Bits:
        """The tokens made of at most so many letters, a cut one included; not to be written to."""
        most = min(most, text.most)
        found = self._sets.get((text, most))
        if found is None:
            found = keep(self._sets, (text, most), bits_of(text.trie, text.tokens(most)), self._most_sets)
        return found

    def with_letters(self, text: TextTokens, least: int, most: int, local: int) -> Bits:
        """The tokens made of some numbers of complete letters that end in a state within the next one; not to be written
        to."""
        key = (text, least, most, local)
        found = self._kinds.get(key)
        if found is None:
            some = (text.local == local) & (text.letters >= least) & (text.letters <= most)
            found = keep(
                self._kinds, key, bits_of(text.trie, text.trie.order[text.ranks[some]]), self._most_sets
            )
        return found
