"""Byte-pair encoding: which tokens may be neighbours in the encoding of a word.

A word is a sequence of symbols (bytes or characters). The tokenizer merges the adjacent pair of lowest rank, the leftmost
first, until no pair has a rank. A sequence of tokens is the encoding of a word if and only if every token is the encoding of
its own symbols, and every two neighbours are the encoding of theirs. For until the first merge across a boundary, each side
goes through its own merges in its own order, so that merge would happen in these two tokens alone (Berglund and van der
Merwe 2023; Vieira et al. 2025, "Language models over canonical byte-pair encodings", Prop. 2).

Two neighbours a, b are merged across their boundary if a symbol x that is at some time the last of a and a symbol y that is
at some time the first of b exist at one time and their merge comes before either is consumed. So of a only the times matter
at which each symbol on its right edge appears and is consumed.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

ALWAYS = 1 << 60  # the rank, and the time, of what is never merged
NONE = (np.empty(0, np.int64),) * 3
Pair = tuple[int, int]
Merges = Mapping[Pair, tuple[int, int]]  # symbols -> (rank, the symbol that they become)


@dataclass
class TokenEnd:
    """The symbols at one end of a token during its merges; symbol i exists in ``begin[i]:end[i]``.

    Times are ranks, raised to the highest rank merged before.
    """

    symbol: list[int]
    begin: list[int]
    end: list[int]


@dataclass
class MergeHistory:
    """The merges of one token: its two edges, and whether the ranks of its merges never fall."""

    left: TokenEnd
    right: TokenEnd
    rises: bool


def encode(symbols: Sequence[int], merges: Merges) -> list[int]:
    """Return the tokens of a word."""
    return steps(symbols, merges)[0]


def steps(symbols: Sequence[int], merges: Merges) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Return the tokens of a word, and for each merge (rank, position, number of symbols before it)."""
    word, done = list(symbols), []
    ranks = [merges.get(pair, (ALWAYS, -1))[0] for pair in itertools.pairwise(word)]
    while ranks and (least := min(ranks)) < ALWAYS:
        i = ranks.index(least)
        done.append((least, i, len(word)))
        word[i : i + 2] = [merges[word[i], word[i + 1]][1]]
        del ranks[i]
        for j in (i - 1, i):
            if 0 <= j < len(ranks):
                ranks[j] = merges.get((word[j], word[j + 1]), (ALWAYS, -1))[0]
    return word, done


def history(symbols: Sequence[int], merges: Merges) -> MergeHistory | None:
    """Return how a token's own symbols merge into it, or None if they do not."""
    word, left, right = list(symbols), TokenEnd([], [], []), TokenEnd([], [], [])
    tokens, done = steps(symbols, merges)
    if len(tokens) != 1:
        return None
    for edge, symbol in ((left, word[0]), (right, word[-1])):
        edge.symbol.append(symbol)
        edge.begin.append(-1)
    time, rises = -1, True
    for rank, i, length in done:
        rises &= rank >= time
        time = max(time, rank)
        word[i : i + 2] = [merges[word[i], word[i + 1]][1]]
        for edge, here in ((left, i == 0), (right, i == length - 2)):
            if here:
                edge.end.append(time)
                edge.symbol.append(word[i])
                edge.begin.append(time)
    for edge in (left, right):
        edge.end.append(ALWAYS)
    return MergeHistory(left, right, rises)


class Followers:
    """For every token, the tokens that may not follow it within a word.

    ``symbols[t]`` are the symbols of token t, None for tokens that no merge makes (special tokens, bytes of byte fallback).
    """

    def __init__(self, symbols: Sequence[Sequence[int] | None], merges: Merges) -> None:
        self.symbols, self.merges = symbols, merges
        self._forbidden: dict[int, Int[ndarray, " token"]] = {}

    @cached_property
    def histories(self) -> list[MergeHistory | None]:
        """The merge history of each token; None for tokens that occur in no encoding."""
        return [None if word is None else history(word, self.merges) for word in self.symbols]

    @cached_property
    def made(self) -> Bool[ndarray, " token"]:
        """Whether each token is the encoding of its own symbols."""
        return np.array([h is not None for h in self.histories], bool)

    @cached_property
    def _partners(self) -> dict[int, list[tuple[int, int]]]:
        """For each left symbol: (rank, right symbol) of its merges, by ascending rank."""
        found = defaultdict[int, list[tuple[int, int]]](list)
        for (x, y), (rank, _) in self.merges.items():
            found[x].append((rank, y))
        return {x: sorted(pairs) for x, pairs in found.items()}

    @cached_property
    def _starting(self) -> dict[int, tuple[Int[ndarray, " row"], ...]]:
        """For each symbol: (tokens, begins, ends), the tokens that start with it at some time."""
        rows = defaultdict[int, list[tuple[int, int, int]]](list)
        for token, found in enumerate(self.histories):
            if found is not None:
                edge = found.left
                for symbol, begin, end in zip(edge.symbol, edge.begin, edge.end, strict=True):
                    rows[symbol].append((token, begin, end))
        return {symbol: tuple(np.array(r, np.int64).T) for symbol, r in rows.items()}

    @cached_property
    def _falling(self) -> Bool[ndarray, " token"]:
        """Whether the ranks of a token's merges fall somewhere; its pairs are tested by encoding them."""
        return np.array([h is not None and not h.rises for h in self.histories], bool)

    def forbidden(self, token: int) -> Int[ndarray, " token"]:
        """Return the tokens that may not follow this one, ascending."""
        known = self._forbidden.get(token)
        if known is None:
            known = self._forbidden[token] = self._find(token)
        return known

    def _find(self, token: int) -> Int[ndarray, " token"]:
        found = self.histories[token]
        assert found is not None
        edge, certain, likely = found.right, [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for x, begin, end in zip(edge.symbol, edge.begin, edge.end, strict=True):
            for rank, y in self._partners.get(x, ()):
                if found.rises and rank >= end:
                    break
                follower, first, last = self._starting.get(y, NONE)
                tried = self._falling[follower] | (not found.rises)
                likely.append(follower[tried])
                certain.append(follower[~tried & (rank <= last) & (first < end) & (begin <= last)])
        sure = np.unique(np.concatenate(certain))
        across = [t for t in np.unique(np.concatenate(likely)).tolist() if self._merges_across(token, t)]
        return np.union1d(sure, np.array(across, np.int64))

    def _merges_across(self, a: int, b: int) -> bool:
        first, second = self.symbols[a], self.symbols[b]
        assert first is not None
        assert second is not None
        return encode([*first, *second], self.merges) != [a, b]
