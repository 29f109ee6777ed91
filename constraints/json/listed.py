"""Arrays of distinct items, each of a list of values.

The exact automaton has a state for each set of values: 2^n of them. Where that is too many, the first ``free`` items stand in
any order, and each item after these comes later in the list than the latest of them:

    set of the items so far  --item-->  …  --item number ``free``-->  place of the latest  --a later item-->  its place

So every set of values has a text, and for up to ``free`` values in any order. Of very long lists several neighbours share a
place, and an array has at most one item from each place after the first ``free``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...errors import TooManyStates
from ..narrowing import Narrowing
from .arrays import grow
from .pieces import Piece
from .shapes import Arrays, Need
from .sketches import Sketch
from .text import Style

WHY = "the automaton remembers each set of items"
STATES_PER_STEP = 4.8
"""For so many states there may be one step that adds an item to a set of values; of 60,000, 11 values have all their sets."""
STATES_PER_PAIR = 2.4
"""For so many states there may be one pair of an item and a later one."""


class Room(NamedTuple):
    """What the automaton holds: so many items in any order, so many items at most (``None``: all), how many values share a
    place in the list; and about how many states it has. The language is exact where ``free`` is as large as ``most``."""

    free: int
    most: int | None
    shared: int
    states: int


Table = dict[str, Piece]
"""The values of an item by their texts."""


def room(shape: Arrays, tables: Sequence[Table], states: int) -> Room:
    """The room for the arrays of a shape, in so many states. Raises ``TooManyStates`` where too few items have room."""
    sizes = {key: item.size - 2 for table in tables for key, item in table.items()}
    n, length = len(sizes), sum(sizes.values()) / max(1, len(sizes))
    most = n if shape.most is None else min(shape.most, n)
    if shape.least > most or not most:
        return Room(0, 0, 1, 1)

    def needed(free: int) -> int:
        """The states of the sets before the last item in any order, and of this item by the place of the latest."""
        sets = sum(math.comb(n, k) * (k * length + 3) for k in range(free))
        return int(sets + length * n * (1 if free in (1, most) else (n + 1) / 2))

    def fits(free: int) -> bool:
        steps = sum(math.comb(n, k) * (n - k) for k in range(free))
        return steps <= states / STATES_PER_STEP and needed(free) <= states

    free = 1
    while free < most and fits(free + 1):
        free += 1
    if free == most:
        return Room(free, most, 1, needed(free))
    # One layer of later items for each number of items that counts; layers times pairs are bounded.
    layers = most if most < n else max(1, len(shape.prefix), shape.least)
    pairs = states / STATES_PER_PAIR
    if layers * n * n / 2 > pairs and layers > 1:
        layers = max(1, shape.least, min(layers, int(math.sqrt(2 * pairs / n)), int(states / (n * length))))
    shared = max(1, math.ceil(layers * n * n / 2 / pairs))
    if free - 1 + math.ceil(n / shared) < shape.least:
        raise TooManyStates(f"uniqueItems of {n} values, of which {shape.least} must stand", limit=states)
    return Room(
        free, max(free, layers) if most < n else None, shared, int(needed(free) + layers * n * length)
    )


def write(shape: Arrays, style: Style, tables: Sequence[Table], chosen: Room) -> Sketch:
    """The texts of the arrays that there is room for. Raises ``TooManyStates``."""
    place = {key: i for i, key in enumerate(dict.fromkeys(key for table in tables for key in table))}
    free, most, shared, _ = chosen
    end = free == most

    def choices(position: int, state: Any) -> list[tuple[Piece, Any]]:
        table = tables[min(position, len(tables) - 1)]
        if position >= free:
            return [(item, after) for key, item in table.items() if (after := place[key] // shared) > state]
        found: list[tuple[Piece, Any]] = []
        for key, item in table.items():
            if key in state:
                continue
            used: Any = state | {key}
            if position + 1 == free:
                used = -1 if end else max(place[k] for k in used) // shared
            found.append((item, used))
        return found

    steady = max(free, len(shape.prefix), shape.least) if most is None else most
    asked = len(place) if shape.most is None else min(shape.most, len(place))
    shape = replace(shape, most=most)
    found = grow(style, steady, shape, frozenset(), choices, lambda state: True)
    if not end:
        given = f"{free} in any order, then items that come later in the list"
        given += "" if most is None else f", at most {most}"
        given += "" if shared == 1 else f", of each {shared} neighbours one"
        found.narrowed.append(
            Narrowing("", "uniqueItems", f"up to {asked} distinct items in any order", given, WHY)
        )
    return found


def tables(shape: Arrays, values: Callable[[Need], Table | None]) -> list[Table] | None:
    """The values of the items by position, ``None`` where they are not listed."""
    found = [values(need) for need in (*shape.prefix, shape.rest)]
    return (
        None
        if shape.contains or any(table is None for table in found)
        else [t for t in found if t is not None]
    )
