"""Repeated letters: the parts of byte automata in which most tokens spend all their bytes.

In the body of a string any letter may come next, and each is a few bytes. A *cell* is the automaton of one letter: local
state 0 stands between two letters, and reading a letter leads back to it. From a local state a token either stays within
letters, and is then told by how many it completes and where it ends, or it leaves between two of them by a byte that
begins no letter (a closing quote). Neither depends on which string it is or on how many letters are still allowed: a
:class:`View` says it for all tokens at once, and is made once for a vocabulary.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Hashable
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int, Int16, UInt8
from numpy import ndarray

from ..automata.arrays import spans
from ..vocabulary.trie import Trie

MAX_CELLS = 64  # kept for a vocabulary
MASK_BYTES = 1 << 25  # of masks kept for a vocabulary
SMALL = 64  # tokens; sets of so few are not kept as bits
NONE = np.empty(0, np.int64)


class Cell:
    """The automaton of one letter: ``table[q, byte]`` is the local state after a byte, 0 a letter's end, −1 nowhere."""

    def __init__(self, table: Int16[ndarray, "local 256"]) -> None:
        self.table = table
        self.size = len(table)
        self.begins: Bool[ndarray, " 256"] = table[0] >= 0
        self.first_bytes = frozenset(np.flatnonzero(self.begins).tolist())
        self.first_below = [0, *np.cumsum(self.begins).tolist()]  # how many of them are below each byte
        self.single_bytes = frozenset(np.flatnonzero(table[0] == 0).tolist())
        self.weight = weight(np.flatnonzero(table[0] == 0))
        self.ranges: list[list[tuple[int, int, int]]] = []  # of each local state: (low, high, target)
        for row in table.tolist():
            runs: list[tuple[int, int, int]] = []
            for byte, target in enumerate(row):
                if target < 0:
                    continue
                if runs and runs[-1][1] == byte - 1 and runs[-1][2] == target:
                    runs[-1] = (runs[-1][0], byte, target)
                else:
                    runs.append((byte, byte, target))
            self.ranges.append(runs)
        self.paths: list[bytes] = [
            b""
        ] * self.size  # a word from 0 to each local state, without a letter's end
        found, queue = {0}, [0]
        for q in queue:
            for byte, _, target in self.ranges[q]:
                if target not in found:
                    found.add(target)
                    queue.append(target)
                    self.paths[target] = self.paths[q] + bytes([byte])
        self.views: dict[tuple[int, int], View] = {}


def weight(letters: Int[ndarray, " n"]) -> int:
    """The number of bytes that are not continuation bytes of UTF-8."""
    return int(((letters < 0x80) | (letters >= 0xC0)).sum())


