"""What a finite automaton holds of a schema, where all of it would be too large or without end."""

from __future__ import annotations

from typing import Any, NamedTuple


class Bounds(NamedTuple):
    """What a finite automaton holds of a schema: how often a schema lies within itself, or arrays and objects nest in values
    without a schema; the letters of strings with a ``maxLength``; and the states that an object may take, before its members
    stand in a fixed order."""

    depth: int
    length: int
    room: int

    def wanted(self, depth: int | None, length: int | None) -> Bounds:
        """The same, but for what is asked for."""
        depth, length = self.depth if depth is None else depth, self.length if length is None else length
        return Bounds(depth, length, self.room)

    @property
    def items(self) -> int:
        """The items of arrays with a ``maxItems``."""
        return self.length // 10


class Cut(NamedTuple):
    """What a finite automaton lacks: the fields of a narrowing, but for its place."""

    keyword: str
    asked: Any
    given: Any
    why: str


FEW_STATES, MOST_STATES, LAST_STATES = 20_000, 60_000, 400_000
"""States of a finite automaton with the greatest bounds, with bounds that are raised, and with the least bounds."""
GREATEST, LEAST_BOUNDS = Bounds(7, 32_768, 1_500), Bounds(0, 40, 0)
"""The bounds that are tried first; and those of which each is raised in turn otherwise, where that fits."""
RAISED = (
    {"depth": 1}, {"length": 100}, {"depth": 2}, {"room": 300}, {"depth": 3}, {"length": 250}, {"room": 1_500},
    {"length": 1_000}, {"length": 32_768},
)  # fmt: skip
RAISED_AGAIN = {"depth": 5}, {"depth": 7}
"""What is raised further as long as there are few states."""
