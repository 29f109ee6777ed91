"""Subset construction of byte-level automata, by ranges of bytes.

{q, r} --a--> {s, t}  becomes a state of its own, and so do the sets that it leads to
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from ...errors import TooManyStates
from .. import limits
from .epsilon import Move, Rows
from .nfa import Nfa, of_rows
from .work import SIMPLIFYING, attempt, spend

MOST_TIMES = 3  # sets for each state that `resolved` allows


def determinize(nfa: Nfa, limit: int = limits.STATES // 5) -> Nfa:
    """Return the DFA of the same language.

    Raises :class:`TooManyStates` beyond ``limit`` subsets of more than one state, or about a hundred times as much work.
    """
    nfa = nfa.plain
    if nfa.is_deterministic:
        return nfa
    spend(5)
    sets, rows = subsets(nfa.rows, nfa.start.tolist(), limit)
    accept = set(nfa.accept.tolist())
    ends = [i for i, states in enumerate(sets) if not accept.isdisjoint(states)]
    return of_rows(rows, [0], ends, trimmed=True)


def resolved(nfa: Nfa, units: float = SIMPLIFYING) -> Nfa:
    """Determinize, or return the automaton as it is if that takes too much.

    Too much is more than ``units`` of work or about three times the states. There must be no epsilon transitions.
    """
    if nfa.is_deterministic:
        return nfa
    with suppress(TooManyStates), attempt(units):
        return determinize(nfa, MOST_TIMES * nfa.num_states + 2_000)
    return nfa


def together(parts: Sequence[Nfa], limit: int) -> tuple[Rows, list[list[int]]]:
    """Read several automata at once, as long as one of them goes on; state 0 is the start.

    Return the moves, and for each state the parts that accept there. Raises :class:`TooManyStates` beyond ``limit`` states.
    """
    rows, start, ends = list[list[Move]](), list[int](), dict[int, int]()
    for i, part in enumerate(each.plain for each in parts):
        size = len(rows)
        rows += [[(low, high, size + target) for low, high, target in row] for row in part.rows]
        start += [size + state for state in part.start.tolist()]
        ends |= {size + state: i for state in part.accept.tolist()}
    sets, found = subsets(rows, start, limit, 1)
    return found, [sorted({ends[state] for state in states & ends.keys()}) for states in sets]


def subsets(
    rows: Sequence[Sequence[Move]], start: Iterable[int], limit: int, counted: int = 2
) -> tuple[list[frozenset[int]], Rows]:
    """Return the sets of states that words lead to, that of the start first, and the moves between them.

    Raises ``TooManyStates`` beyond ``limit`` sets of at least ``counted`` states, or about a hundred times as much work.
    """
    sets = [frozenset(start)]
    number = {sets[0]: 0}
    found: Rows = []
    several = int(len(sets[0]) >= counted)
    left = 100 * (limit + 10_000)
    for states in sets:
        row: list[Move] = []
        moves = [move for state in states for move in rows[state]]
        place, end = -1, 0
        for low, high, targets in pieces(moves):
            left -= len(targets)
            if (target := number.get(targets)) is None:
                target = number[targets] = len(sets)
                sets.append(targets)
                several += len(targets) >= counted
            if target == place and low == end + 1:
                row[-1] = row[-1][0], high, target
            else:
                row.append((low, high, target))
            place, end = target, high
        spend(1 + len(moves) / 2)
        if several > limit or left < 0:
            raise TooManyStates(limit=limit)
        found.append(row)
    return sets, found


def pieces(moves: Iterable[Move]) -> list[tuple[int, int, frozenset[int]]]:
    """Return the ranges of bytes that lead to one set of targets each, in the order of their bytes."""
    ranges: dict[tuple[int, int], list[int]] = {}
    for low, high, target in moves:
        ranges.setdefault((low, high), []).append(target)
    in_order, last = sorted(ranges.items()), -1
    for (low, high), _ in in_order:
        if low <= last:
            break
        last = high
    else:
        return [(low, high, frozenset(targets)) for (low, high), targets in in_order]
    found = list[tuple[int, int, frozenset[int]]]()
    at, active = 0, list[tuple[int, list[int]]]()  # the ranges that are not over, by their ends
    for (low, high), targets in [*in_order, ((256, 256), [])]:
        while active and at < low:
            end = min([low - 1, *[last for last, _ in active]])
            found.append((at, end, frozenset([target for _, some in active for target in some])))
            at, active = end + 1, [each for each in active if each[0] > end]
        at = low
        active.append((high, targets))
    return found