class View:
    """All tokens below a node of the trie, read from a local state of a cell.

    ``rank``, ``letters``, ``local``: the tokens that stay within letters, by the letters that they complete and the local
    state they end in, sorted by both. ``after(byte)``: what follows where a token leaves between two letters, at least one of
    which it has completed.
    """

    def __init__(self, cell: Cell, local: int, node: int, trie: Trie) -> None:
        self.cell, self.local_begin, self.trie, self.node = cell, local, trie, node
        self._after: dict[int, Suffixes] = {}
        self._paths_out: dict[frozenset[int], tuple[dict[int, dict[int, int]], frozenset[int]]] = {}
        self._packed: dict[int, UInt8[ndarray, " bytes"]] = {}
        nodes, state = np.array([node]), np.array([local])
        done = np.zeros(1, np.int64)
        rank, code = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        between, leaving = [np.empty((0, 2), np.int64)], [np.empty((0, 2), np.int64)]
        while len(nodes):
            count = trie.first[nodes + 1] - trie.first[nodes]
            child, parent = spans(trie.first[nodes], count), np.repeat(np.arange(len(nodes)), count)
            after = cell.table[state[parent], trie.byte[child]]
            letters = done[parent]
            out = (after < 0) & (state[parent] == 0) & (letters > 0)
            leaving.append(np.column_stack([child[out], letters[out]]))
            stay = after >= 0
            nodes, state = child[stay], after[stay].astype(np.int64)
            done = letters[stay] + (state == 0)
            own = trie.own[nodes]
            rank.append(spans(trie.low[nodes], own))
            code.append(np.repeat(done * cell.size + state, own))
            between.append(np.column_stack([nodes, done])[state == 0])
        codes = np.concatenate(code)
        order = np.argsort(codes, kind="stable")
        self.rank, codes = np.concatenate(rank)[order], codes[order]
        self.letters, self.local = codes // cell.size, codes % cell.size
        self.most = int(self.letters[-1]) if len(codes) else 0
        self.between = np.concatenate(between)  # (node, letters) of all points between two letters
        self._leaving = np.concatenate(leaving)
        self.most_leaving = int(self._leaving[:, 1].max(initial=0))

    def inside(self, depth: int) -> Int[ndarray, " inside"]:
        """The ranks of the tokens within letters, ``depth`` of which may be followed by further bytes."""
        if depth >= self.most:
            return self.rank
        whole, end = np.searchsorted(self.letters, [depth, depth + 1], side="right").tolist()
        return np.concatenate([self.rank[:whole], self.rank[whole:end][self.local[whole:end] == 0]])

    @cached_property
    def groups(self) -> list[tuple[int, int, int, int]]:
        """(letters, local state, begin, end): the runs of equal tokens in ``rank``."""
        if not len(self.rank):
            return []
        code = self.letters * self.cell.size + self.local
        head = np.flatnonzero(np.concatenate([[True], code[1:] != code[:-1]]))
        ends = np.append(head[1:], len(code))
        return list(
            zip(
                self.letters[head].tolist(),
                self.local[head].tolist(),
                head.tolist(),
                ends.tolist(),
                strict=True,
            )
        )

    @cached_property
    def by_local(self) -> list[Int[ndarray, " token"]]:
        """For each local state, the ranks of the tokens that complete a letter and end in it."""
        rank, local = self.rank[self.letters > 0], self.local[self.letters > 0]
        return [rank[local == q] for q in range(self.cell.size)]

    def after(self, byte: int) -> Suffixes:
        """What follows where tokens leave between two letters by a byte."""
        if byte not in self._after:
            points = self._leaving[self.trie.byte[self._leaving[:, 0]] == byte]
            self._after[byte] = Suffixes(self.trie, points)
        return self._after[byte]

    def paths_out(self, exits: frozenset[int]) -> tuple[dict[int, dict[int, int]], frozenset[int]]:
        """The nodes at which tokens leave between two letters by one of these bytes, after none of them too, and the
        children, by their bytes, of the nodes on the way there."""
        if exits not in self._paths_out:
            trie, children = self.trie, dict[int, dict[int, int]]()
            points = self._leaving[np.isin(trie.byte[self._leaving[:, 0]], list(exits)), 0].tolist()
            if self.local_begin == 0:
                points += [child for byte, child in trie.children(self.node).items() if byte in exits]
            for child in points:
                while child != self.node:
                    above, byte = int(trie.parent[child]), int(trie.byte[child])
                    if byte in children.setdefault(above, {}):
                        break
                    children[above][byte] = child
                    child = above
            self._paths_out[exits] = children, frozenset(points)
        return self._paths_out[exits]

    def put(self, depth: int, tokens: list[int], sets: list[UInt8[ndarray, " bytes"]]) -> None:
        """Add the tokens within letters, ``depth`` of which may be followed by further bytes."""
        depth = min(depth, self.most)
        if len(self.rank) <= SMALL:
            tokens += self.trie.order[self.inside(depth)].tolist()
        else:
            sets.append(self.packed(depth))

    def packed(self, depth: int) -> UInt8[ndarray, " bytes"]:
        """These tokens, eight to a byte, the lowest bit first."""
        depth = min(depth, self.most)
        if depth not in self._packed:
            self._packed[depth] = np.packbits(self._needed <= depth, bitorder="little")
        return self._packed[depth]

    @cached_property
    def _needed(self) -> UInt8[ndarray, " bit"] | Int16[ndarray, " bit"]:
        """For each token how many letters must be followed by further bytes, so that it may be read; else the most there is."""
        kind = np.uint8 if self.most < 255 else np.int16
        needed: UInt8[ndarray, " bit"] | Int16[ndarray, " bit"]
        needed = np.full(8 * self.trie.num_bytes, np.iinfo(kind).max, kind)
        needed[self.trie.order[self.rank]] = self.letters - (self.local == 0)
        return needed


