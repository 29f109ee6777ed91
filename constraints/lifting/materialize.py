"""All transitions of a lifted automaton at once.

A row for each (state, set of tokens, state), the sets shared by the states that can: all string bodies have the sets of
their letters in common. Most states are inside letters; theirs are written for all states at the same time.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ...errors import TooManyStates
from .. import limits
from ..vocabulary.trie import Ranges
from .rows import targets, word
from .slices import View
from .walk import Walk

NOTHING = Ranges([])
SMALL = 256  # tokens; smaller sets that lead to one state are joined


class Table(NamedTuple):
    """Rows (source, set, target); the ranks of each set and those left out of it. The last set, of EOS, is not there."""

    source: Int[ndarray, " row"]
    klass: Int[ndarray, " row"]
    target: Int[ndarray, " row"]
    sets: list[tuple[Int[ndarray, " token"], Ranges]]


class Writer:
    """Collects rows and names sets."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.names: dict[Hashable, int] = {}
        self.known: dict[int, int] = {}
        self.kept: list[Int[ndarray, " token"]] = []
        self.sets: list[tuple[Int[ndarray, " token"], Ranges]] = []
        self.single = array("q")  # source, set, target, source, …
        self.many: list[tuple[Int[ndarray, " n"], int, Int[ndarray, " n"]]] = []
        self.count = 0

    def name(self, key: Hashable, ranks: Int[ndarray, " token"], without: Ranges = NOTHING) -> int:
        """The number of a set known by this key: these ranks but for some."""
        if key not in self.names:
            self.names[key] = len(self.sets)
            self.sets.append((ranks, without))
        return self.names[key]

    def name_of(self, ranks: Int[ndarray, " token"]) -> int:
        """The number of a set known by its tokens."""
        found = self.known.get(id(ranks))
        if found is None:
            found = self.name(ranks.tobytes(), ranks)
            self.known[id(ranks)] = found
            self.kept.append(ranks)  # so that no id is used again
        return found

    def add(self, source: Int[ndarray, " n"], name: int, target: Int[ndarray, " n"]) -> None:
        """The same set for many states."""
        self.many.append((source, name, target))
        self.count += len(source)
        if self.count > limits.TRANSITIONS:
            raise TooManyStates(limit=limits.TRANSITIONS)

    def letters(self, view: View, state: Int[ndarray, " n"], index: int) -> None:
        """The tokens within letters, from states with one local state of a cell."""
        found, dfa = self.walk.embedding, self.walk.dfa
        onward, depth, inner = found.next[state], found.depth[state], found.inner[index]
        loop = (found.next[onward] == onward) & (depth >= view.most)
        size = view.cell.size
        for q in range(size):  # any number of letters leads a loop to one state
            ranks = view.by_local[q]
            if len(ranks) and loop.any():
                there = onward[loop] if q == 0 else inner[q, found.place[onward[loop]]]
                self.add(state[loop], self.name((view, q), ranks), there)
        here, done = onward.copy(), 1
        chain = ~loop
        for letters, q, begin, end in view.groups:
            if letters == 0:
                text = word(self.walk.trie, int(view.rank[begin]), view.node)
                there = state
                for byte in text:
                    there, _ = dfa.step(there, byte)
                self.add(state, self.name((view, begin, end), view.rank[begin:end]), there)
                continue
            if not chain.any():
                break
            while done < letters:
                done += 1
                chain &= depth >= done - 1
                here = np.where(chain, found.next[here], here)
            fits = chain & ((letters <= depth) | (letters == depth + 1 if q == 0 else False))
            if fits.any():
                there = here[fits] if q == 0 else inner[q, found.place[here[fits]]]
                self.add(state[fits], self.name((view, begin, end), view.rank[begin:end]), there)


def write_out(walk: Walk, ends: frozenset[int]) -> Table:
    """The transitions of all states, EOS included."""
    writer, found, n = Writer(walk), walk.embedding, walk.dfa.num_states
    plain = np.zeros(n, bool)
    for state in range(n):
        row = walk.row(state)
        assert row is not None
        pieces: dict[int, list[Int[ndarray, " token"]]] = {}
        for target, low, high in row.ranges:
            pieces.setdefault(target, []).append(np.arange(low, high))
        for target, ranks in row.sets:
            pieces.setdefault(target, []).append(ranks)
        for x in row.letters:
            if x.state == state and x.view.node == 0 and not x.without.pieces:
                plain[state] = True  # with all others like it
                continue
            for target, name, ranks in targets(walk, x):
                if len(ranks) > SMALL:
                    if x.without.leaves_some(ranks):
                        key = (x.view, *name, *x.without.pieces)
                        writer.single.extend((state, writer.name(key, ranks, x.without), target))
                elif len(kept := x.without.drop(ranks)):
                    pieces.setdefault(target, []).append(kept)
        for target, parts in pieces.items():
            whole = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
            writer.single.extend((state, writer.name_of(whole), target))
        if len(writer.single) > 3 * limits.TRANSITIONS:
            raise TooManyStates(limit=limits.TRANSITIONS)
    for index, cell in enumerate(found.cells):
        for q in range(cell.size):
            like = np.flatnonzero(plain & (found.cell == index) & (found.local == q))
            if len(like):
                writer.letters(walk.cells.view(cell, q, 0), like, index)
    eos = len(writer.sets)
    single = np.array(writer.single).reshape(-1, 3)
    last = np.array(sorted(ends | {n}), np.int64)
    return Table(
        np.concatenate([single[:, 0], *(s for s, _, _ in writer.many), last]),
        np.concatenate(
            [single[:, 1], *(np.full(len(s), k) for s, k, _ in writer.many), np.full(len(last), eos)]
        ),
        np.concatenate([single[:, 2], *(t for _, _, t in writer.many), np.full(len(last), n)]),
        writer.sets,
    )
