"""The automata of terminals as rows of byte ranges, for machines that follow them byte by byte."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..automata.machines import shortest_words
from ..automata.nfa import Nfa
from ..automata.work import spend


class Lengths(NamedTuple):
    """The bytes of the shortest text, and of the shortest nonempty one; ``inf`` if there is none."""

    least: float
    nonempty: float


class Table:
    """The automaton of a terminal: for each state, the (low, high, target) ranges that leave it."""

    def __init__(self, words: Nfa) -> None:
        plain = words.plain
        self.commits = False
        spend(10 + len(plain.edges) / 4)
        self.rows: list[list[tuple[int, int, int]]] = [[] for _ in range(plain.num_states)]
        for source, low, high, target in plain.edges.tolist():
            self.rows[source].append((low, high, target))
        self.starts: list[int] = plain.start.tolist()
        self.ends = frozenset(plain.accept.tolist())
        self.shortest = shortest_words(dict(enumerate(self.rows)), self.ends)
        self.is_nullable = not self.ends.isdisjoint(self.starts)
        nonempty = [
            bytes([low]) + self.shortest[target]
            for source in self.starts
            for low, _, target in self.rows[source]
        ]
        self.nonempty: bytes | None = min(nonempty, key=len, default=None)

    @property
    def lengths(self) -> Lengths:
        """The lengths of the shortest texts."""
        nonempty = math.inf if self.nonempty is None else len(self.nonempty)
        return Lengths(0 if self.is_nullable else nonempty, nonempty)
