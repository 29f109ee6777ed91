"""Subset construction of byte-level automata by ranges of bytes, in rounds of all new sets.

    {q, r} --a--> {s, t}  becomes a state of its own, and so do the sets that it leads to, until each is one state again

A set of one state is that state, so the parts that are deterministic already cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Int, UInt64
from numpy import ndarray

from ...errors import TooManyStates
from .. import limits
from .arrays import check_limit, csr_index, distinct, ragged_arange
from .nfa import Nfa, trim
from .work import SIMPLIFYING, attempt, spend

MOST_TIMES = 3  # sets for each state that `resolved` allows
WIDTH = 257  # possible ends of a range of one state: 0 to 256


def determinize(nfa: Nfa, limit: int = limits.STATES // 5) -> Nfa:
    """Return the DFA of the same language.

    Raises :class:`TooManyStates` beyond ``limit`` subsets of more than one state, or about a hundred times as much work. First
    the sets are followed that any state leads to. Where that is too much, only those that a word reaches.
    """
    nfa = nfa.plain
    if nfa.is_deterministic:
        return nfa
    with suppress(TooManyStates):
        return followed(nfa, limit, np.ones(nfa.num_states, bool))
    return followed(nfa, limit, np.zeros(nfa.num_states, bool))


def resolved(nfa: Nfa, units: float = SIMPLIFYING) -> Nfa:
    """Determinize, or return the automaton as it is if that takes too much.

    Too much is more than ``units`` of work or about three times the states. There must be no epsilon transitions.
    """
    if nfa.is_deterministic:
        return nfa
    with suppress(TooManyStates), attempt(units):
        return followed(nfa, MOST_TIMES * nfa.num_states + 2_000, np.ones(nfa.num_states, bool))
    return nfa


def followed(nfa: Nfa, limit: int, taken: Bool[ndarray, " state"]) -> Nfa:
    """Run the subset construction. States in ``taken`` keep their edges unless these overlap.

    Raises ``TooManyStates``.
    """
    edges = nfa.edges
    spend(200 + len(edges) / 10)
    if nfa.by_byte is not None:
        edges = edges[nfa.by_byte]
    again = (edges[1:, 0] == edges[:-1, 0]) & (edges[1:, 1] <= edges[:-1, 2])
    overlapping = distinct(edges[1:][again, 0])
    overlapping = overlapping[taken[overlapping]]
    sets = Sets(nfa, limit, taken)
    sets.queue.append((overlapping, overlapping))
    keep = taken.copy()
    keep[overlapping] = False
    start = sets.number(np.zeros(1, np.int64), nfa.start)
    rows = [edges[keep[edges[:, 0]]], *sets.follow(edges)]
    accept = np.concatenate([nfa.accept, *sets.accept])
    return trim(replace(nfa, num_states=sets.size, start=start, edges=np.concatenate(rows), accept=accept))


class Sets:
    """The sets of states that the subset construction has met, numbered after the single states."""

    def __init__(self, nfa: Nfa, limit: int, taken: Bool[ndarray, " state"]) -> None:
        self.n = self.size = nfa.num_states
        self.limit, self.left = limit, 100 * (limit + 10_000) + len(nfa.edges)
        self.taken = taken.copy()
        self.weight = np.random.default_rng(1).integers(1, 2**63, size=(2, self.n), dtype=np.uint64)
        self.numbers: dict[int, int] = {}  # hash of a set -> its number
        self.checks: UInt64[ndarray, " set"] = np.empty(0, np.uint64)  # a second hash of each set
        self.accepting = np.zeros(self.n, bool)
        self.accepting[nfa.accept] = True
        self.accept: list[Int[ndarray, " accept"]] = []
        self.queue: list[tuple[Int[ndarray, " pair"], Int[ndarray, " pair"]]] = []  # (sets, members)

    def follow(self, edges: Int[ndarray, "edge 4"]) -> Iterator[Int[ndarray, "edge 4"]]:
        """Yield the edges of all queued sets, and of those they lead to. Raises ``TooManyStates``."""
        pointer, _ = csr_index(edges[:, 0], self.n)
        while self.queue:
            owner, member = (np.concatenate(part) for part in zip(*self.queue, strict=True))
            self.queue.clear()
            count = pointer[member + 1] - pointer[member]
            copied = int(count.sum())
            if copied > self.left:
                raise TooManyStates(limit=self.limit)
            spend(200 + copied / 4)
            found = edges[ragged_arange(pointer[member], count)]
            if not len(found):
                continue
            owner = np.repeat(owner, count) * WIDTH
            low, high = owner + found[:, 1], owner + found[:, 2] + 1
            cuts = distinct(np.concatenate([low, high]))
            first = np.searchsorted(cuts, low)
            count = np.searchsorted(cuts, high) - first
            steps = int(count.sum())
            self.left -= steps + 1_000  # the price of a round
            if self.left < 0:
                raise TooManyStates(limit=self.limit)
            spend((steps - copied) / 4)
            pairs = distinct(ragged_arange(first, count) * self.n + np.repeat(found[:, 3], count))
            piece, target = np.divmod(pairs, self.n)
            head = np.flatnonzero(np.diff(piece, prepend=-1))
            piece, to = piece[head], self.number(head, target)
            owner, low = np.divmod(cuts[piece], WIDTH)
            # neighbours that lead to the same state are one edge; pieces of two sets are no neighbours
            new = np.ones(len(piece), bool)
            new[1:] = (piece[1:] > piece[:-1] + 1) | (to[1:] != to[:-1])
            begin = np.flatnonzero(new)
            end = np.append(begin[1:], len(piece)) - 1
            yield np.column_stack([owner[begin], low[begin], cuts[piece[end] + 1] % WIDTH - 1, to[begin]])

    def number(self, head: Int[ndarray, " set"], member: Int[ndarray, " member"]) -> Int[ndarray, " set"]:
        """Return the numbers of sets of members, each from its ``head`` on; queue new ones."""
        to: Int[ndarray, " set"] = member[head].copy()
        size = np.diff(np.append(head, len(member)))
        one = to[size == 1]
        if len(one := distinct(one[~self.taken[one]])):
            self.taken[one] = True
            self.queue.append((one, one))
        many = np.flatnonzero(size > 1)
        if not len(many):
            return to
        spend(1.5 * len(many))
        member, size = member[np.repeat(size > 1, size)], size[many]
        head = np.cumsum(size) - size
        sums: UInt64[ndarray, "2 set"] = np.add.reduceat(self.weight[:, member], head, axis=1)
        _, index, inverse = np.unique(sums[0], return_index=True, return_inverse=True)
        fresh, numbers = list[int](), list[int]()
        for i, key in enumerate(sums[0, index].tolist()):
            number = self.numbers.setdefault(key, self.size)
            if number == self.size:
                self.size += 1
                fresh.append(i)
            numbers.append(number)
        check_limit(self.size - self.n, self.limit)
        self.checks = np.concatenate([self.checks, sums[1, index[fresh]]])
        names = np.array(numbers)[inverse]
        if (self.checks[names - self.n] != sums[1]).any():  # two sets with the same sum
            raise TooManyStates(limit=self.limit)
        to[many] = names
        if fresh:
            new = index[fresh]
            members = member[ragged_arange(head[new], size[new])]
            owner = np.repeat(names[new], size[new])
            self.accept.append(distinct(owner[self.accepting[members]]))
            self.queue.append((owner, members))
        return to
