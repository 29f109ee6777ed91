"""The items of an array that counts some of them, by the number of items so far and the count of each ``contains``.

An item that counts towards a minimum may satisfy the need that is counted, or be anything: both are tried. For a maximum, and
where the items must differ, the item satisfies the need or violates it.
"""

from __future__ import annotations

from dataclasses import replace

from ..automata.work import spend
from .shapes import ANY, NEVER, Arrays, Contains, Need, both, smaller

Counts = tuple[int, ...]
Ways = list[tuple[Need, Counts]]


def settled(shape: Arrays) -> Arrays:
    """Return a shape of arrays without redundant conditions.
    A ``contains`` that every item satisfies becomes a bound on the number of items."""
    if not shape.contains and not shape.unique:
        return shape
    contains, least, most = list[Contains](), shape.least, shape.most
    for c in shape.contains:
        least = max(least, c.least and c.least + c.start)
        if c.need == ANY:  # every item satisfies it
            most = most if c.most is None else smaller(most, c.most + c.start)
        elif c.least or c.most is not None:
            contains.append(c)
    unique = None if shape.unique and most is not None and most < 2 else shape.unique
    return replace(shape, least=least, most=most, contains=tuple(contains), unique=unique)


def ways(shape: Arrays, n: int, counts: Counts) -> list[tuple[Need, tuple[int, Counts]]]:
    """Return the needs that the next item may satisfy, each with the number of items and the counts after it."""
    if shape.most is not None and n >= shape.most:
        return []
    found: Ways = [(shape.at(n), ())]
    for c, count in zip(shape.contains, counts, strict=True):
        found = [way for need, done in found for way in split(c, n, count, need, done, bool(shape.unique))]
        spend(4 * len(found))
    after = n + 1
    if shape.most is None:  # positions from here on are alike
        after = min(after, max([len(shape.prefix), shape.least, *(c.start for c in shape.contains)]))
    return [(need, (after, counted)) for need, counted in found]


def may_end(shape: Arrays, n: int, counts: Counts) -> bool:
    """Return whether an array may end after ``n`` items, ``counts[i]`` of which satisfy the i-th ``contains``."""
    return n >= shape.least and all(count >= c.least for c, count in zip(shape.contains, counts, strict=True))


def split(c: Contains, n: int, count: int, need: Need, so_far: Counts, unique: bool) -> Ways:
    """Return the needs of an item that counts for ``c`` and of one that does not, with the counts after it; it meets ``need``."""
    if n < c.start or (c.most is None and count >= c.least):
        return [(need, (*so_far, count))]
    ways: Ways = []
    if c.most is None or count < c.most:
        ways.append((both(need, c.need), (*so_far, count + 1)))
    others = negated(c.need) if unique or c.most is not None else [ANY]
    ways += [(both(need, other), (*so_far, count)) for other in others]
    return [way for way in ways if way[0] != NEVER]


def negated(need: Need) -> list[Need]:
    """Return the needs of which a value satisfies at least one exactly if it does not satisfy ``need``."""
    if need == NEVER:
        return [ANY]
    return [frozenset([(node, not sign)]) for node, sign in sorted(need)]
