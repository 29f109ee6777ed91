"""Automata that are deterministic but for a few states: sets of states are followed from these alone.

s --a--> {t, u}  becomes a state of its own, and so do the sets that it leads to, until each is one state again
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..errors import TooManyStates
from .arrays import group_by
from .nfa import Nfa, trim
from .work import attempt, spend

MOST_WORK = 450_000  # units
MOST_STATES = 10  # that overlap: with more, sets hardly come to an end

Row = tuple[int, int, int]  # low, high, target


def resolved(nfa: Nfa) -> Nfa:
    """The same language by a deterministic automaton, or the automaton itself where that takes much. It must have
    no skips."""
    with suppress(TooManyStates), attempt(MOST_WORK):
        return followed(nfa)
    return nfa


def followed(nfa: Nfa) -> Nfa:
    """The same language by a deterministic automaton. Raises ``TooManyStates``."""
    n, edges = nfa.num_states, nfa.edges[np.lexsort((nfa.edges[:, 1], nfa.edges[:, 0]))]
    spend(len(edges) / 16)
    again = (edges[1:, 0] == edges[:-1, 0]) & (edges[1:, 1] <= edges[:-1, 2])
    pointer, _ = group_by(edges[:, 0], n)
    names = {frozenset([state]): state for state in np.unique(edges[1:][again, 0]).tolist()}
    if len(nfa.start) != 1 or not 0 < len(names) <= MOST_STATES:
        return nfa
    rows, overlapping, queue = [], list(names.values()), list(names)
    for members in queue:
        found = [row for state in members for row in edges[pointer[state] : pointer[state + 1], 1:].tolist()]
        spend(10 + len(found) / 2)
        for low, high, targets in apart(found):
            if len(targets) > 1 and targets not in names:
                names[targets] = n + len(names) - len(overlapping)
                queue.append(targets)
            rows.append((names[members], low, high, names[targets] if len(targets) > 1 else min(targets)))
    accepting = set(nfa.accept.tolist())
    accept = [number for members, number in names.items() if number >= n and members & accepting]
    keep = ~np.isin(edges[:, 0], overlapping)
    whole = replace(
        nfa,
        num_states=n + len(names) - len(overlapping),
        edges=np.concatenate([edges[keep], np.array(rows)]),
        accept=np.append(nfa.accept, np.array(accept, np.int64)),
    )
    return trim(whole)


def apart(rows: Iterable[Row]) -> list[tuple[int, int, frozenset[int]]]:
    """The ranges of bytes that the rows tell apart, each with the states that it leads to."""
    ends = sorted({end for low, high, _ in rows for end in (low, high + 1)})
    found = []
    for low, after in pairwise(ends):
        if targets := frozenset(t for a, b, t in rows if a <= low <= b):
            found.append((low, after - 1, targets))
    return found
