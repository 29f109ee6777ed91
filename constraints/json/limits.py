"""How deep and how long texts may be where no regular language can follow the schema, or only a large one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

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


def choose(size: Callable[[Limits, bool], int], wanted: Callable[[Limits], Limits]) -> tuple[Limits, int]:
    """The limits under which an automaton is small, or else not too large; and how many states it may have with more
    freedom. ``size``: about how many it has, and whether with more freedom."""

    def fits(limits: Limits, most: int, freely: bool = False) -> bool:
        try:
            return size(limits, freely) <= most
        except TooManyStates:
            return False

    little = fits(wanted(LEAST), LITTLE)
    for limits, most in ((GENEROUS[0][0], MOST_LITTLE), *GENEROUS) if little else GENEROUS:
        if fits(wanted(limits), most, freely=True):
            return wanted(limits), most
    found, full = wanted(LEAST), set()
    for field, value, most in STEPS:
        more = wanted(found._replace(**{field: value}))
        if field not in full and more != found:
            if fits(more, most):
                found = more
            else:
                full.add(field)
    return found, 0
