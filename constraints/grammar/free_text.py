"""Free text in terminals: local states to which single characters lead back, as in ``/"[^"]*"/`` within the quotes.

A letter of a local state is a path from it back to it that does not visit it in between, along states that lead nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ..automata.epsilon import NO_EPSILONS
from ..automata.lazy import Letters
from ..automata.nfa import Nfa
from ..automata.region import LocalBody

MOST_BETWEEN = 200  # states within letters
FEWEST = 64  # bytes that are letters by themselves: fewer are no free text

Moves = Callable[[int], Sequence[tuple[int, int, int]]]


def body_of(local: int, moves: Moves, ends: Callable[[int], bool]) -> LocalBody | None:
    """The free text that a local state is in. ``ends``: whether the terminal may end in a state."""
    if sum(high - low + 1 for low, high, to in moves(local) if to == local) < FEWEST:
        return None
    stays: dict[int, bool] = {local: True}
    edges: dict[int, list[tuple[int, int, int]]] = {}
    for _, _, target in moves(local):
        if target not in stays:
            between = region(target, local, moves, ends)
            stays.update(dict.fromkeys(between or (target,), between is not None))
    number = {local: 0}
    order = [local]
    for state in order:  # which grows
        edges[state] = [move for move in moves(state) if stays.get(move[2], False)]
        for _, _, target in edges[state]:
            if target not in number:
                number[target] = len(number)
                order.append(target)
    rows = [(number[s], low, high, number[to]) for s in order for low, high, to in edges[s]]
    return LocalBody(letters(len(order), tuple(rows)), None)


def region(first: int, local: int, moves: Moves, ends: Callable[[int], bool]) -> set[int] | None:
    """The states from here to a local state, if all ways lead there."""
    found, todo, before = {first}, [first], dict[int, set[int]]()
    while todo:
        state = todo.pop()
        leaving = moves(state)
        if ends(state) or not leaving or len(found) > MOST_BETWEEN:
            return None
        for _, _, target in leaving:
            before.setdefault(target, set()).add(state)
            if target != local and target not in found:
                found.add(target)
                todo.append(target)
    back, todo = set[int](), [local]
    while todo:
        for state in before.get(todo.pop(), ()):
            if state not in back:
                back.add(state)
                todo.append(state)
    return found if back == found else None


@lru_cache(512)
def letters(states: int, rows: tuple[tuple[int, int, int, int], ...]) -> Letters:
    """The letters of an automaton: the same object for the same rows, since tables of a vocabulary are kept by it."""
    start = np.array([0])
    return Letters(Nfa(states, np.array(rows, np.int64).reshape(-1, 4), NO_EPSILONS, start, start))
