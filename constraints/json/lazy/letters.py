"""The letters that the insides of JSON strings are made of, as byte automata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...automata.epsilon import NO_EPSILONS
from ...automata.lazy import Letters
from ...automata.machines import shortest_words
from ...automata.nfa import Nfa
from ..patterns import BODY

QUOTE = 34
Rows = dict[int, list[tuple[int, int, int]]]
"""By state: (low, high, state after such a byte), in the order of the bytes."""


def rows_of(nfa: Nfa) -> Rows:
    """The edges of a deterministic automaton by state."""
    edges = nfa.edges if nfa.by_byte is None else nfa.edges[nfa.by_byte]
    found: Rows = {}
    for source, low, high, target in edges.tolist():
        found.setdefault(source, []).append((low, high, target))
    return found


def merged_rows(moves: list[tuple[int, int, Any]]) -> list[tuple[int, int, Any]]:
    """The same moves, neighbours with one target joined."""
    found: list[tuple[int, int, Any]] = []
    for low, high, target in moves:
        if found and found[-1][1] == low - 1 and found[-1][2] == target:
            found[-1] = (found[-1][0], high, target)
        else:
            found.append((low, high, target))
    return found


_letters: dict[tuple[tuple[int, int, int, int], ...], Letters] = {}


def letters_of(rows: Callable[[int], Sequence[tuple[int, int, int]]], start: int) -> Letters:
    """The letters between two visits of a state, one object for each set of letters."""
    order, number = [start], {start: 0}
    edges = []
    for state in order:
        moves = []
        for low, high, target in rows(state):
            if target not in number:
                number[target] = len(order)
                order.append(target)
            moves.append((low, high, number[target]))
        edges += [(number[state], low, high, to) for low, high, to in merged_rows(moves)]
    key = tuple(edges)
    if key not in _letters:
        zero = np.array([0], np.int64)
        _letters[key] = Letters(Nfa(len(order), np.array(edges, np.int64), NO_EPSILONS, zero, zero), "json")
    return _letters[key]


BETWEEN = int(BODY.start[0])
LETTERS = letters_of(rows_of(BODY).__getitem__, BETWEEN)
"""The characters of JSON strings as they may be written."""
LETTER_ROWS = rows_of(LETTERS.nfa)
LETTER_AFTER = [[-1] * 256 for _ in range(LETTERS.nfa.num_states)]
"""By state within a letter: the state after each byte, −1 for none."""
for _source, _low, _high, _target in LETTERS.nfa.edges.tolist():
    LETTER_AFTER[_source][_low : _high + 1] = [_target] * (_high + 1 - _low)
FINISH = shortest_words(LETTER_ROWS, frozenset([0]))
"""By state within a letter: the shortest end of it."""
MOST_FINISH = max(map(len, FINISH.values()))
MOST_LETTER = 12
"""Bytes of a letter, at most: two escapes of half a character each."""
TABLE = [[-1] * 256 for _ in range(BODY.num_states)]
"""By state of ``BODY``: the state after each byte."""
for _source, _low, _high, _target in BODY.edges.tolist():
    TABLE[_source][_low : _high + 1] = [_target] * (_high + 1 - _low)
