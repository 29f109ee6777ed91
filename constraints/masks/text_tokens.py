"""Free text read through a vocabulary: token sets that depend on the letters alone, not on the automaton.

From a node of a trie at the beginning of a letter, a token either consists of letters (the last of which may be cut), or it
leaves the text: it reads k ≥ 1 letters and then a byte that begins none. :class:`TextTokens` has the first kind by k, and
the second kind as a trie of what remains of them from the leaving byte on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from functools import cached_property
from typing import TypeVar

import numpy as np
from jaxtyping import Int, Int16, UInt8
from numpy import ndarray

from ..automata.arrays import ragged_arange
from ..automata.lazy import Letters
from ..vocabulary.trie import Trie, put

MAX_COUNTS = 1 << 17  # tokens whose letters are counted, for one kind of letters
MANY_TOKENS = 2000  # from here on setting them in an array of the vocabulary's size is quicker
NONE = np.empty(0, np.int64)
K = TypeVar("K")
V = TypeVar("V")
Ranks = Int[ndarray, " token"]  # positions of tokens in the lexicographic order of a trie
Bits = UInt8[ndarray, " bytes"]  # a token set: token v in bit v mod 8 of byte v div 8


class LetterTable:
    """The transitions of :class:`~..automata.lazy.Letters` as an array.

    ``after[q, byte]``: the state after a byte, 0 at the end of a letter, −1 for none.
    """

    def __init__(self, letters: Letters) -> None:
        nfa = letters.nfa
        self.after: Int16[ndarray, "local 256"] = np.full((nfa.num_states, 256), -1, np.int16)
        for source, low, high, target in nfa.edges.tolist():
            self.after[source, low : high + 1] = target
        self.begins = frozenset(np.flatnonzero(self.after[0] >= 0).tolist())
        self.no_letter = [byte for byte in range(256) if byte not in self.begins]
        self.before = [
            bisect_left(self.no_letter, byte) for byte in range(257)
        ]  # how many of them are below a byte
        self.rows: list[list[int]] = self.after.tolist()
        self.paths = [b""] * nfa.num_states  # from state 0 to each state within a letter
        todo = [0]
        for state in todo:
            for byte, target in enumerate(self.rows[state]):
                if target > 0 and not self.paths[target]:
                    self.paths[target] = self.paths[state] + bytes([byte])
                    todo.append(target)

        self.rest = [0] * nfa.num_states  # bytes of the shortest end of a letter, from each state within one
        reached, onward = nfa.to_accept
        for source, target in zip(reached[1:].tolist(), onward[reached[1:]].tolist(), strict=True):
            self.rest[source] = self.rest[target] + 1
        self.longest_rest = max(self.rest)
        self.longest_letter = 1 + self.longest_rest
        self._counts: dict[bytes, tuple[int, int]] = {}

    def counted(self, text: bytes) -> tuple[int, int]:
        """Return :meth:`count` (cached)."""
        found = self._counts.get(text)
        if found is None:
            if len(self._counts) >= MAX_COUNTS:
                self._counts.clear()
            found = self._counts[text] = self.count(text)
        return found

    def count(self, text: bytes) -> tuple[int, int]:
        """Return (whole letters, bytes in them) at the beginning of a text."""
        letters = end = state = 0
        for at, byte in enumerate(text):
            state = self.rows[state][byte]
            if state < 0:
                break
            if state == 0:
                letters, end = letters + 1, at + 1
        return letters, end


class Remainders(Trie):
    """The trie of what remains of some tokens below given nodes of another trie.

    ``origin[r]``: the rank in the other trie of the token of rank r; ``letters_before[r]``: the letters before the remainder.
    """

    def __init__(self, trie: Trie, nodes: Int[ndarray, " point"], letters: Int[ndarray, " point"]) -> None:
        above = np.zeros(len(nodes), np.int64)  # nodes of this trie
        parent, byte, bounds = [np.zeros(1, np.int64)], [np.zeros(1, np.uint8)], [0, 1]
        place, origin, count = [NONE], [NONE], [NONE]
        while len(nodes):
            key = above * 256 + trie.byte[nodes]
            new, above = np.unique(key, return_inverse=True)
            above = above + bounds[-1]
            parent.append(new // 256)
            byte.append((new % 256).astype(np.uint8))
            bounds.append(bounds[-1] + len(new))
            own = trie.own[nodes]
            place.append(np.repeat(above, own))
            count.append(np.repeat(letters, own))
            origin.append(ragged_arange(trie.low[nodes], own))
            children = trie.first[nodes + 1] - trie.first[nodes]
            above, letters = np.repeat(above, children), np.repeat(letters, children)
            nodes = ragged_arange(trie.first[nodes], children)
        places, origins, counts = np.concatenate(place), np.concatenate(origin), np.concatenate(count)
        super().__init__(np.concatenate(parent), np.concatenate(byte), bounds, trie.node, NONE)
        self.__dict__["own"] = np.bincount(places, minlength=bounds[-1])
        by_rank = np.argsort(self.low[places], kind="stable")
        self.origin, self.letters_before = origins[by_rank], counts[by_rank]
        self.order = trie.order[self.origin]


class TextTokens:
    """The tokens below a trie node that consist of letters or leave the text after some.

    ``ranks``: of the tokens made of letters, with the ``letters`` that are complete and the state within the last one,
    ``local`` (0 where it is complete). ``exits``: the remainders of those that leave the text.
    """

    def __init__(self, table: LetterTable, trie: Trie, node: int) -> None:
        self.table, self.trie, self.node = table, trie, node
        nodes, state, done = np.array([node]), np.zeros(1, np.int64), np.zeros(1, np.int64)
        ranks, letters, local = [NONE], [NONE], [NONE]
        between, leaving = [np.empty((0, 2), np.int64)], [np.empty((0, 2), np.int64)]
        while len(nodes):
            children = trie.first[nodes + 1] - trie.first[nodes]
            child, parent = (
                ragged_arange(trie.first[nodes], children),
                np.repeat(np.arange(len(nodes)), children),
            )
            after = table.after[state[parent], trie.byte[child]]
            out = (after < 0) & (state[parent] == 0) & (done[parent] > 0)
            leaving.append(np.column_stack([child[out], done[parent[out]]]))
            stay = after >= 0
            nodes, state = child[stay], after[stay].astype(np.int64)
            done = done[parent[stay]] + (state == 0)
            own = trie.own[nodes]
            ranks.append(ragged_arange(trie.low[nodes], own))
            letters.append(np.repeat(done, own))
            local.append(np.repeat(state, own))
            between.append(np.column_stack([nodes, done])[state == 0])
        self.ranks, self.letters, self.local = map(np.concatenate, (ranks, letters, local))
        needed = self.letters + (self.local > 0)
        self.most = int(needed.max(initial=0))  # letters that must still be possible for all of them
        self.between: Int[ndarray, "point 2"] = np.concatenate(between)  # (node, letters) where a letter ends
        points = np.concatenate(leaving)
        self.exits = Remainders(trie, points[:, 0], points[:, 1])
        self.most_leaving = int(points[:, 1].max(initial=0))
        self.leaving = points[:, 0]
        self._needed = needed
        self._letters_at: Int16[ndarray, " node"] | dict[int, int] | None = None

    def tokens(self, most: int) -> Int[ndarray, " token"]:
        """Return the tokens made of at most ``most`` letters, a cut one included."""
        return np.asarray(self.trie.order[self.ranks[self._needed <= most]])

    @cached_property
    def counts(self) -> dict[int, list[int]]:
        """By state within the last letter, the numbers of whole letters before it, in order."""
        found: dict[int, list[int]] = {}
        for kind in np.unique(self.local * (1 << 32) + self.letters).tolist():
            found.setdefault(kind >> 32, []).append(kind & (1 << 32) - 1)
        return found

    @cached_property
    def paths_out(self) -> dict[int, dict[int, int]]:
        """The paths to where tokens leave the text: by node on them, its children on them by byte."""
        found: dict[int, dict[int, int]] = {}
        parent, byte = self.trie.parent, self.trie.byte
        for node in self.leaving.tolist():
            while node != self.node:
                above, by = int(parent[node]), int(byte[node])
                if by in found.setdefault(above, {}):
                    break
                found[above][by] = node
                node = above
        return found

    def letters_at(self, node: int) -> int:
        """Return the letters between this node and one below it; −1 if no letter ends there."""
        if self._letters_at is None:
            self._letters_at = dict(self.between.tolist()) if len(self.between) < 5000 else self._in_array()
        found = self._letters_at
        return found.get(node, -1) if isinstance(found, dict) else int(found[node])

    def _in_array(self) -> Int16[ndarray, " node"]:
        out = np.full(len(self.trie.parent), -1, np.int16)
        out[self.between[:, 0]] = self.between[:, 1]
        return out


def bits_of(trie: Trie, tokens: Int[ndarray, " token"]) -> Bits:
    """Return tokens as a packed set."""
    out = np.zeros(trie.num_bytes, np.uint8)
    add(out, tokens)
    return out


def add(bits: Bits, tokens: Int[ndarray, " token"]) -> None:
    """Add tokens to a packed set, in place."""
    if len(tokens) < MANY_TOKENS:
        put(bits, tokens, True)
    else:
        flags = np.zeros(8 * len(bits), bool)
        flags[tokens] = True
        bits |= np.packbits(flags, bitorder="little")


def keep(kept: OrderedDict[K, V], key: K, value: V, most: int, replace: bool = True) -> V:
    """Cache a value, and drop the oldest one beyond ``most``; return it.
    If ``replace`` is False, a value that is there stays and is returned."""
    if not replace and key in kept:
        return kept[key]
    kept[key] = value
    if len(kept) > most:
        kept.popitem(last=False)
    return value
