"""Subset construction of byte-level automata, by ranges of bytes.

{q, r} --a--> {s, t}  becomes a state of its own, and so do the sets that it leads to
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from ...errors import TooManyStates
from .. import limits
from .epsilon import Move, Rows
from .nfa import Nfa, plain
from .work import SIMPLIFYING, attempt, spend

MOST_TIMES = 3  # sets for each state that `resolved` allows


def determinize(nfa: Nfa, limit: int = limits.STATES // 5) -> Nfa:
    """Return the DFA of the same language.

    Raises :class:`TooManyStates` beyond ``limit`` subsets of more than one state, or about a hundred times as much work.
    """
    nfa = nfa.plain
    if nfa.is_deterministic:
        return nfa
    sets, rows = subsets(nfa.rows, nfa.start.tolist(), limit)
    accept = set(nfa.accept.tolist())
    return plain(rows, [0], [i for i, states in enumerate(sets) if not accept.isdisjoint(states)])


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
        for low, high, targets in pieces(moves) if len(states) > 1 else single(moves):
            left -= len(targets)
            place = number.setdefault(targets, len(sets))
            if place == len(sets):
                sets.append(targets)
                several += len(targets) >= counted
            if row and row[-1][2] == place and row[-1][1] == low - 1:
                row[-1] = row[-1][0], high, place
            else:
                row.append((low, high, place))
        spend(1 + len(moves) / 2)
        if several > limit or left < 0:
            raise TooManyStates(limit=limit)
        found.append(row)
    return sets, found


def single(moves: Sequence[Move]) -> Iterable[tuple[int, int, frozenset[int]]]:
    """Return the :func:`pieces` of the moves of one state, in their order: as they are, if none overlap."""
    if all(a[1] < b[0] for a, b in itertools.pairwise(moves)):
        return [(low, high, frozenset((target,))) for low, high, target in moves]
    return pieces(moves)


def pieces(moves: Iterable[Move]) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Yield the ranges of bytes that lead to one set of targets each, in the order of their bytes."""
    begin: dict[int, list[int]] = {}
    end: dict[int, list[int]] = {}
    for low, high, target in moves:
        begin.setdefault(low, []).append(target)
        end.setdefault(high + 1, []).append(target)
    active: dict[int, int] = {}
    at = 0
    for byte in sorted({*begin, *end}):
        if active:
            yield at, byte - 1, frozenset(active)
        for target in end.get(byte, ()):
            active[target] -= 1
            if not active[target]:
                del active[target]
        for target in begin.get(byte, ()):
            active[target] = active.get(target, 0) + 1
        at = byte
