"""Small tools for arrays that stand for graphs: ragged ranges, groups, distinct rows, reachability."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Int, Shaped
from numpy import ndarray

from ...errors import TooManyStates
from .. import limits

T = TypeVar("T")
UNREACHED = -9999
FEW_STATES = 300
FEW_PAIRS = 3_000
"""Up to here they are gone through one by one: a graph of scipy takes longer to make."""
MANY_PAIRS = 10_000
"""Up to here a breadth-first search does without scipy: it takes longer to import than such a search."""


def ragged_arange(begin: Int[ndarray, " n"], count: Int[ndarray, " n"]) -> Int[ndarray, " total"]:
    """``concatenate([arange(b, b + c) for b, c in zip(begin, count)])``."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.repeat(begin - ends + count, count) + np.arange(total))


def csr_index(key: Int[ndarray, " n"], size: int) -> tuple[Int[ndarray, " size+1"], Int[ndarray, " n"]]:
    """(pointer, order): the positions where ``key == k`` are ``order[pointer[k]:pointer[k + 1]]``."""
    pointer = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=size), out=pointer[1:])
    short = (
        key.astype(np.uint16) if size <= 1 << 16 else key
    )  # of these numpy sorts 16 bits by digits, much faster
    return pointer, np.argsort(short, kind="stable")


def distinct(values: Int[ndarray, " n"]) -> Int[ndarray, " m"]:
    """The distinct values, ascending: quicker than ``np.unique``, which hashes, where most of them are."""
    values = np.sort(values)
    keep = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=keep[1:])
    return np.asarray(values[keep])


def values_of(numbers: Int[ndarray, " n"]) -> Int[ndarray, " m"]:
    """The distinct values of whole numbers from 0 on that are small, such as states, ascending. Nothing is sorted."""
    seen = np.zeros(int(numbers.max(initial=-1)) + 1, bool)
    seen[numbers] = True
    return np.flatnonzero(seen)


def mapped(numbers: Int[ndarray, " n"], function: Callable[[int], T], dtype: type) -> Shaped[ndarray, " n"]:
    """The values of a function at numbers as :func:`values_of` takes them; it is called once for each distinct one."""
    values = values_of(numbers)
    if not len(values):
        return np.empty(0, dtype)
    found: Shaped[ndarray, " value"] = np.empty(int(values[-1]) + 1, dtype)
    found[values] = [function(value) for value in values.tolist()]
    return np.asarray(found[numbers])


def unique_rows(rows: Int[ndarray, "n k"]) -> Int[ndarray, "m k"]:
    """The distinct rows in lexicographic order (much faster than ``np.unique(axis=0)``). Entries are not negative."""
    if len(rows) < 2:
        return rows
    width = [int(w) + 1 for w in rows.max(axis=0)]
    if math.prod(width) < 2**62:
        key = rows[:, 0]
        for column in range(1, len(width)):
            key = key * width[column] + rows[:, column]
        _, first = np.unique(key, return_index=True)
        return np.asarray(rows[first])
    rows = rows[np.lexsort(rows.T[::-1])]
    return np.asarray(rows[np.concatenate([[True], np.any(rows[1:] != rows[:-1], axis=1)])])


def reachable(
    pairs: Int[ndarray, "pair 2"], start: Int[ndarray, " start"], n: int
) -> Bool[ndarray, " state"]:
    """The states reachable from ``start`` over ``pairs`` (source, target)."""
    seen = np.zeros(n, bool)
    if n > FEW_STATES or len(pairs) > FEW_PAIRS:
        seen[breadth_first(pairs, start, n)[0]] = True
        return seen
    onward: list[list[int]] = [[] for _ in range(n)]
    for source, target in pairs.tolist():
        onward[source].append(target)
    stack = start.tolist()
    found = set(stack)
    while stack:
        fresh = set(onward[stack.pop()]) - found  # each once, however many pairs lead there
        found.update(fresh)
        stack += fresh
    seen[list(found)] = True
    return seen


def breadth_first(
    pairs: Int[ndarray, "pair 2"], start: Int[ndarray, " start"], n: int
) -> tuple[Int[ndarray, " reached"], Int[ndarray, " state"]]:
    """(states reachable from ``start`` over ``pairs`` (source, target), nearest first; for each of all ``n`` states the one
    before it on a shortest way: ``n`` for those at the start, negative for those not reachable)."""
    pointer, order = csr_index(pairs[:, 0], n)
    if len(pairs) <= MANY_PAIRS:
        return _one_by_one(pairs[order, 1].tolist(), pointer.tolist(), start.tolist(), n)

    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    targets = np.concatenate([pairs[order, 1], start])  # state n leads to the start
    bounds = np.append(pointer, len(targets))
    graph = csr_array(
        (np.ones(len(targets)), targets.astype(np.int32), bounds.astype(np.int32)), (n + 1, n + 1)
    )
    reached, before = breadth_first_order(graph, n)
    return reached[1:].astype(np.int64), before[:n].astype(np.int64)


def _one_by_one(
    targets: list[int], pointer: list[int], start: list[int], n: int
) -> tuple[Int[ndarray, " reached"], Int[ndarray, " state"]]:
    """:func:`breadth_first` with the targets of state ``k`` at ``pointer[k]`` to ``pointer[k + 1]``."""
    before, reached = [UNREACHED] * n, list(dict.fromkeys(start))
    for state in reached:
        before[state] = n
    for state in reached:
        for target in targets[pointer[state] : pointer[state + 1]]:
            if before[target] == UNREACHED:
                before[target] = state
                reached.append(target)
    return np.array(reached, np.int64), np.array(before, np.int64)


def check_limit(states: int, limit: int = limits.STATES) -> None:
    """Raises :class:`TooManyStates` beyond ``limit``."""
    if states > limit:
        raise TooManyStates(limit=limit)


def check_transitions(transitions: int) -> None:
    """Raises :class:`TooManyStates` beyond ten transitions for each of the states that an automaton may have."""
    check_limit(transitions, 10 * limits.STATES)
