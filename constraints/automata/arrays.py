"""Array tools for graphs: ragged ranges, groups, distinct rows, reachability."""

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
"""Up to this many pairs, and :data:`FEW_STATES` states, a search runs in Python: a SciPy graph takes longer to make."""
MANY_PAIRS = 10_000
"""Up to this many pairs a breadth-first search runs in Python: SciPy takes longer to import."""


def ragged_arange(begin: Int[ndarray, " n"], count: Int[ndarray, " n"]) -> Int[ndarray, " total"]:
    """``concatenate([arange(b, b + c) for b, c in zip(begin, count)])``."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.repeat(begin - ends + count, count) + np.arange(total))


def csr_index(key: Int[ndarray, " n"], size: int) -> tuple[Int[ndarray, " size+1"], Int[ndarray, " n"]]:
    """Return (pointer, order): ``order[pointer[k]:pointer[k + 1]]`` are the positions of key k."""
    pointer = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=size), out=pointer[1:])
    short = (
        key.astype(np.uint16) if size <= 1 << 16 else key
    )  # NumPy sorts 16-bit integers by radix, much faster
    return pointer, np.argsort(short, kind="stable")


def distinct(values: Int[ndarray, " n"]) -> Int[ndarray, " m"]:
    """Return the distinct values, ascending; ``np.unique`` hashes, slower if most are distinct."""
    values = np.sort(values)
    keep = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=keep[1:])
    return np.asarray(values[keep])


def values_of(numbers: Int[ndarray, " n"]) -> Int[ndarray, " m"]:
    """Return the distinct values, ascending, of small non-negative integers without sorting."""
    seen = np.zeros(int(numbers.max(initial=-1)) + 1, bool)
    seen[numbers] = True
    return np.flatnonzero(seen)


def mapped(numbers: Int[ndarray, " n"], function: Callable[[int], T], dtype: type) -> Shaped[ndarray, " n"]:
    """Apply a function to small non-negative integers; it is called once for each distinct one."""
    values = values_of(numbers)
    if not len(values):
        return np.empty(0, dtype)
    found: Shaped[ndarray, " value"] = np.empty(int(values[-1]) + 1, dtype)
    found[values] = [function(value) for value in values.tolist()]
    return np.asarray(found[numbers])


def unique_rows(rows: Int[ndarray, "n k"]) -> Int[ndarray, "m k"]:
    """Return the distinct rows in lexicographic order. Entries must not be negative."""
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
    """Mark the states reachable from ``start`` over ``pairs`` (source, target), of ``n`` states."""
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
        fresh = set(onward[stack.pop()]) - found  # each state enters the stack once
        found.update(fresh)
        stack += fresh
    seen[list(found)] = True
    return seen


def breadth_first(
    pairs: Int[ndarray, "pair 2"], start: Int[ndarray, " start"], n: int
) -> tuple[Int[ndarray, " reached"], Int[ndarray, " state"]]:
    """Search ``n`` states breadth first from ``start`` over ``pairs`` (source, target).

    Return (reached states, nearest first; by state the one before it on a shortest path: ``n`` for those in ``start``,
    negative for those not reached).
    """
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
    """Run :func:`breadth_first` in Python, from the two arrays of :func:`csr_index`."""
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
    """Raise :class:`TooManyStates` if there are more than ``limit`` states."""
    if states > limit:
        raise TooManyStates(limit=limit)


def check_transitions(transitions: int) -> None:
    """Raise :class:`TooManyStates` beyond ten transitions for each of ``limits.STATES``."""
    check_limit(transitions, 10 * limits.STATES)
