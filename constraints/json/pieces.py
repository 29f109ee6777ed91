"""Automata put together from pieces, deterministic as long as the pieces are, without any search.

A *piece* is the automaton of JSON values. State 0 is its start, which no edge enters. Values that end by themselves end in
one *sink*, the last state, which no edge leaves; the others (numbers: ``12`` may go on) end in *open* states. What follows
a value (a comma, a bracket, white space) is no way to go on with it, so pieces are joined edge by edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..automata import epsilon as skips
from ..automata.dfa import simplify
from ..automata.nfa import Nfa, check_limit, trim

MAX_SIMPLIFIED = 8_000
NO_EDGES: Int[ndarray, "0 4"] = np.empty((0, 4), np.int64)
NO_SKIPS: Int[ndarray, "0 2"] = np.empty((0, 2), np.int64)


class Piece:
    """States 0 to ``size`` − 1; the last one is the sink if ``has_sink``. A piece of size 0 has no value at all."""

    def __init__(
        self, size: int, edges: Int[ndarray, "edge 4"], has_sink: bool, open_states: Int[ndarray, " open"]
    ) -> None:
        self.size, self.edges, self.has_sink, self.open = size, edges, has_sink, open_states

    @cached_property
    def nfa(self) -> Nfa:
        """The same as a plain automaton."""
        accept = np.append(self.open, self.size - 1) if self.has_sink else self.open
        if not self.size:
            return Nfa(0, NO_EDGES, NO_SKIPS, accept[:0], accept[:0])
        return plain(Nfa(self.size, self.edges, NO_SKIPS, np.array([0]), np.sort(accept)))


NOTHING = Piece(0, NO_EDGES, False, np.empty(0, np.int64))


def piece(nfa: Nfa) -> Piece:
    """An automaton as a piece; the empty word is left out."""
    nfa = nfa.plain
    if not nfa.num_states:
        return NOTHING
    n, edges = nfa.num_states, nfa.edges
    leaves, entered = np.zeros(n, bool), np.zeros(n, bool)
    leaves[edges[:, 0]], entered[edges[:, 3]] = True, True
    if len(nfa.start) == 1 and not entered[nfa.start[0]]:
        first = int(nfa.start[0])
    else:  # a start of its own, which takes over the edges of all starts
        copies = []
        for state in nfa.start.tolist():
            copies.append(edges[edges[:, 0] == state] * [0, 1, 1, 1] + [n, 0, 0, 0])
        own = Nfa(n + 1, np.concatenate([edges, *copies]), NO_SKIPS, np.array([n]), nfa.accept)
        return piece(trim(own))
    accept = nfa.accept[nfa.accept != first]
    sinks, open_states = accept[~leaves[accept]], accept[leaves[accept]]
    number = np.full(n, -1)
    number[first] = 0
    keep = np.ones(n, bool)
    keep[first] = False
    keep[sinks] = False
    number[keep] = 1 + np.arange(keep.sum())
    size = 1 + int(keep.sum()) + (len(sinks) > 0)
    number[sinks] = size - 1
    edges = np.column_stack([number[edges[:, 0]], edges[:, 1:3], number[edges[:, 3]]])
    return Piece(size, edges, len(sinks) > 0, number[open_states])


def beside(parts: Sequence[Piece]) -> Piece:
    """Values of any of the parts, whose first bytes differ."""
    parts = [part for part in parts if part.size]
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    edges, opened, size = [], [], 1
    total = 1 + sum(p.size - 1 - p.has_sink for p in parts) + any(p.has_sink for p in parts)
    for part in parts:
        number = np.arange(part.size) + size - 1
        number[0] = 0
        if part.has_sink:
            number[-1] = total - 1
        edges.append(renumbered(part.edges, number))
        opened.append(number[part.open])
        size += part.size - 1 - part.has_sink
    check_limit(total)
    return Piece(total, np.concatenate(edges), any(p.has_sink for p in parts), np.concatenate(opened))


def either(parts: Iterable[Piece]) -> Piece:
    """Values of any of the parts, which may be alike: without ambiguity where that is cheap."""
    found = [part for part in parts if part.size]
    if len(found) < 2:
        return found[0] if found else NOTHING
    joined = beside(found)
    return piece(simplify(joined.nfa)) if joined.size <= MAX_SIMPLIFIED else joined


def renumbered(edges: Int[ndarray, "edge 4"], number: Int[ndarray, " state"]) -> Int[ndarray, "edge 4"]:
    """The edges with other names for their states."""
    result = edges.copy()
    result[:, 0], result[:, 3] = number[edges[:, 0]], number[edges[:, 3]]
    return result


def repeated(edges: Int[ndarray, "edge 4"], sources: Int[ndarray, " state"]) -> Int[ndarray, "edge2 4"]:
    """The edges, from each of the sources."""
    copies = np.tile(edges, (len(sources), 1))
    copies[:, 0] = np.repeat(sources, len(edges))
    return copies


def quoted(body: Nfa) -> Piece:
    """The strings with these insides."""
    body = body.plain
    if not body.num_states:
        return NOTHING
    if len(body.start) > 1:
        return piece(Nfa(*_with_quotes(body)))
    n, start = body.num_states, int(body.start[0])
    quotes = np.column_stack(
        [body.accept + 1, np.full((len(body.accept), 2), 34), np.full(len(body.accept), n + 1)]
    )
    edges = np.concatenate([[[0, 34, 34, start + 1]], body.edges + np.array([1, 0, 0, 1]), quotes])
    return Piece(n + 2, edges, True, np.empty(0, np.int64))


def _with_quotes(body: Nfa) -> tuple[int, ndarray, ndarray, ndarray, ndarray]:
    """The same for an automaton with several starts."""
    n = body.num_states
    first = [[n, 34, 34, s] for s in body.start.tolist()]
    last = [[a, 34, 34, n + 1] for a in body.accept.tolist()]
    return n + 2, np.concatenate([body.edges, first, last]), NO_SKIPS, np.array([n]), np.array([n + 1])


def surrounded(values: Nfa) -> Nfa:
    """JSON values with any white space before and after them. No edge enters the start or reads white space there or where a
    value ends."""
    if not values.num_states:
        return values
    leaves = np.zeros(values.num_states, bool)
    leaves[values.edges[:, 0]] = True
    after = values.num_states  # the state after white space behind a number, which could go on
    ends = [(state, after if leaves[state] else state) for state in values.accept.tolist()]
    loops = [(state, state) for state in values.start.tolist()]
    blanks = [
        (source, low, high, target)
        for source, target in (*loops, *ends, (after, after))
        for low, high in ((9, 10), (13, 13), (32, 32))
    ]
    accept = np.append(values.accept, after)
    edges = np.concatenate([values.edges, np.array(blanks, np.int64)])
    return plain(trim(Nfa(after + 1, edges, NO_SKIPS, values.start, accept)))


def plain(automaton: Nfa) -> Nfa:
    """The same as ``skips.plain``, its edges in order."""
    order = automaton.by_byte
    return skips.plain(automaton if order is None else replace(automaton, edges=automaton.edges[order]))
