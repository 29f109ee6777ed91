"""The items of an array that counts some of them, by the number of items so far and the count of each ``contains``.

An item that counts towards a minimum may satisfy the need that is counted, or be anything: both are tried. For a maximum, the
item satisfies the need or violates it.
"""

from __future__ import annotations

from ..automata.work import spend
from .shapes import ANY, NEVER, Arrays, Contains, Need, both

Counts = tuple[int, ...]


class Items:
    """The items that may come next, and whether the array may end."""

    def __init__(self, shape: Arrays) -> None:
        self.shape = shape
        starts = (c.start for c in shape.contains)
        self.steady = max([len(shape.prefix), shape.least, *starts])  # positions from here on are alike

    @property
    def start(self) -> tuple[int, Counts]:
        """The number of items and the counts before the first item."""
        return 0, (0,) * len(self.shape.contains)

    def after(self, n: int) -> int:
        """Return the number of items after one more, as far as it matters."""
        return n + 1 if self.shape.most is not None else min(n + 1, self.steady)

    def ways(self, n: int, counts: Counts) -> list[tuple[Need, tuple[int, Counts]]]:
        """Return the needs that the next item may satisfy, each with the number and the counts after it."""
        if self.shape.most is not None and n >= self.shape.most:
            return []
        found: list[tuple[Need, Counts]] = [(self.shape.at(n), ())]
        for c, count in zip(self.shape.contains, counts, strict=True):
            found = [way for need, so_far in found for way in split(c, n, count, need, so_far)]
            spend(4 * len(found))
        return [(need, (self.after(n), after)) for need, after in found]

    def done(self, n: int, counts: Counts) -> bool:
        """Return whether the array may end."""
        return n >= self.shape.least and all(
            count >= c.least for c, count in zip(self.shape.contains, counts, strict=True)
        )


def split(c: Contains, n: int, count: int, need: Need, so_far: Counts) -> list[tuple[Need, Counts]]:
    """Return the ways in which an item may be counted by one ``contains`` or not."""
    if n < c.start or (c.most is None and count >= c.least):
        return [(need, (*so_far, count))]
    ways = []
    if c.most is None or count < c.most:
        ways.append((both(need, c.need), (*so_far, count + 1)))
    others = [ANY] if c.most is None else negated(c.need)
    ways += [(both(need, other), (*so_far, count)) for other in others]
    return [way for way in ways if way[0] != NEVER]


def negated(need: Need) -> list[Need]:
    """Return needs whose union is the complement of this need."""
    if need == NEVER:
        return [ANY]
    return [frozenset([(node, not sign)]) for node, sign in sorted(need)]
