"""The moves of an automaton as lists, without epsilon transitions and without useless states.

epsilon-free:  q --a--> r   for every   q --ε--> … --ε--> p --a--> r
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from .arrays import check_transitions
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
    found, before = list(rows), list[list[int]]([] for _ in rows)
    seen, live, total = bytearray(len(rows)), bytearray(len(rows)), 0
    for state in begin:
        seen[state] = 1
    for state in (todo := begin.copy()):
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
        if same:
            moves = [(low, high, same.get(target, target)) for low, high, target in moves]
            found[state] = moves = merged(moves) if len(moves) > 1 else moves
        total += len(moves)
        check_transitions(total)
        for _, _, target in moves:
            before[target].append(state)
            if not seen[target]:
                seen[target] = 1
                todo.append(target)
    spend(5 + total / 5)
    for state in (back := [state for state in ends if seen[state]]):
        live[state] = 1
    for state in back:
        for source in before[state]:
            if not live[source]:
                live[source] = 1
                back.append(source)
    if len(back) == len(rows):
        return found, begin, sorted(ends)
    number = {state: i for i, state in enumerate(sorted(back))}
    kept = [
        [(low, high, number[target]) for low, high, target in found[state] if live[target]]
        for state in number
    ]
    begin, back = [state for state in begin if live[state]], [state for state in number if state in ends]
    return kept, [number[state] for state in begin], [number[state] for state in back]


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
