"""The items of an array by its registers: the number of items so far and the count of each ``contains``.

An item that counts towards a minimum may satisfy the need that is counted, or be anything; the array tries both (nondeterminism).
For a maximum, the item satisfies the need or violates it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..shapes import ANY, NEVER, Arrays, Contains, Need, both

if TYPE_CHECKING:
    from .values import Look, Machines

Counts = tuple[int, ...]
MOST_REGISTERS = 100
"""The most values of the registers up to which the needs of all items are collected."""


def negated(need: Need) -> list[Need]:
    """Return needs whose union is the complement of this need."""
    if need == NEVER:
        return [ANY]
    return [frozenset([(node, not sign)]) for node, sign in sorted(need)]


class Items:
    """The transitions of an array over its items, by the registers."""

    def __init__(self, machines: Machines, shape: Arrays) -> None:
        self.machines, self.shape = machines, shape
        starts = (c.start for c in shape.contains)
        apart = 2 * (shape.kind == "tuple")  # a tuple of one item has a comma at the end
        self.steady = max(
            [len(shape.prefix), shape.least, apart, *starts]
        )  # positions from here on are alike
        self._left: dict[tuple[int, Counts], int | None] = {}
        self._ways: dict[tuple[int, Counts], list[tuple[Need, Counts]]] = {}

    @property
    def start(self) -> Counts:
        """The counts before the first item."""
        return (0,) * len(self.shape.contains)

    def after(self, n: int) -> int:
        """Return the number of items after one more, as far as it matters."""
        return n + 1 if self.shape.most is not None else min(n + 1, self.steady)

    def ways(self, n: int, counts: Counts) -> list[tuple[Need, Counts]]:
        """Return the needs that the next item may satisfy, each with the counts after it.
        Some of these needs may be empty."""
        key = (min(n, self.steady), counts)
        if key not in self._ways:
            found: list[tuple[Need, Counts]] = [(self.shape.at(n), ())]
            for c, count in zip(self.shape.contains, counts, strict=True):
                found = [way for need, so_far in found for way in self.split(c, n, count, need, so_far)]
            self._ways[key] = found
        return self._ways[key]

    def split(self, c: Contains, n: int, count: int, need: Need, so_far: Counts) -> list[tuple[Need, Counts]]:
        """Return the ways in which an item may be counted by one ``contains`` or not."""
        if n < c.start or (c.most is None and count >= c.least):
            return [(need, (*so_far, count))]
        ways = []
        if c.most is None or count < c.most:
            ways.append((both(need, c.need), (*so_far, count + 1)))
        others = [ANY] if c.most is None else negated(c.need)
        ways += [(both(need, other), (*so_far, count)) for other in others]
        return [way for way in ways if way[0] != NEVER]

    def done(self, n: int, counts: Counts) -> bool:
        """Return whether the array may end."""
        return n >= self.shape.least and all(
            count >= c.least for c, count in zip(self.shape.contains, counts, strict=True)
        )

    def left(self, n: int, counts: Counts, look: Look | None = None) -> int | None:
        """Return the fewest items still to come; ``None`` if the array cannot end."""
        if not counts and look is None:
            return self.plain_left(n)
        known = self._left if look is None else {}
        key = (n, counts)
        if key not in known:
            found = self.search(n, counts, look)
            known[key] = None if found is None else len(found)
        return known[key]

    def plain_left(self, n: int) -> int | None:
        """Return :meth:`left` for arrays without ``contains``."""
        if self.shape.most is not None and n > self.shape.most:
            return None
        must = self.shape.least - n
        return max(must, 0) if must <= 0 or self.solid >= self.shape.least else None

    @cached_property
    def solid(self) -> int:
        """The number of leading positions, up to the fewest items, whose need some value satisfies."""
        empty, shape = self.machines.is_empty, self.shape
        for n in range(min(shape.least, len(shape.prefix) + 1)):
            if empty(shape.at(n)):
                return n
        return shape.least

    def search(self, n: int, counts: Counts, look: Look | None = None) -> list[Need] | None:
        """Return the needs of the fewest items to an end, found breadth first.
        Return ``None`` if there is no end."""
        look = look or self.machines.shortest
        start = (n, counts)
        came: dict[tuple[int, Counts], tuple[tuple[int, Counts], Need] | None] = {start: None}
        queue = [start]
        most = self.shape.most
        for here in queue:
            if self.done(*here):
                found = []
                while (step := came[here]) is not None:
                    here, need = step
                    found.append(need)
                return found[::-1]
            n, counts = here
            if most is not None and n >= most:
                continue
            for need, after in sorted(self.ways(n, counts), key=lambda way: len(look(way[0]) or b"")):
                there = (self.after(n), after)
                if there not in came and look(need) is not None:
                    came[there] = (here, need)
                    queue.append(there)
        return None

    def all_needs(self) -> set[Need] | None:
        """Return the needs that items may have, whatever precedes them.
        Return ``None`` if there are more than :data:`MOST_REGISTERS` values of the registers."""
        queue, found = [(0, self.start)], set[Need]()
        seen = set(queue)
        for n, counts in queue:
            for need, after in self.ways(n, counts):
                found.add(need)
                if (there := (min(n + 1, self.steady), after)) not in seen:
                    seen.add(there)
                    queue.append(there)
            if len(queue) > MOST_REGISTERS:
                return None
        return found

    def live(self, n: int, counts: Counts) -> list[tuple[Need, Counts]]:
        """Return the :meth:`ways` after which the array can still end."""
        most = self.shape.most
        if most is not None and n >= most:
            return []
        found = []
        for need, after in self.ways(n, counts):
            left = self.left(self.after(n), after)
            if left is None or (most is not None and n + 1 + left > most) or self.machines.is_empty(need):
                continue
            found.append((need, after))
        return found
