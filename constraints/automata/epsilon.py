"""The moves of an automaton as lists, without epsilon transitions and without useless states.

epsilon-free:  q --a--> r   for every   q --ε--> … --ε--> p --a--> r
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ...errors import TooManyStates
from .. import limits
from .work import spend

NO_EPSILONS: Int[ndarray, "0 2"] = np.empty((0, 2), np.int64)

Move = tuple[int, int, int]
"""The lowest byte, the highest byte and the target."""
Rows = list[list[Move]]
"""For each state its moves."""
Skip = tuple[int, int]
"""The source and the target of an epsilon transition."""


def trimmed(
    rows: Rows, start: Iterable[int], accept: Iterable[int], skips: Iterable[Skip] = ()
) -> tuple[Rows, list[int], list[int]]:
    """Return moves, starts and ends without epsilon transitions ``skips`` and states that no accepted word visits.

    Each state takes over the moves of its epsilon closure. The moves of each must be merged. Raises ``TooManyStates``.
    """
    onward: dict[int, list[int]] = {}
    for source, target in skips:
        if source != target:
            onward.setdefault(source, []).append(target)
    ends = set(accept)
    same = merged_states(rows, onward, ends)
    begin = sorted({same.get(state, state) for state in start})
    found, seen, total, most = list(rows), bytearray(len(rows)), 0, 10 * limits.STATES
    for state in begin:
        seen[state] = 1
    for state in (order := begin.copy()):
        moves = rows[state]
        if state in onward:
            closure = {state}
            for here in (inside := [state]):
                fresh = {same.get(there, there) for there in onward.get(here, ())} - closure
                closure |= fresh
                inside += fresh
            found[state] = moves = merged([move for here in inside for move in rows[here]])
            if not ends.isdisjoint(closure):
                ends.add(state)
            spend(1 + len(closure) / 2)
        if same and not same.keys().isdisjoint([target for _, _, target in moves]):
            found[state] = moves = merged([(low, high, same.get(to, to)) for low, high, to in moves])
        total += len(moves)
        if total > most:
            raise TooManyStates(limit=most)
        for _, _, target in moves:
            if not seen[target]:
                seen[target] = 1
                order.append(target)
    spend(5 + total / 5)
    live = leading(found, order, (last := [state for state in sorted(ends) if seen[state]]))
    if all(live):
        return found, begin, last
    number = list(itertools.accumulate(live, initial=0))
    kept = [
        [(low, high, number[target]) for low, high, target in row if live[target]]
        for row in itertools.compress(found, live)
    ]
    begin = [number[state] for state in begin if live[state]]
    return kept, begin, [number[state] for state in last]


def leading(rows: Rows, order: Sequence[int], ends: Iterable[int]) -> bytearray:
    """Mark which states of ``order``, in which all targets of theirs are, lead to one of ``ends``."""
    live = bytearray(len(rows))
    for state in ends:
        live[state] = 1
    left = list[int]()
    for state in reversed(order):  # most are before one of their targets
        if not live[state]:
            for _, _, target in rows[state]:
                if live[target]:
                    live[state] = 1
                    break
            else:
                left.append(state)
    before: dict[int, list[int]] = {}
    for state in left:
        for _, _, target in rows[state]:
            before.setdefault(target, []).append(state)
    for target in (back := [target for target in before if live[target]]):
        for state in before.get(target, ()):
            if not live[state]:
                live[state] = 1
                back.append(state)
    return live


def merged_states(rows: Rows, onward: Mapping[int, Sequence[int]], accept: set[int]) -> dict[int, int]:
    """Return for each state that does nothing but skip to another that one: closures stay small where many states meet."""
    same: dict[int, int] = {}
    for state in onward:
        path = list[int]()
        while state not in same:
            after = onward.get(state, ())
            if rows[state] or len(after) != 1 or (state in accept and after[0] not in accept):
                break
            path.append(state)
            same[state] = state  # until the end of the path is known, and for good on a circle
            (state,) = after
        state = same.get(state, state)
        same.update(dict.fromkeys(path, state))
    return same


def merged(moves: list[Move]) -> list[Move]:
    """Sort the moves of a state by their bytes, and return them, those to one target that touch or overlap as one."""
    if len(moves) < 2:
        return moves
    moves.sort()
    found: list[Move] = []
    last: dict[int, int] = {}  # of each target its last move
    for move in moves:
        low, high, target = move
        at = last.get(target)
        if at is not None and low <= found[at][1] + 1:
            found[at] = found[at][0], max(high, found[at][1]), target
        else:
            last[target] = len(found)
            found.append(move)
    return found
