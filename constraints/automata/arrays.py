"""Array tools for graphs: ragged ranges, groups, distinct rows, reachability."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ...errors import TooManyStates
from .. import limits


def ragged_arange(begin: Int[ndarray, " n"], count: Int[ndarray, " n"]) -> Int[ndarray, " total"]:
    """``concatenate([arange(b, b + c) for b, c in zip(begin, count)])``."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.repeat(begin - ends + count, count) + np.arange(total))


def csr_index(key: Int[ndarray, " n"], size: int) -> tuple[Int[ndarray, " size+1"], Int[ndarray, " n"]]:
    """Return (pointer, order): ``order[pointer[k]:pointer[k + 1]]`` are the positions of key k."""
    pointer = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=size), out=pointer[1:])
    # NumPy sorts 16-bit integers by radix, much faster
    short = key.astype(np.uint16) if size <= 1 << 16 else key
    return pointer, np.argsort(short, kind="stable")


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
    pointer, order = csr_index(pairs[:, 0], n)
    targets, bounds = pairs[order, 1].tolist(), pointer.tolist()
    stack, seen = start.tolist(), bytearray(n)
    for state in stack:
        seen[state] = 1
    while stack:
        state = stack.pop()
        for target in targets[bounds[state] : bounds[state + 1]]:
            if not seen[target]:
                seen[target] = 1
                stack.append(target)
    return np.frombuffer(seen, bool)


def check_limit(states: int, limit: int = limits.STATES) -> None:
    """Raise :class:`TooManyStates` if there are more than ``limit`` states."""
    if states > limit:
        raise TooManyStates(limit=limit)
