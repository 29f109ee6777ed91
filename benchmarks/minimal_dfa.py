"""Minimal deterministic byte automata in a canonical form, and the shortest texts that tell two of them apart."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray

import tractile as tt
from tractile.constraints.automata.dfa import minimize
from tractile.constraints.automata.subsets import determinize

MAX_STATES = 400_000


@dataclass(frozen=True)
class Dfa:
    """A minimal automaton whose states are numbered breadth first by byte, so that equal languages have equal arrays.

    ``edges``: rows (source, lowest byte, highest byte, target), sorted, ranges as wide as they can be. State 0 is the
    start, if there are any states. ``accept``: accepting states, ascending.
    """

    num_states: int
    edges: Int[ndarray, "edge 4"]
    accept: Int[ndarray, " accept"]

    @property
    def fingerprint(self) -> str:
        """A digest of the language."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """The arrays as bytes: :meth:`from_bytes` reads them."""
        header = np.array([self.num_states, len(self.edges), len(self.accept)])
        return b"".join(a.astype("<i4").tobytes() for a in (header, self.edges, self.accept))

    @staticmethod
    def from_bytes(data: bytes) -> Dfa:
        """The automaton of :meth:`to_bytes`."""
        file = io.BytesIO(data)
        states, edges, _ = np.frombuffer(file.read(12), "<i4")
        rows = np.frombuffer(file.read(16 * int(edges)), "<i4").reshape(-1, 4).astype(np.int64)
        return Dfa(int(states), rows, np.frombuffer(file.read(), "<i4").astype(np.int64))


def canonical(constraint: tt.Constraint, limit: int = MAX_STATES) -> Dfa:
    """The minimal automaton of a constraint. Raises ``TooManyStates`` beyond ``limit`` states."""
    small = minimize(determinize(constraint.bytes_automaton, limit), limit)
    edges = small.edges[np.lexsort((small.edges[:, 1], small.edges[:, 0]))]
    if len(edges):
        joins = np.zeros(len(edges), bool)
        joins[1:] = (
            (edges[1:, 0] == edges[:-1, 0])
            & (edges[1:, 3] == edges[:-1, 3])
            & (edges[1:, 1] == edges[:-1, 2] + 1)
        )
        first = np.flatnonzero(~joins)
        last = np.append(first[1:], len(edges)) - 1
        edges = np.column_stack([edges[first, 0], edges[first, 1], edges[last, 2], edges[first, 3]])
    number = np.full(small.num_states, -1)
    begin = np.searchsorted(edges[:, 0], np.arange(small.num_states + 1))
    level = small.start.astype(np.int64)
    number[level] = np.arange(len(level))
    count = len(level)
    while len(level):
        targets = np.concatenate([edges[begin[s] : begin[s + 1], 3] for s in level.tolist()])
        fresh = targets[number[targets] < 0]
        _, first = np.unique(fresh, return_index=True)
        level = fresh[np.sort(first)]
        number[level] = count + np.arange(len(level))
        count += len(level)
    edges = np.column_stack([number[edges[:, 0]], edges[:, 1:3], number[edges[:, 3]]])
    edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
    return Dfa(small.num_states, edges, np.sort(number[small.accept]))


def witnesses(a: Dfa, b: Dfa) -> tuple[bytes | None, bytes | None]:
    """(A shortest string of ``a`` that is not one of ``b``, one of ``b`` that is not one of ``a``); ``None`` if none."""
    rows: list[list[list[tuple[int, int, int]]]] = []
    for dfa in (a, b):
        out: list[list[tuple[int, int, int]]] = [[] for _ in range(dfa.num_states + 1)]
        for source, low, high, target in dfa.edges.tolist():
            out[source].append((low, high, target))
        rows.append(out)
    dead_a, dead_b = a.num_states, b.num_states  # the states after a byte that has no edge
    accept_a, accept_b = set(a.accept.tolist()), set(b.accept.tolist())
    begin = (0 if a.num_states else dead_a, 0 if b.num_states else dead_b)
    came: dict[tuple[int, int], tuple[tuple[int, int], int] | None] = {begin: None}
    queue, found = [begin], [b"", b""]
    missing = [True, True]
    for pair in queue:
        p, q = pair
        for side, (mine, other) in enumerate(
            ((p in accept_a, q in accept_b), (q in accept_b, p in accept_a))
        ):
            if missing[side] and mine and not other:
                missing[side], found[side] = False, spelled(came, pair)
        if not any(missing):
            break
        for low, (x, y) in steps(rows[0][p], rows[1][q], dead_a, dead_b):
            if (x, y) not in came:
                came[x, y] = (pair, low)
                queue.append((x, y))
    return (None if missing[0] else found[0]), (None if missing[1] else found[1])


def steps(
    left: list[tuple[int, int, int]], right: list[tuple[int, int, int]], dead_a: int, dead_b: int
) -> list[tuple[int, tuple[int, int]]]:
    """(A byte, the pair of states after it) for each way that one of two states can go on."""
    cuts = sorted({c for low, high, _ in (*left, *right) for c in (low, high + 1)})
    found = []
    for byte in cuts:
        x = next((to for low, high, to in left if low <= byte <= high), dead_a)
        y = next((to for low, high, to in right if low <= byte <= high), dead_b)
        if (x, y) != (dead_a, dead_b) and byte < 256:
            found.append((byte, (x, y)))
    return found


def spelled(came: dict[tuple[int, int], tuple[tuple[int, int], int] | None], pair: tuple[int, int]) -> bytes:
    """The string that leads to a pair of states."""
    word = bytearray()
    while (step := came[pair]) is not None:
        pair, byte = step
        word.append(byte)
    return bytes(reversed(word))
