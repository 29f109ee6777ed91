"""Small tools for arrays that stand for graphs: ragged ranges, groups, distinct rows, reachability."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ..errors import TooManyStates

MAX_STATES = 500_000
MAX_EDGES = 5_000_000
"""No automaton built here has more states and edges; this keeps ``(a{1,1000}){1,1000}`` from filling the memory."""


def spans(begin: Int[ndarray, " n"], count: Int[ndarray, " n"]) -> Int[ndarray, " total"]:
    """``concatenate([arange(b, b + c) for b, c in zip(begin, count)])``."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.repeat(begin - ends + count, count) + np.arange(total))


def group_by(key: Int[ndarray, " n"], size: int) -> tuple[Int[ndarray, " size+1"], Int[ndarray, " n"]]:
    """(pointer, order): the positions where ``key == k`` are ``order[pointer[k]:pointer[k + 1]]``."""
    pointer = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=size), out=pointer[1:])
    return pointer, np.argsort(key, kind="stable")


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
    pointer, order = group_by(pairs[:, 0], n)
    onward, bounds = pairs[order, 1].tolist(), pointer.tolist()
    stack = start.tolist()
    seen = bytearray(n)
    for state in stack:
        seen[state] = 1
    while stack:
        state = stack.pop()
        for target in onward[bounds[state] : bounds[state + 1]]:
            if not seen[target]:
                seen[target] = 1
                stack.append(target)
    return np.frombuffer(bytes(seen), bool)


def check_limit(states: int, limit: int = MAX_STATES) -> None:
    """Raises :class:`TooManyStates` beyond ``limit``."""
    if states > limit:
        raise TooManyStates(limit=limit)
