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

from ..dfa import simplify
from ..nfa import Nfa, check_limit, trim
from ..work import spend

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


class Sketch:
    """A piece under construction: states and edges one by one, and values placed between states. State 0 is the start,
    state −1 the sink."""

    def __init__(self) -> None:
        self.size = 1
        self.edges: list[tuple[int, int, int, int]] = []
        self.placed: dict[tuple[Piece, int], list[int]] = {}  # where a value ends, and where it may start
        self.whole = True

    def state(self) -> int:
        """A new state."""
        self.size += 1
        return self.size - 1

    def read(self, source: int, text: bytes, target: int | None = None) -> int:
        """Read a text, to a new state if none is given; where that ends."""
        for i, byte in enumerate(text):
            here = target if target is not None and i == len(text) - 1 else self.state()
            self.edges.append((source, byte, byte, here))
            source = here
        return source

    def blank(self, state: int) -> None:
        """Let white space be read at a state."""
        self.edges += [(state, low, high, state) for low, high in ((9, 10), (13, 13), (32, 32))]

    def place(self, source: int, value: Piece, target: int) -> None:
        """Read a value. One that is read to the same end from several states is written once."""
        if value.size:
            sources = self.placed.setdefault((value, target), [])
            if source not in sources:
                sources.append(source)
        else:
            self.whole = False

    def finish(self) -> Piece:
        """The piece. Raises ``TooManyStates``."""
        total = self.size + sum(p.size - 1 - p.has_sink for p, _ in self.placed) + 1
        check_limit(total)
        own = np.array(self.edges, np.int64).reshape(-1, 4)
        own[own[:, 3] < 0, 3] = total - 1
        edges, size = [own], self.size
        spend(100 + len(own) / 8)
        onward: dict[int, Int[ndarray, "edge 4"]] = {}
        for (part, target), sources in self.placed.items():
            number = np.arange(part.size) + size - 1
            number[0] = sources[0]
            if part.has_sink:
                number[-1] = target
            found = [renumbered(part.edges, number)]
            if len(sources) > 1:
                found.append(repeated(found[0][part.edges[:, 0] == 0], np.array(sources[1:])))
            if len(part.open):
                if target not in onward:
                    onward[target] = own[own[:, 0] == target]
                spend(len(onward[target]) * len(part.open) / 2)
                found.append(repeated(onward[target], number[part.open]))
            spend(sum(map(len, found)) / 8)
            edges += found
            size += part.size - 1 - part.has_sink
        whole = Piece(total, np.concatenate(edges), True, np.empty(0, np.int64))
        return whole if self.whole else piece(trim(whole.nfa))


def plain(automaton: Nfa) -> Nfa:
    """The automaton, which has no skips and no useless states, as its own plain form."""
    found = replace(automaton, edges=automaton.edges[np.argsort(automaton.edges[:, 0], kind="stable")])
    object.__setattr__(found, "trimmed", True)
    return found
