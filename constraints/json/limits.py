"""How deep and how long texts may be where no regular language can follow the schema, or only a large one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from ...errors import TooManyStates


class Limits(NamedTuple):
    """How often a schema may lie within itself; how deep arrays and objects nest in values without a schema; how long a
    bound on a length may be that is written out."""

    depth: int
    free: int
    length: int

    def wanted(self, depth: int | None, length: int | None) -> Limits:
        """The same, but for what is asked for."""
        limits = self if depth is None else self._replace(depth=depth, free=depth)
        return limits if length is None else limits._replace(length=length)


WHOLE = 32_768
LEAST = Limits(0, 0, 40)
LITTLE = 200
"""States within the least limits, up to which a schema says so little that values without a schema are most of it."""
MOST_LITTLE = 32_000
"""States up to which such a schema has the first of the generous limits."""
MOST_NAMES, GROWTH = 1_000, 2.5
"""States within the least limits, up to which a schema may say nothing but names of members, so that nearly all states are
those of values without a schema: those which grow so many times where such values may nest once."""
NAMES = Limits(4, 4, WHOLE), Limits(3, 3, WHOLE), Limits(2, 2, WHOLE)
"""Limits that are taken for such a schema where members then may stand in any order."""
MOST_MIXED = 20_000
"""States up to which they are taken."""
GENEROUS = (
    (Limits(16, 7, WHOLE), 4_000),
    (Limits(7, 7, WHOLE), 6_000),
    (Limits(5, 5, WHOLE), 8_000),
    (Limits(4, 4, WHOLE), 10_000),
    (Limits(3, 3, WHOLE), 60_000),
)
"""Limits that are taken where the automaton stays so small, the first that fit."""
STEPS: tuple[tuple[str, int, int], ...] = (
    ("length", 60, 400_000),
    ("depth", 1, 200_000),
    ("length", 160, 200_000),
    ("free", 2, 150_000),
    ("length", 250, 150_000),
    ("free", 3, 120_000),
    ("depth", 2, 120_000),
    ("length", 700, 300_000),
    ("length", 1_000, 100_000),
    ("depth", 3, 100_000),
    ("free", 4, 60_000),
    ("length", WHOLE, 60_000),
)
"""Otherwise: what is raised in turn, from the least limits on, each as long as there are no more states than that."""


Freedom = Literal["none", "opened", "mixed"]
"""How freely members stand: as declared; undeclared ones anywhere; all of them in any order."""


class Choice(NamedTuple):
    """Limits, how many states the automaton may have with more freedom, and which freedom that is."""

    limits: Limits
    most: int
    freedom: Freedom


def choose(size: Callable[[Limits, Freedom], int], wanted: Callable[[Limits], Limits]) -> Choice:
    """The limits under which an automaton is small, or else not too large. ``size``: about how many states it has."""

    def fits(limits: Limits, most: int, freedom: Freedom = "none") -> bool:
        try:
            return size(limits, freedom) <= most
        except TooManyStates:
            return False

    little = fits(wanted(LEAST), LITTLE)
    freedom: Freedom = "mixed" if little else "opened"
    if (
        not little
        and fits(wanted(LEAST), MOST_NAMES)
        and size(wanted(LEAST._replace(free=1)), "none") > GROWTH * size(wanted(LEAST), "none")
    ):
        for limits in NAMES:
            if fits(wanted(limits), MOST_MIXED, "mixed"):
                return Choice(wanted(limits), MOST_MIXED, "mixed")
    for limits, most in ((GENEROUS[0][0], MOST_LITTLE), *GENEROUS) if little else GENEROUS:
        if fits(wanted(limits), most, freedom):
            return Choice(wanted(limits), most, freedom)
    found, full = wanted(LEAST), set()
    for field, value, most in STEPS:
        more = wanted(found._replace(**{field: value}))
        if field not in full and more != found:
            if fits(more, most):
                found = more
            else:
                full.add(field)
    return Choice(found, 0, "none")


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
    asked: object
    given: object
    why: str


FEW_STATES, MOST_STATES, LAST_STATES = 20_000, 60_000, 200_000
"""States of a finite automaton with the greatest bounds, with bounds that are raised, and with the least bounds."""
GREATEST, LEAST_BOUNDS = Bounds(7, 32_768, 1_500), Bounds(0, 40, 0)
"""The bounds that are tried first; and those of which each is raised in turn otherwise, where that fits."""
RAISED = (
    {"depth": 1}, {"length": 100}, {"depth": 2}, {"room": 300}, {"depth": 3}, {"length": 250}, {"room": 1_500},
    {"length": 1_000}, {"length": 32_768},
)  # fmt: skip
RAISED_AGAIN = {"depth": 5}, {"depth": 7}
"""What is raised further as long as there are few states."""
