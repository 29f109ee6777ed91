"""Byte-level finite automata as arrays, and the regular operations on them.

    L(nfa) = { w : some path  start --w--> accept }

An edge is a row ``(source, low, high, target)``: it reads any one byte in ``low..high``. An epsilon transition is a row
``(source, target)``: it reads nothing. Everything is built from one operation, :func:`network`: a graph whose arcs are
automata themselves. Epsilon transitions are removed for all states together, on first use of :attr:`Nfa.plain`.
Intersection, determinisation and minimisation are in ``dfa.py``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Int, Integer
from numpy import ndarray

from .arrays import check_limit as check_limit
from .arrays import ragged_arange
from .epsilon import Move, Rows, Skip, merged, trimmed
from .work import spend


class Nfa:
    """A byte-level automaton. Immutable; state ids are ``0 .. num_states - 1``.

    Made from arrays, or from lists by :func:`of_rows`; each is made from the other when it is asked for.

    Attributes
    ----------
    trimmed
        Whether it is its own plain form, see :attr:`plain`.
    minimal
        Whether it is known to be the minimal DFA, and plain.
    """

    trimmed = minimal = False

    def __init__(
        self,
        num_states: int,
        edges: Int[ndarray, "edge 4"] | None,
        epsilons: Int[ndarray, "skip 2"] | None,
        start: Int[ndarray, " start"],
        accept: Int[ndarray, " accept"],
    ) -> None:
        self.num_states, self.start, self.accept = num_states, start, accept
        if edges is not None and epsilons is not None:
            self.edges, self.epsilons = edges, epsilons

    @cached_property
    def edges(self) -> Int[ndarray, "edge 4"]:
        """Rows (source, lowest byte, highest byte, target)."""
        return edges_of(self.rows)

    @cached_property
    def epsilons(self) -> Int[ndarray, "skip 2"]:
        """Rows (source, target)."""
        return np.array(self.skips, np.int64).reshape(-1, 2)

    @cached_property
    def rows(self) -> Rows:
        """For each state its moves (lowest byte, highest byte, target), merged, in the order of their bytes."""
        return rows_of(self.edges, self.num_states)

    @cached_property
    def skips(self) -> list[Skip]:
        """The epsilon transitions (source, target)."""
        return [(source, target) for source, target in self.epsilons.tolist()]

    @cached_property
    def num_moves(self) -> int:
        """The number of moves of all states."""
        return sum(map(len, self.rows))

    @property
    def plain(self) -> Nfa:
        """The language as a trimmed, epsilon-free automaton, its edges merged, by source and lowest byte."""
        return self if self.trimmed else self._plain

    @cached_property
    def _plain(self) -> Nfa:
        return plain(self.rows, self.start.tolist(), self.accept.tolist(), self.skips)

    @cached_property
    def byte_class(self) -> Int[ndarray, " 256"]:
        """The class of each byte: bytes that no edge tells apart share one.
        Classes are numbered by their smallest byte."""
        rng = np.random.default_rng(0)
        weight = rng.integers(1, 2**63, size=len(self.edges), dtype=np.uint64)
        change = np.zeros(257, np.uint64)
        np.add.at(change, self.edges[:, 1], weight)
        np.subtract.at(change, self.edges[:, 2] + 1, weight)
        _, first, inverse = np.unique(np.cumsum(change[:256]), return_index=True, return_inverse=True)
        rank = np.empty_like(first)
        rank[np.argsort(first)] = np.arange(len(first))
        return np.asarray(rank[inverse], np.int64)

    @cached_property
    def transitions(self) -> Int[ndarray, "row 3"]:
        """Rows (source, byte class, target), sorted: edges written out by class. For plain automata."""
        _, representative = np.unique(self.byte_class, return_index=True)
        before = np.searchsorted(
            representative, np.arange(257)
        )  # classes are numbered by their smallest byte
        low = before[self.edges[:, 1]]
        count = before[self.edges[:, 2] + 1] - low
        klass = ragged_arange(low, count)
        source, target = np.repeat(self.edges[:, 0], count), np.repeat(self.edges[:, 3], count)
        key = (source * 256 + klass) * self.num_states + target
        return np.column_stack([source, klass, target])[np.argsort(key, kind="stable")]

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether there is at most one start, and at most one target for each state and byte.
        The automaton must be plain."""
        for row in self.rows:
            end = -1
            for low, high, _ in row:
                if low <= end:
                    return False
                end = high
        return len(self.start) < 2

    def after(self, state: int, byte: int) -> int:
        """Return the state after a byte, −1 if there is none. The automaton must be deterministic, its moves in order."""
        row = self.rows[state]
        move = bisect_right(row, (byte, 256)) - 1
        return row[move][2] if move >= 0 and row[move][1] >= byte else -1

    def run(self, state: int, word: bytes) -> int:
        """Return the state after a word, −1 if there is none. As :meth:`after`."""
        for byte in word:
            state = self.after(state, byte)
            if state < 0:
                return -1
        return state

    def accepts(self, data: bytes) -> bool:
        """Return whether the automaton accepts these bytes."""
        plain = self.plain
        states = set(plain.start.tolist())
        for byte in data:
            states = {to for state in states for low, high, to in plain.rows[state] if low <= byte <= high}
            if not states:
                return False
        return not states.isdisjoint(plain.accept.tolist())

    @property
    def is_empty(self) -> bool:
        """Whether no string at all is accepted."""
        return self.plain.num_states == 0

    def shortest(self) -> bytes | None:
        """Return a shortest accepted string, ``None`` if there is none."""
        plain = self.plain
        if not plain.num_states:
            return None
        accept = set(plain.accept.tolist())
        came: dict[int, tuple[int, int] | None] = dict.fromkeys(plain.start.tolist())
        queue = list(came)
        for state in queue:
            if state in accept:
                word = bytearray()
                while (step := came[state]) is not None:
                    state, byte = step
                    word.append(byte)
                return bytes(reversed(word))
            for low, _, target in plain.rows[state]:
                if target not in came:
                    came[target] = (state, low)
                    queue.append(target)
        raise AssertionError("a trimmed automaton reaches acceptance")

    def between(self, start: Iterable[int] | None = None, accept: Iterable[int] | None = None) -> Nfa:
        """Return this automaton with other start states, or other accepting ones; None: its own."""
        begin, ends = self.start if start is None else start, self.accept if accept is None else accept
        return of_rows(self.rows, begin, ends, self.skips)

    def reverse(self) -> Nfa:
        """Return the automaton of the reversed language."""
        return Nfa(
            self.num_states, self.edges[:, [3, 1, 2, 0]], self.epsilons[:, ::-1], self.accept, self.start
        )


