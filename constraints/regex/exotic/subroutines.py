"""Calls of groups, ``(?&name)`` ``(?1)`` ``(?R)``: the pattern of the group stands where it is called.

A group that calls itself is regular where the call is the last thing it does:

    g = B g | A   →   B* A

What calls itself elsewhere (``(a(?R)?b)``, as many ``b`` as ``a``) is not regular in general, and is refused.
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
    """The number of the group that the item calls."""
    operation, argument = item
    if operation is constants.LITERAL and CALL <= argument <= CALL + MOST_GROUPS:
        return int(argument) - CALL
    return None


def expanded(items: Items, pattern: str) -> list[Item]:
    """The items with every call written out. Raises ``UnsupportedConstraint``."""
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
    """Writes calls out; ``active`` are the groups that one is in."""

    def __init__(self, pattern: str, groups: dict[int, tuple[int, int, Items]]) -> None:
        self.pattern, self.groups = pattern, groups

    def sequence(self, items: Items, active: tuple[int, ...]) -> list[Item]:
        """The items with calls written out."""
        return [self.item(item, active) for item in items]

    def item(self, item: Item, active: tuple[int, ...]) -> Item:
        """The item with calls written out."""
        spend(10)  # groups that call groups that call groups
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
        """The items of a group, calls replaced by what they call."""
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
        """The ways through the items that end in a call of the group (which is left out), and the others."""
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
        """The error for what is not regular."""
        return refused("recursion (but at the end of a group)", self.pattern, SIGN)


def choice(parts: list[list[Item]]) -> Item:
    """Any one of the parts; none: nothing matches."""
    return (constants.BRANCH, (None, parts)) if parts else (constants.FAILURE, ())


def with_inner(item: Item, parts: list[list[Item]]) -> Item:
    """The item with other sequences within."""
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
