"""The letters (encoded characters) that the contents of strings are made of, as byte automata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...automata.epsilon import NO_EPSILONS
from ...automata.lazy import Letters
from ...automata.machines import shortest_words
from ...automata.nfa import Nfa
from ..patterns import any_text
from ..text import Spelling

Rows = dict[int, list[tuple[int, int, int]]]
"""By state: (low, high, state after such a byte), in the order of the bytes."""


def rows_of(nfa: Nfa) -> Rows:
    """Return the edges of a deterministic automaton by state."""
    edges = nfa.edges if nfa.by_byte is None else nfa.edges[nfa.by_byte]
    found: Rows = {}
    for source, low, high, target in edges.tolist():
        found.setdefault(source, []).append((low, high, target))
    return found


def merged_rows(moves: list[tuple[int, int, Any]]) -> list[tuple[int, int, Any]]:
    """Join neighbouring ranges with one target."""
    found: list[tuple[int, int, Any]] = []
    for low, high, target in moves:
        if found and found[-1][1] == low - 1 and found[-1][2] == target:
            found[-1] = (found[-1][0], high, target)
        else:
            found.append((low, high, target))
    return found


_letters: dict[tuple[tuple[int, int, int, int], ...], Letters] = {}


def letters_of(rows: Callable[[int], Sequence[tuple[int, int, int]]], start: int) -> Letters:
    """Return the letters between two visits of a state, one object for each set of letters."""
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


class Alphabet:
    """The letters of strings in one spelling, with their tables.

    ``letters``: their automaton. ``rows``, ``after``: by its state, the moves, and the state after each byte (−1 for none).
    ``finish``: by its state, the shortest end of a letter. ``between``, ``table``: the state between two letters of the automaton
    of all strings, and by its state the state after each byte (−1 for none).
    """

    def __init__(self, spelling: Spelling) -> None:
        body = any_text(spelling.alphabet)
        self.between = int(body.start[0])
        self.letters = letters_of(rows_of(body).__getitem__, self.between)
        self.rows, self.after = rows_of(self.letters.nfa), table_of(self.letters.nfa)
        self.finish = shortest_words(self.rows, frozenset([0]))
        self.most_finish = max(map(len, self.finish.values()))
        self.table = table_of(body)


def table_of(nfa: Nfa) -> list[list[int]]:
    """Return, by state of a deterministic automaton, the state after each byte (−1 for none)."""
    found = [[-1] * 256 for _ in range(nfa.num_states)]
    for source, low, high, target in nfa.edges.tolist():
        found[source][low : high + 1] = [target] * (high + 1 - low)
    return found


alphabet_of = lru_cache(maxsize=None)(Alphabet)
"""The letters of a spelling, cached."""
MOST_LETTER = 12
"""The most bytes of a letter: two escapes, each of half a character."""