class Suffixes:
    """A tree of the bytes after given nodes of the trie: node 0 stands for all of them.

    ``points``: rows (node, letters before it).
    """

    def __init__(self, trie: Trie, points: Int[ndarray, "point 2"]) -> None:
        nodes, letters = points.T
        above = np.zeros(len(nodes), np.int64)
        self.children: list[dict[int, int]] = [{}]
        found: list[tuple[Int[ndarray, " n"], ...]] = []
        while len(nodes):
            own = trie.own[nodes]
            found.append((np.repeat(above, own), np.repeat(letters, own), spans(trie.low[nodes], own)))
            count = trie.first[nodes + 1] - trie.first[nodes]
            nodes, letters = spans(trie.first[nodes], count), np.repeat(letters, count)
            key, where = np.unique(np.repeat(above, count) * 256 + trie.byte[nodes], return_inverse=True)
            above = len(self.children) + where
            for i, k in enumerate(key.tolist(), len(self.children)):
                self.children[k // 256][k % 256] = i
            self.children.extend({} for _ in key)
        number, letters, rank = (
            (np.concatenate(part) for part in zip(*found, strict=True)) if found else [NONE] * 3
        )
        order = np.lexsort((letters, number))
        bounds = np.searchsorted(number[order], np.arange(len(self.children) + 1)).tolist()
        rank, letters = rank[order], letters[order]
        self._ranks = [rank[a:b] for a, b in itertools.pairwise(bounds)]
        self._letters = [letters[a:b].tolist() for a, b in itertools.pairwise(bounds)]
        self.ends = [a < b for a, b in itertools.pairwise(bounds)]  # whether tokens end at each node

    def at(self, node: int, low: int, high: int) -> Int[ndarray, " token"]:
        """The ranks of the tokens that end at a node after ``low`` to ``high`` letters."""
        ranks: Int[ndarray, " token"] = self._ranks[node][self._within(node, low, high)]
        return ranks

    def _within(self, node: int, low: int, high: int) -> slice:
        letters = self._letters[node]
        if not letters or (letters[0] >= low and letters[-1] <= high):
            return slice(None)
        return slice(bisect_left(letters, low), bisect_right(letters, high))


class Masks:
    """Masks by what they are made of, for all automata on one vocabulary: most states are like one met before."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: dict[Hashable, UInt8[ndarray, " bytes"]] = {}
        self.get = self._kept.get

    def put(self, key: Hashable, mask: UInt8[ndarray, " bytes"]) -> None:
        """Keep a mask, from now on not to be written to; the one kept longest goes."""
        if len(self._kept) >= self.most:
            del self._kept[next(iter(self._kept))]
        mask.flags.writeable = False
        self._kept[key] = mask


class Cells:
    """The cells met so far with one vocabulary."""

    def __init__(self, trie: Trie) -> None:
        self.trie, self.masks = trie, Masks(max(1, MASK_BYTES // max(1, trie.num_bytes)))
        self._cells: OrderedDict[bytes, Cell] = OrderedDict()

    def cell(self, table: Int16[ndarray, "local 256"]) -> Cell:
        """The one cell with this table."""
        key = table.tobytes()
        if key not in self._cells:
            self._cells[key] = Cell(table)
            if len(self._cells) > MAX_CELLS:
                self._cells.popitem(last=False)
        self._cells.move_to_end(key)
        return self._cells[key]

    def recent(self) -> list[Cell]:
        """All of them, the last one asked for first."""
        return list(reversed(self._cells.values()))

    def view(self, cell: Cell, local: int, node: int) -> View:
        """The view from a local state at a node of the trie."""
        view = cell.views.get((local, node))
        if view is None:
            view = cell.views[local, node] = View(cell, local, node, self.trie)
        return view