# ---------------------------------------------------------------- building


def of_rows(
    rows: Rows,
    start: Iterable[int],
    accept: Iterable[int],
    skips: Sequence[Skip] = (),
    *,
    trimmed: bool = False,
    minimal: bool = False,
) -> Nfa:
    """Return the automaton of moves that are merged and in the order of their bytes; the keywords are its attributes."""
    found = Nfa(len(rows), None, None, np.array([*start], np.int64), np.array([*accept], np.int64))
    found.rows, found.skips = rows, list(skips)
    found.trimmed, found.minimal = trimmed or minimal, minimal
    return found


def edges_of(rows: Sequence[Sequence[Move]]) -> Int[ndarray, "edge 4"]:
    """Return moves as edges, in the order of their sources."""
    flat = list[int]()
    for source, row in enumerate(rows):
        for low, high, target in row:
            flat += (source, low, high, target)
    return np.array(flat, np.int64).reshape(-1, 4)


def rows_of(edges: Integer[ndarray, "edge 4"], num_states: int) -> Rows:
    """Return for each state its moves, merged, in the order of their bytes."""
    found: Rows = [[] for _ in range(num_states)]
    for source, low, high, target in edges.tolist():
        found[source].append((low, high, target))
    return [merged(row) for row in found]


def plain(rows: Rows, start: Iterable[int], accept: Iterable[int], skips: Sequence[Skip] = ()) -> Nfa:
    """Return the automaton of some moves, without epsilon transitions and without states that no accepted word visits."""
    return of_rows(*trimmed(rows, start, accept, skips), trimmed=True)


