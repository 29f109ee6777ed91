"""Free text in terminals: states with loops on characters, as inside the quotes of ``/"[^"]*"/``.

A *letter* of a local state is a path from it back to it that does not visit it in between, through states that lead nowhere
else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from ..automata.epsilon import NO_EPSILONS
from ..automata.lazy import Letters
from ..automata.nfa import Nfa
from ..automata.region import LocalBody

MOST_BETWEEN = 200  # most states inside the letters of a local state
FEWEST = 64  # fewest single bytes that loop at a local state of free text

Moves = Callable[[int], Sequence[tuple[int, int, int]]]


def body_of(local: int, moves: Moves, ends: Callable[[int], bool]) -> LocalBody | None:
    """Return the free text at a local state, or None. ``ends``: whether the terminal may end in a state."""
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
    for state in order:  # grows during the loop
        edges[state] = [move for move in moves(state) if stays.get(move[2], False)]
        for _, _, target in edges[state]:
            if target not in number:
                number[target] = len(number)
                order.append(target)
    rows = [(number[s], low, high, number[to]) for s in order for low, high, to in edges[s]]
    return LocalBody(letters(len(order), tuple(rows)), None)


def region(first: int, local: int, moves: Moves, ends: Callable[[int], bool]) -> set[int] | None:
    """Return the states from ``first`` up to ``local``, or None unless all paths lead there."""
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
    """Return the letters of an automaton. Equal rows give one object, which serves as a key of caches."""
    start = np.array([0])
    return Letters(Nfa(states, np.array(rows, np.int64).reshape(-1, 4), NO_EPSILONS, start, start))
