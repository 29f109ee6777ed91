"""What tokens, or their rests, do in free text: after how many letters they end or leave it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ..automata.arrays import ragged_arange, unique_rows

if TYPE_CHECKING:
    from .token_dag import TokenDag

FEW = 200  # tokens below a node, up to which they are read depth first


class TextTokens:
    """The steps of tokens, or of their rests, in free text: see :meth:`of`. Results are cached."""

    def __init__(self, dag: TokenDag, table: Int[ndarray, "local 256"]) -> None:
        self.dag, self.table = dag, table
        self._spelled: dict[bytes, dict[int, bytes]] = {}
        self.begins: list[bool] = (table[0] >= 0).tolist()  # whether a letter begins with a byte
        self._of: dict[tuple[int, bytes], Steps] = {}
        self._rows_of: dict[int, Rows] = {}

    def spelled(self, within: int, exceptions: bytes) -> bytes:
        """Return the shortest prefix of a letter that leads to a state; it begins with no exception."""
        if exceptions not in self._spelled:
            self._spelled[exceptions] = shortest_beginnings(self.table, exceptions)
        return self._spelled[exceptions][within]

    def of(self, node: int, exceptions: bytes = b"") -> Steps:
        """Return the steps from the beginning of a letter with a token read up to ``node``.
        The first letter begins with no byte of ``exceptions``."""
        found = self._of.get((node, exceptions))
        if found is None:
            found = self._of[node, exceptions] = self._steps(node, exceptions)
        return found

    def _steps(self, node: int, exceptions: bytes) -> Steps:
        model = int(self.dag.model[node])
        views = self.dag.trie.views
        few = views.high[model] - views.low[model] <= FEW
        return self._one_by_one(node, exceptions) if few else self._together(node, exceptions)

    def _one_by_one(self, node: int, exceptions: bytes) -> Steps:
        """Read the tokens depth first, which is quick if they are few."""
        dag, table = self.dag, self._lists
        by_end: dict[int, set[int]] = {}
        by_byte: dict[int, dict[int, set[int]]] = {}
        stack = [(node, 0, 0)]
        first: bytes = exceptions
        while stack:
            at, local, letters = stack.pop()
            row = table[local]
            for byte, child in dag.children(at).items():
                if byte in first:
                    continue
                to = row[byte]
                if to < 0:
                    if local == 0:
                        by_byte.setdefault(byte, {}).setdefault(child, set()).add(letters)
                    continue
                count = letters + (to == 0)
                if dag.ends[child]:
                    by_end.setdefault(to, set()).add(count)
                stack.append((child, to, count))
            first = b""
        return Steps(
            {state: sorted(counts) for state, counts in by_end.items()},
            {byte: [(n, sorted(c)) for n, c in to.items()] for byte, to in by_byte.items()},
        )

    @cached_property
    def _lists(self) -> list[list[int]]:
        found: list[list[int]] = self.table.tolist()
        return found

    def _together(self, node: int, exceptions: bytes) -> Steps:
        """Read all tokens together, level by level."""
        rows = self._rows(node)
        if not exceptions:
            by_end: dict[int, list[int]] = {}
            for state, k in rows.ends.tolist():
                by_end.setdefault(state, []).append(k)
            by_byte: dict[int, dict[int, list[int]]] = {}
            for letter, to, k in rows.leaving.tolist():
                by_byte.setdefault(letter, {}).setdefault(to, []).append(k)
            return Steps(by_end, {byte: list(to.items()) for byte, to in by_byte.items()})
        every = self.of(node)
        others = np.ones(256, bool)
        others[np.frombuffer(exceptions, np.uint8)] = False
        ends, leaving = every.ends, every.leaving
        for state, k in rows.ends[~(rows.ends_first[:, others].any(1))].tolist():
            ends = ends if ends is not every.ends else dict(ends)
            ends[state] = [each for each in ends[state] if each != k]
        for letter, to, k in rows.leaving[~(rows.leaving_first[:, others].any(1))].tolist():
            leaving = leaving if leaving is not every.leaving else dict(leaving)
            kept = [(n, [each for each in counts if n != to or each != k]) for n, counts in leaving[letter]]
            leaving[letter] = [(n, counts) for n, counts in kept if counts]
        return Steps({s: k for s, k in ends.items() if k}, {b: to for b, to in leaving.items() if to})

    def _rows(self, node: int) -> Rows:
        """Return where tokens end and where they leave the text, from a node on."""
        if node in self._rows_of:
            return self._rows_of[node]
        trie, dag, table = self.dag.trie, self.dag, self.table
        at = dag.model[[node]]
        local, letters, first = np.zeros(1, np.int64), np.zeros(1, np.int64), np.full(1, -1)
        ends: list[Int[ndarray, "n 3"]] = [np.zeros((0, 3), np.int64)]
        leaving: list[Int[ndarray, "n 4"]] = [np.zeros((0, 4), np.int64)]
        while len(at):
            count = trie.first[at + 1] - trie.first[at]
            child = ragged_arange(trie.first[at], count)
            before, letters, first = (np.repeat(x, count) for x in (local, letters, first))
            byte = trie.byte[child].astype(np.int64)
            first = np.where(first < 0, byte, first)
            local = table[before, byte]
            out = (local < 0) & (before == 0)
            leaving.append(np.stack([byte[out], dag.node[child[out]], letters[out], first[out]], 1))
            keep = local >= 0
            at, local, first = child[keep], local[keep], first[keep]
            letters = letters[keep] + (local == 0)
            own = trie.own[at] > 0
            ends.append(np.stack([local[own], letters[own], first[own]], 1))
        found = self._rows_of[node] = Rows(
            *by_first(np.concatenate(ends)), *by_first(np.concatenate(leaving))
        )
        return found


class Rows(NamedTuple):
    """Where tokens end or leave the text.

    ``ends``: (state within a letter, letters). ``leaving``: (byte, node after it, letters before it). ``ends_first`` and
    ``leaving_first``: by row, the bytes with which such tokens begin.
    """

    ends: Int[ndarray, "n 2"]
    ends_first: Bool[ndarray, "n 256"]
    leaving: Int[ndarray, "n 3"]
    leaving_first: Bool[ndarray, "n 256"]


def by_first(rows: Int[ndarray, "n m"]) -> tuple[Int[ndarray, "k m-1"], Bool[ndarray, "k 256"]]:
    """Return the distinct rows without their last column, and the values of that by row."""
    rows = unique_rows(rows)
    new = np.ones(len(rows), bool)
    new[1:] = (rows[1:, :-1] != rows[:-1, :-1]).any(1)
    first = np.zeros((int(new.sum()), 256), bool)
    first[np.cumsum(new) - 1, rows[:, -1]] = True
    return rows[new, :-1], first


class Steps:
    """What tokens do in free text. Counts of letters are in order.

    ``ends``: by state within a letter (0: between two), the counts after which a token may end. ``leaving``: by byte that
    begins no letter, the nodes after it, each with the counts that may come before it.
    """

    __slots__ = ("ends", "leaving")

    def __init__(self, ends: dict[int, list[int]], leaving: dict[int, list[tuple[int, list[int]]]]) -> None:
        self.ends, self.leaving = ends, leaving


def shortest_beginnings(table: Int[ndarray, "local 256"], exceptions: bytes) -> dict[int, bytes]:
    """Return the shortest prefix of a letter that leads to each state.
    It begins with no byte of ``exceptions``."""
    found, queue = {0: b""}, [0]
    for state in queue:
        row = table[state].copy()
        if state == 0:
            row[np.frombuffer(exceptions, np.uint8)] = -1
        for to, byte in zip(*np.unique(row, return_index=True), strict=True):
            if to >= 0 and int(to) not in found:
                found[int(to)] = found[state] + bytes([byte])
                queue.append(int(to))
    return found
