"""Automata that are deterministic but for some states: sets of states are followed from these alone.

s --a--> {t, u}  becomes a state of its own, and so do the sets that it leads to, until each is one state again
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np
from jaxtyping import Int, UInt64
from numpy import ndarray

from ..errors import TooManyStates
from .arrays import check_limit, distinct, group_by, spans
from .nfa import Nfa, trim
from .work import attempt, spend

MOST_WORK = 800_000  # units
LAST_WORK = 2_500_000  # where the alternative is to write out all transitions of tokens, which takes more
MOST_TIMES = 4  # as many states as before
WIDTH = 257  # byte ends of a state: 0 to 256


def resolved(nfa: Nfa, units: float = MOST_WORK) -> Nfa:
    """The same language by a deterministic automaton, or the automaton itself where that takes more than so many units of
    work. It must have no skips."""
    with suppress(TooManyStates), attempt(units):
        return followed(nfa)
    return nfa


def followed(nfa: Nfa) -> Nfa:
    """The same language by a deterministic automaton. Raises ``TooManyStates``."""
    n, edges = nfa.num_states, nfa.edges
    spend(len(edges) / 10)
    edges = edges[np.argsort(edges[:, 0] * 256 + edges[:, 1], kind="stable")]
    again = (edges[1:, 0] == edges[:-1, 0]) & (edges[1:, 1] <= edges[:-1, 2])
    overlapping = distinct(edges[1:][again, 0])
    if len(nfa.start) < 2 and not len(overlapping):
        return nfa
    sets = Sets(n, overlapping, nfa.accept)
    start = sets.number(np.zeros(1, np.int64), nfa.start)
    pointer, _ = group_by(edges[:, 0], n)
    keep = np.ones(n, bool)
    keep[overlapping] = False
    rows = [edges[keep[edges[:, 0]]], *sets.follow(edges, pointer)]
    accept = np.concatenate([nfa.accept, *sets.accept])
    return trim(replace(nfa, num_states=sets.size, start=start, edges=np.concatenate(rows), accept=accept))


class Sets:
    """The sets of states that are followed; a set of one state is that state, others are numbered after all states."""

    def __init__(self, n: int, overlapping: Int[ndarray, " some"], accept: Int[ndarray, " accept"]) -> None:
        self.n = self.size = n
        self.weight = np.random.default_rng(1).integers(1, 2**63, size=(2, n), dtype=np.uint64)
        self.numbers: dict[int, int] = {}  # by a sum of weights
        self.checks: UInt64[ndarray, " set"] = np.empty(0, np.uint64)  # another one, of each set
        self.accepting = np.zeros(n, bool)
        self.accepting[accept] = True
        self.accept: list[Int[ndarray, " accept"]] = []
        self.queue = [(overlapping, overlapping)]  # (sets, members)

    def follow(
        self, edges: Int[ndarray, "edge 4"], pointer: Int[ndarray, " state+1"]
    ) -> Iterator[Int[ndarray, "edge 4"]]:
        """The edges of all sets, whichever lead to new ones next. Raises ``TooManyStates``."""
        while self.queue:
            owner, member = self.queue.pop()
            count = pointer[member + 1] - pointer[member]
            found = edges[spans(pointer[member], count)]
            if not len(found):
                continue
            owner = np.repeat(owner, count) * WIDTH
            low, high = owner + found[:, 1], owner + found[:, 2] + 1
            cuts = distinct(np.concatenate([low, high]))
            first = np.searchsorted(cuts, low)
            count = np.searchsorted(cuts, high) - first
            spend(200 + int(count.sum()) / 3)
            pairs = distinct(spans(first, count) * self.n + np.repeat(found[:, 3], count))
            piece, target = np.divmod(pairs, self.n)
            head = np.flatnonzero(np.diff(piece, prepend=-1))
            piece, to = piece[head], self.number(head, target)
            owner, low = np.divmod(cuts[piece], WIDTH)
            # neighbours that lead to the same state are one edge
            new = (
                (np.diff(piece, prepend=-2) > 1)
                | (np.diff(to, prepend=-1) != 0)
                | (np.diff(owner, prepend=-1) != 0)
            )
            begin = np.flatnonzero(new)
            end = np.append(begin[1:], len(piece)) - 1
            yield np.column_stack([owner[begin], low[begin], cuts[piece[end] + 1] % WIDTH - 1, to[begin]])

    def number(self, head: Int[ndarray, " set"], member: Int[ndarray, " member"]) -> Int[ndarray, " set"]:
        """The numbers of sets of members, each from its head on; new ones are put in the queue."""
        to: Int[ndarray, " set"] = member[head].copy()
        size = np.diff(np.append(head, len(member)))
        many = np.flatnonzero(size > 1)
        if not len(many):
            return to
        spend(3 * len(many))
        sums: UInt64[ndarray, "2 set"] = np.add.reduceat(self.weight[:, member], head, axis=1)[:, many]
        _, index, inverse = np.unique(sums[0], return_index=True, return_inverse=True)
        fresh, numbers = list[int](), list[int]()
        for i, key in enumerate(sums[0, index].tolist()):
            number = self.numbers.setdefault(key, self.size)
            if number == self.size:
                self.size += 1
                fresh.append(i)
            numbers.append(number)
        check_limit(self.size, MOST_TIMES * self.n + 2_000)
        self.checks = np.concatenate([self.checks, sums[1, index[fresh]]])
        names = np.array(numbers)[inverse]
        if (self.checks[names - self.n] != sums[1]).any():  # two sets with the same sum
            raise TooManyStates(limit=self.size)
        to[many] = names
        if fresh:
            new = many[index[fresh]]
            members = member[spans(head[new], size[new])]
            owner = np.repeat(to[new], size[new])
            self.accept.append(distinct(owner[self.accepting[members]]))
            self.queue.append((owner, members))
        return to
