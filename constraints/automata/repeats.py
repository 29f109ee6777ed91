"""Counted repeats: a copy of the automaton for each word, without superfluous paths.

    (i, q): i words are read, and q is the state within the next one

Where a word may end or go on by the same character, as in ``(\\w+\\s?){1,50}``, both ways are paths, and a state is
reached with every count. Once enough words are read, to begin a new word early gains nothing: whatever can be read
from there can be read from the state that stayed in the word. Such edges are dropped, which often makes the automaton
deterministic. ("Pruning" by simulation: Clemente and Mayr 2013, where the larger of two targets is kept.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from ...errors import TooManyStates
from . import dfa
from .arrays import check_limit, check_transitions
from .epsilon import Move, Rows, Skip, merged
from .nfa import Nfa, concat, empty, literal, of_rows, optional, plain, plus, star
from .work import metered, spend

MOST_WORK = 100_000_000
"""The most comparisons (pairs of states times byte classes); beyond, each state is compared with itself alone."""
SMALL = 3_000
"""Edges in all copies up to which repeats are cached: an address, say, repeats one digit many times."""


def repeat(nfa: Nfa, low: int, high: int | None) -> Nfa:
    """Return the automaton of ``low`` to ``high`` words in a row (``None``: any number).
    Raises :class:`TooManyStates`."""
    if high is None:
        if low <= 1:
            return plus(nfa) if low else star(nfa)
        return concat([repeat(nfa, low - 1, low - 1), plus(nfa)])
    if high < low:
        return empty()
    if high < 2:
        return concat([nfa] * high) if low or not high else optional(nfa)
    return counted(nfa, low, high)


def counted(nfa: Nfa, low: int, high: int) -> Nfa:
    """Return the automaton of ``low`` to ``high`` words in a row, ``high`` at least 2.
    Raises :class:`TooManyStates`."""
    if high * (nfa.num_moves + len(nfa.skips)) > SMALL:
        return copied(nfa, low, high)
    start, accept = tuple(nfa.start.tolist()), tuple(nfa.accept.tolist())
    return known(tuple(map(tuple, nfa.rows)), start, accept, tuple(nfa.skips), low, high)


@metered(maxsize=512)
def known(
    rows: tuple[tuple[Move, ...], ...],
    start: tuple[int, ...],
    accept: tuple[int, ...],
    skips: tuple[Skip, ...],
    low: int,
    high: int,
) -> Nfa:
    """Call :func:`copied` on an automaton given by tuples, so that it can be cached."""
    return copied(of_rows([list(row) for row in rows], start, accept, skips), low, high)


def copied(nfa: Nfa, low: int, high: int) -> Nfa:
    """Chain one copy of the automaton for each word, without superfluous edges between copies."""
    one = smaller(nfa.plain)
    if np.isin(one.start, one.accept).any():  # empty words count, so no other is needed
        low = 0
    one = fresh_start(one)  # without the empty word and edges to its start
    if not one.num_states:
        return empty() if low else literal(b"")
    n, ends = one.num_states, one.accept.tolist()
    check_limit(high * n)
    begin = [move for state in one.start.tolist() for move in one.rows[state]]
    check_transitions(len(ends) * len(begin))
    is_below = simulated(one) if any(one.rows[end] for end in ends) else operator.eq
    useful = {
        end: [piece for move in begin for piece in gains(move, one.rows[end], is_below)] for end in ends
    }
    early = min(max(low - 1, 0), high - 1)  # crossings after which words are still missing
    some = early * len(ends) * len(begin) + (high - early) * sum(map(len, useful.values()))
    check_transitions(high * one.num_moves + some)
    spend(100 + (high * one.num_moves + some) / 4)
    rows: Rows = []
    inner, start = n - len(one.start), one.start.tolist()  # the last states; only the first word begins there
    first = [0, *range(n, n + (high - 1) * inner, inner)]
    for word, (at, past) in enumerate(zip(first, [*first[1:], 0], strict=True)):
        crossings = {} if not past else dict.fromkeys(ends, begin) if word < early else useful
        for state, row in enumerate(one.rows[:inner] if word else one.rows):
            moves = [(bottom, top, at + to) for bottom, top, to in row]
            if state in crossings:
                moves += [(bottom, top, past + to) for bottom, top, to in crossings[state]]
                moves = merged(moves)
            rows.append(moves)
    accept = [at + end for at in first[max(low - 1, 0) :] for end in ends] + ([] if low else start)
    if all(moves == begin for moves in useful.values()):  # each word can begin
        return of_rows(rows, start, sorted(accept), trimmed=True)
    return plain(rows, start, accept)


def smaller(nfa: Nfa) -> Nfa:
    """Return the minimal DFA if it has no more states, otherwise the automaton itself."""
    try:
        small = dfa.minimize(nfa, limit=nfa.num_states + 50)
    except TooManyStates:
        return nfa
    return small if small.num_states <= nfa.num_states else nfa


def fresh_start(nfa: Nfa) -> Nfa:
    """Drop the empty word, and copy the starts so that no edge leads to one."""
    rows = [*nfa.rows, *(nfa.rows[state] for state in nfa.start.tolist())]
    return plain(rows, range(nfa.num_states, len(rows)), nfa.accept.tolist())


def gains(move: Move, staying: Sequence[Move], is_below: Callable[[int, int], bool]) -> Iterator[Move]:
    """Yield the parts of a move into the next word that gain something over staying in the word."""
    low, high, target = move
    for bottom, top, stays in staying:
        if bottom <= high and top >= low and is_below(target, stays):
            if low < bottom:
                yield low, bottom - 1, target
            low = top + 1
    if low <= high:
        yield low, high, target


def simulated(one: Nfa) -> Callable[[int, int], bool]:
    """Return the function that says whether a state in the next word does no more than a state in the word before it."""
    n, classes = one.num_states, int(one.byte_class.max()) + 1
    if not one.is_deterministic or 4 * n * n * classes > MOST_WORK:
        return operator.eq
    table = np.full((n + 1, classes), n)  # state n is dead
    table[one.transitions[:, 0], one.transitions[:, 1]] = one.transitions[:, 2]
    below = simulation(table, one.accept, table[one.start[0]]).tolist()
    return lambda p, q: bool(below[p][q])


def simulation(
    table: Int[ndarray, "state class"], accept: Int[ndarray, " accept"], begin: Int[ndarray, " class"]
) -> Bool[ndarray, "state state"]:
    """Compute whether state p with more words read does no more than state q with fewer.

    This is a greatest fixpoint. A move of p within its word is met by a move of q within its word, or, where q may end its
    word, by the beginning of the next one, which costs q its lead: then the two are compared at the same count.
    """
    dead = len(table) - 1
    accepting = np.zeros(dead + 1, bool)
    accepting[accept] = True
    same = lead = ~accepting[:, None] | accepting[None, :]
    for _ in range(max(2, MOST_WORK // (2 * table.size * len(table)))):
        before = same, lead
        spend(100 + table.size * len(table) / 200)
        for k in range(table.shape[1]):
            move = table[:, k]
            same = same & before[0][np.ix_(move, move)]
            again = accepting & before[0][move][:, [begin[k]]]
            lead = lead & (before[1][np.ix_(move, move)] | again)
        same[dead], lead[dead] = True, True
        if np.array_equal(same, before[0]) and np.array_equal(lead, before[1]):
            return np.asarray(lead)
    return np.eye(dead + 1, dtype=bool)
