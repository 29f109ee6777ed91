"""Byte-level finite automata as arrays, and the regular operations on them.

    L(nfa) = { w : some path  start --w--> accept }

An edge is a row ``(source, low, high, target)``: it reads any one byte in ``low..high``. An epsilon transition is a row
``(source, target)``: it reads nothing. Everything is built from one operation, :func:`network`: a graph whose arcs are
automata themselves. Epsilon transitions are removed for all states together, on first use of :attr:`Nfa.plain`.
Intersection, determinisation and minimisation are in ``dfa.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from .arrays import check_limit as check_limit
from .arrays import ragged_arange
from .epsilon import NO_EPSILONS, remove_epsilons
from .epsilon import trim as trim
from .work import spend


@dataclass(frozen=True, eq=False)
class Nfa:
    """A byte-level automaton. Immutable; state ids are ``0 .. num_states - 1``."""

    num_states: int
    edges: Int[ndarray, "edge 4"]  # source, low, high, target
    epsilons: Int[ndarray, "skip 2"]  # source, target
    start: Int[ndarray, " start"]
    accept: Int[ndarray, " accept"]
    trimmed: bool = field(default=False, init=False)  # whether it is its own plain form, see `plain`
    minimal: bool = field(default=False, init=False)  # whether it is known to be the minimal DFA, and plain

    @property
    def plain(self) -> Nfa:
        """The language as a trimmed, epsilon-free automaton, its edges sorted and merged."""
        return self if self.trimmed else self._plain

    @cached_property
    def _plain(self) -> Nfa:
        return trim(remove_epsilons(self))

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

    @property
    def _classes_of_edges(self) -> tuple[Int[ndarray, " edge"], Int[ndarray, " edge"]]:
        """Return the first byte class on each edge, and the number of classes that its range of bytes spans."""
        _, representative = np.unique(self.byte_class, return_index=True)
        before = np.searchsorted(
            representative, np.arange(257)
        )  # classes are numbered by their smallest byte
        low = before[self.edges[:, 1]]
        return low, before[self.edges[:, 2] + 1] - low

    @cached_property
    def num_rows(self) -> int:
        """The number of rows of :attr:`transitions`, without writing them out."""
        return int(self._classes_of_edges[1].sum())

    @cached_property
    def transitions(self) -> Int[ndarray, "row 3"]:
        """Rows (source, byte class, target), sorted: edges written out by class. For plain automata."""
        low, count = self._classes_of_edges
        klass = ragged_arange(low, count)
        source, target = np.repeat(self.edges[:, 0], count), np.repeat(self.edges[:, 3], count)
        key = (source * 256 + klass) * self.num_states + target
        return np.column_stack([source, klass, target])[np.argsort(key, kind="stable")]

    @cached_property
    def is_deterministic(self) -> bool:
        """Whether there is at most one start, and at most one target for each state and byte.
        The automaton must be plain."""
        if len(self.start) > 1:
            return False
        source, low, high = (self.edges[:, column] for column in range(3))
        if self.by_byte is not None:
            source, low, high = source[self.by_byte], low[self.by_byte], high[self.by_byte]
        return bool(((source[1:] != source[:-1]) | (low[1:] > high[:-1])).all())

    @cached_property
    def by_byte(self) -> Int[ndarray, " edge"] | None:
        """The permutation that sorts edges by source and lowest byte, ``None`` if they are sorted."""
        key = self.edges[:, 0] * 256 + self.edges[:, 1]
        return None if (key[1:] >= key[:-1]).all() else np.argsort(key, kind="stable")  # nearly sorted

    @cached_property
    def _steps(self) -> dict[int, list[list[int]]]:
        return {}  # state -> rows (low, high, target), filled in as states are visited

    def _step(self, state: int) -> list[list[int]]:
        if state not in self._steps:
            low, high = np.searchsorted(self.edges[:, 0], [state, state + 1])
            self._steps[state] = self.edges[low:high, 1:].tolist()
        return self._steps[state]

    def accepts(self, data: bytes) -> bool:
        """Return whether the automaton accepts these bytes."""
        plain = self.plain
        states = set(plain.start.tolist())
        for byte in data:
            states = {to for state in states for low, high, to in plain._step(state) if low <= byte <= high}
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
            for low, _, target in plain._step(state):
                if target not in came:
                    came[target] = (state, low)
                    queue.append(target)
        raise AssertionError("a trimmed automaton reaches acceptance")

    def reverse(self) -> Nfa:
        """Return the automaton of the reversed language."""
        return Nfa(
            self.num_states, self.edges[:, [3, 1, 2, 0]], self.epsilons[:, ::-1], self.accept, self.start
        )


# ---------------------------------------------------------------- building


def network(nodes: int, arcs: Iterable[tuple[int, Nfa | None, int]], start: int, accept: int) -> Nfa:
    """Join automata as the arcs of a graph; accept what paths from ``start`` to ``accept`` read.

    An arc ``(i, nfa, j)`` reads a word of its automaton, ``(i, None, j)`` nothing. Raises :class:`TooManyStates`.
    """
    parts, ends, states = list[Nfa](), list[tuple[int, int, int]](), nodes
    free: list[tuple[int, int]] = []
    spend(20)
    for source, nfa, target in arcs:
        spend(20 if nfa is None else 25 + (len(nfa.edges) + len(nfa.epsilons)) / 20)
        if nfa is None:
            free.append((source, target))
            continue
        parts.append(nfa)
        ends.append((states, source, target))
        states += nfa.num_states
        check_limit(states)
    epsilons = np.array(free, np.int64).reshape(-1, 2)
    if not parts:
        return Nfa(states, np.empty((0, 4), np.int64), epsilons, np.array([start]), np.array([accept]))
    first, source, target = np.array(ends).T

    def moved(rows: Sequence[Int[ndarray, "..."]]) -> tuple[Int[ndarray, "..."], Int[ndarray, " row"]]:
        """Return the rows of all parts in one array, and the part of each row."""
        return np.concatenate(rows), np.repeat(np.arange(len(parts)), [len(some) for some in rows])

    edges, part = moved([nfa.edges for nfa in parts])
    edges[:, 0] += first[part]
    edges[:, 3] += first[part]
    inner, part = moved([nfa.epsilons for nfa in parts])
    begin, by = moved([nfa.start for nfa in parts])
    end, to = moved([nfa.accept for nfa in parts])
    epsilons = np.concatenate([
        inner + first[part, None],
        np.column_stack([source[by], begin + first[by]]),
        np.column_stack([end + first[to], target[to]]),
        epsilons,
    ])  # fmt: skip
    return Nfa(states, edges, epsilons, np.array([start]), np.array([accept]))


def literal(word: bytes) -> Nfa:
    """Return the automaton of exactly this word."""
    data = np.frombuffer(word, np.uint8).astype(np.int64)
    position = np.arange(len(word))
    edges = np.column_stack([position, data, data, position + 1])
    return Nfa(len(word) + 1, edges, NO_EPSILONS, np.array([0]), np.array([len(word)]))


def byte_ranges(*sequence: Sequence[tuple[int, int]]) -> Nfa:
    """Return the automaton of words whose i-th byte is in a range of ``sequence[i]``: (low, high)."""
    edges = [(i, low, high, i + 1) for i, ranges in enumerate(sequence) for low, high in ranges]
    size = len(sequence)
    return Nfa(
        size + 1, np.array(edges, np.int64).reshape(-1, 4), NO_EPSILONS, np.array([0]), np.array([size])
    )


def sequences(options: Iterable[Sequence[Sequence[tuple[int, int]]]]) -> Nfa:
    """Return the union of ``byte_ranges(*option)`` over all options, as one automaton; no option may be empty."""
    edges, size = [], 2
    for *begin, end in options:
        here = 0
        for ranges in begin:
            edges += [(here, low, high, size) for low, high in ranges]
            here, size = size, size + 1
        edges += [(here, low, high, 1) for low, high in end]
    spend(20 + 2 * len(edges))
    return Nfa(size, np.array(edges, np.int64).reshape(-1, 4), NO_EPSILONS, np.array([0]), np.array([1]))


def empty() -> Nfa:
    """Return the automaton of the empty language."""
    return Nfa(0, np.empty((0, 4), np.int64), NO_EPSILONS, np.empty(0, np.int64), np.empty(0, np.int64))


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
