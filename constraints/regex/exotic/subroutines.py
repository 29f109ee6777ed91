"""Subroutine calls of groups, ``(?&name)`` ``(?1)`` ``(?R)``: the group's pattern is inlined.

A group that calls itself is regular if the call is the last thing it does:

    g = B g | A   →   B* A

Other recursion (``(a(?R)?b)``, with equal numbers of ``a`` and ``b``) is not regular in general, and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...automata.work import spend
from ..dialects import CALL, MOST_GROUPS
from ..syntax import Item, constants, inner, refused, scoped, walk

Items = Sequence[Item]
SIGN = r"\(\?(?:R|[+-]?\d+|&\w+|P>\w+)\)"


def called(item: Item) -> int | None:
    """Return the number of the group that the item calls, or None."""
    operation, argument = item
    if operation is constants.LITERAL and CALL <= argument <= CALL + MOST_GROUPS:
        return int(argument) - CALL
    return None


def expanded(items: Items, pattern: str) -> list[Item]:
    """Inline every call in the items.

    Raises ``UnsupportedConstraint`` for recursion that is not at the end.
    """
    groups: dict[int, tuple[int, int, Items]] = {0: (0, 0, items)}

    def collect(part: Items, added: int, removed: int) -> None:
        for item in part:
            more, less = added, removed
            if item[0] is constants.SUBPATTERN:
                number, plus, minus, body = item[1]
                more, less = scoped(added, plus, minus), (removed | minus) & ~plus
                if number is not None:
                    groups[number] = more, less, body
            for deeper in inner(item):
                collect(deeper, more, less)

    collect(items, 0, 0)
    return Expander(pattern, groups).body(0, ())


class Expander:
    """Inlines calls; ``active`` are the enclosing groups, whose calls are recursive."""

    def __init__(self, pattern: str, groups: dict[int, tuple[int, int, Items]]) -> None:
        self.pattern, self.groups = pattern, groups

    def sequence(self, items: Items, active: tuple[int, ...]) -> list[Item]:
        """Return the items with calls inlined."""
        return [self.item(item, active) for item in items]

    def item(self, item: Item, active: tuple[int, ...]) -> Item:
        """Return the item with calls inlined."""
        spend(10)  # chains of calls can grow exponentially
        operation, argument = item
        number = called(item)
        if number is not None:
            added, removed, _ = self.groups[number]
            return (constants.SUBPATTERN, (None, added, removed, self.body(number, active)))
        if operation is constants.SUBPATTERN and argument[0] is not None:
            number, added, removed, _ = argument
            return (operation, (number, added, removed, self.body(number, active)))
        return with_inner(item, [self.sequence(part, active) for part in inner(item)])

    def body(self, number: int, active: tuple[int, ...]) -> list[Item]:
        """Return the items of a group with calls inlined, and with tail recursion as a repeat."""
        if number in active:
            raise self.recursion()
        body = self.groups[number][2]
        again, done = self.split(body, number)
        active = (*active, number)
        if not again:
            return self.sequence(body, active)
        loop = choice([self.sequence(part, active) for part in again])
        end = choice([self.sequence(part, active) for part in done])
        return [(constants.MAX_REPEAT, (0, constants.MAXREPEAT, [loop])), end]

    def split(self, items: Items, number: int) -> tuple[list[list[Item]], list[list[Item]]]:
        """Split the alternatives of the items into those that end in a call of the group and the others.

        The call is left out of the former.
        """
        if not any(called(item) == number for item in walk(items)):
            return [], [list(items)]
        *first, last = items
        if any(called(item) == number for item in walk(first)):
            raise self.recursion()
        operation, argument = last
        if called(last) == number:
            again, done = [list[Item]()], list[list[Item]]()
        elif operation is constants.BRANCH:
            ways = [self.split(branch, number) for branch in argument[1]]
            again, done = [x for way in ways for x in way[0]], [x for way in ways for x in way[1]]
        elif operation is constants.SUBPATTERN:
            _, added, removed, body = argument
            again, done = (
                [[(operation, (None, added, removed, x))] for x in part] for part in self.split(body, number)
            )
        elif operation in (constants.MAX_REPEAT, constants.MIN_REPEAT) and argument[1] == 1:
            again, done = self.split(argument[2], number)
            done = done if argument[0] else [*done, []]
        else:
            raise self.recursion()
        return [[*first, *x] for x in again], [[*first, *x] for x in done]

    def recursion(self) -> Exception:
        """Return the error for recursion that is not regular."""
        return refused("recursion (but at the end of a group)", self.pattern, SIGN)


def choice(parts: list[list[Item]]) -> Item:
    """Return an item that matches any one of the parts; without parts, one that never matches."""
    return (constants.BRANCH, (None, parts)) if parts else (constants.FAILURE, ())


def with_inner(item: Item, parts: list[list[Item]]) -> Item:
    """Return the item with these sequences inside in place of its own."""
    operation, argument = item
    if not parts:
        return item
    new: Any
    if operation is constants.SUBPATTERN:
        new = (*argument[:3], parts[0])
    elif operation is constants.BRANCH:
        new = (argument[0], parts)
    elif operation is constants.ATOMIC_GROUP:
        new = parts[0]
    elif operation is constants.GROUPREF_EXISTS:
        new = (argument[0], parts[0], parts[1] if len(parts) > 1 else None)
    else:
        new = (*argument[:-1], parts[0])  # repeats and look-arounds
    return (operation, new)