def network(nodes: int, arcs: Iterable[tuple[int, Nfa | None, int]], start: int, accept: int) -> Nfa:
    """Join automata as the arcs of a graph; accept what paths from ``start`` to ``accept`` read.

    An arc ``(i, nfa, j)`` reads a word of its automaton, ``(i, None, j)`` nothing. Raises :class:`TooManyStates`.
    """
    rows, skips = [list[Move]() for _ in range(nodes)], list[Skip]()
    spend(5)
    for source, nfa, target in arcs:
        if nfa is None:
            skips.append((source, target))
            continue
        first = len(rows)
        rows += [[(low, high, first + to) for low, high, to in row] for row in nfa.rows]
        skips += [(first + a, first + b) for a, b in nfa.skips]
        skips += [(source, first + state) for state in nfa.start.tolist()]
        skips += [(first + state, target) for state in nfa.accept.tolist()]
        check_limit(len(rows))
        spend(5 + nfa.num_states / 5)
    return of_rows(rows, [start], [accept], skips)


def literal(word: bytes) -> Nfa:
    """Return the automaton of exactly this word. Raises :class:`TooManyStates` for one that is too long."""
    check_limit(len(word))
    return byte_ranges(*([(byte, byte)] for byte in word))


def byte_ranges(*sequence: Sequence[tuple[int, int]]) -> Nfa:
    """Return the automaton of words whose i-th byte is in a range of ``sequence[i]``: (low, high)."""
    rows = [merged([(low, high, i + 1) for low, high in ranges]) for i, ranges in enumerate(sequence)]
    return of_rows([*rows, []], [0], [len(sequence)])


def sequences(options: Iterable[Sequence[Sequence[tuple[int, int]]]]) -> Nfa:
    """Return the union of ``byte_ranges(*option)`` over all options, as one automaton; no option may be empty."""
    rows: Rows = [[], []]
    for *begin, end in options:
        here = 0
        for ranges in begin:
            rows[here] += [(low, high, len(rows)) for low, high in ranges]
            here = len(rows)
            rows.append([])
        rows[here] += [(low, high, 1) for low, high in end]
        spend(2 * len(begin) + 2)
    return of_rows([merged(row) for row in rows], [0], [1])


def empty() -> Nfa:
    """Return the automaton of the empty language."""
    return of_rows([], [], [])


def union(parts: Iterable[Nfa]) -> Nfa:
    """Return the union of the languages of some automata."""
    return network(2, ((0, part, 1) for part in parts), 0, 1)


def concat(parts: Sequence[Nfa]) -> Nfa:
    """Return the concatenation of the languages of some automata."""
    return network(len(parts) + 1, ((i, part, i + 1) for i, part in enumerate(parts)), 0, len(parts))


def star(nfa: Nfa) -> Nfa:
    """Return the Kleene star: any number of words, one after another."""
    return network(1, [(0, nfa, 0)], 0, 0)


def plus(nfa: Nfa) -> Nfa:
    """Return the Kleene plus: one word or more, one after another."""
    return network(2, [(0, nfa, 1), (1, None, 0)], 0, 1)


def optional(nfa: Nfa) -> Nfa:
    """Return the automaton of the language and the empty text."""
    return network(2, [(0, nfa, 1), (0, None, 1)], 0, 1)


ANYTHING = star(byte_ranges([(0, 255)]))
"""All byte strings."""
