"""What observers keep of the bytes that are read inside them.

    kind     value                                                            may be left
    WITHIN   state of the table                                               if it accepts
    TOKENS   (tokens that wrote a byte of the part, whether this one has)     between its bounds
    APART    the items read: their texts, or their values as JSON             always
    ITEM     bytes read                                                       if its ``APART`` has no such item

An *environment* is a tuple of pairs (node, value), one for each observer that is open, the outermost first. A token in
progress counts for a part when it has written a byte of it, before the part began or ends somewhere in the token as well.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ..program.json_value import beginning, meaning
from ..program.node import Kind, Node
from .kinds import OBSERVERS

Environment = tuple[tuple[Node, Hashable], ...]
MOST_ALIKE = 64
"""Memories in an item that a search keeps, beside those that are enough if no item spoils two of them."""


def enter(node: Node, environment: Environment) -> Environment:
    """Return the environment inside a node."""
    if node.kind not in OBSERVERS:
        return environment
    value: Hashable = 0
    match node.kind:
        case Kind.TOKENS:
            value = (0, False)
        case Kind.APART:
            value = frozenset()
        case Kind.ITEM:
            value = b""
    return (*environment, (node, value))


def leave(node: Node, environment: Environment) -> Environment | None:
    """Return the environment after a node that ends, None if it may not end."""
    if node.kind not in OBSERVERS:
        return environment
    value: Any = environment[-1][1]
    outer = environment[:-1]
    match node.kind:
        case Kind.WITHIN:
            return outer if node.tables[0].label[value] >= 0 else None
        case Kind.TOKENS:
            return outer if _counted(node, *value) >= node.low else None
        case Kind.ITEM:
            return _with_item(outer, meaning(value) if node.low else value)
    return outer


def read(environment: Environment, byte: int) -> Environment | None:
    """Return the environment after a byte, None if an observer does not take it."""
    after = list[tuple[Node, Hashable]]()
    for node, value in environment:
        found = _read(node, value, byte)
        if found is None:
            return None
        after.append((node, found))
    return tuple(after)


def _read(node: Node, value: Any, byte: int) -> Hashable | None:
    match node.kind:
        case Kind.WITHIN:
            rows = node.tables[0].rows[value]
            return next((target for low, high, target in rows if low <= byte <= high), None)
        case Kind.TOKENS:
            return (value[0], True) if value[1] or value[0] != node.high else None
        case Kind.ITEM:
            return bytes((*value, byte))
    return value  # type: ignore[no-any-return]


def token_end(environment: Environment) -> Environment:
    """Return the environment after the end of a token."""
    return tuple(
        (node, (_counted(node, *value), False) if node.kind is Kind.TOKENS else value)  # type: ignore[misc]
        for node, value in environment
    )


def _counted(node: Node, tokens: int, has_written: bool) -> int:
    found = tokens + has_written
    return found if node.high is not None else min(found, node.low)


def _with_item(environment: Environment, text: Hashable) -> Environment | None:
    for place in range(len(environment) - 1, -1, -1):
        node, texts = environment[place]
        if node.kind is Kind.APART:
            if text in texts:  # type: ignore[operator]
                return None
            return (*environment[:place], (node, texts | {text}), *environment[place + 1 :])  # type: ignore[operator]
    return environment


class Memory(NamedTuple):
    """What an environment remembers of texts, and the rest of it."""

    rest: tuple[Hashable, ...]
    read: frozenset[tuple[int, Hashable]]  # (place of its APART, an item)
    open: tuple[Hashable, ...]  # of each item that is open: equal where what follows gives equal items
    ended: tuple[Hashable, ...]  # by what it would be compared if it ended here


def memory(environment: Environment, goes_on: bool) -> Memory:
    """Return an environment with the texts of items apart. ``goes_on``: a number that they end with may go on."""
    rest, read = list[Hashable](), set[tuple[int, Hashable]]()
    opened, ended = list[Hashable](), list[Hashable]()
    for place, (node, value) in enumerate(environment):
        rest.append((node, None if node.kind in (Kind.APART, Kind.ITEM) else value))
        if node.kind is Kind.APART:
            read.update((place, text) for text in value)  # type: ignore[attr-defined]
        elif node.kind is Kind.ITEM:
            opened.append(beginning(value, goes_on) if node.low else value)
            ended.append(meaning(value) if node.low else value)
    return Memory(tuple(rest), frozenset(read), tuple(opened), tuple(ended))


def is_needless(found: Memory, cheaper: list[Memory], spare: int) -> bool:
    """Return whether one of the ``cheaper`` memories serves as well, whatever ``spare`` items or fewer are still to come.

    The memories differ in nothing else. Between items: an item to come spoils a memory that has its text, so of more than
    ``spare`` memories that are disjoint, but for what ``found`` has too, one is left. In an item: of memories that have
    read no other items, and whose open items would differ if they ended here, each item read or to come spoils one. For
    what follows leaves them different, but where it writes a name again, goes on with an exponent or gives a value to a
    name that has none; then a text that is no longer serves as well.
    Those that would be equal may all be spoiled at once; of these no more than ``MOST_ALIKE`` are kept.
    """
    if not found.open:
        more, count = set[tuple[int, Hashable]](), 0
        for other in cheaper:
            apart = other.read - found.read
            if more.isdisjoint(apart):
                more |= apart
                count += 1
            if not apart or count > spare:
                return True
        return False
    others = [other for other in cheaper if other.read <= found.read]
    begun = list[tuple[Hashable, ...]]()
    for other in others:
        if not any(a == b for some in begun for a, b in zip(some, other.ended, strict=True)):
            begun.append(other.ended)
    most = (spare + len(found.read)) * len(found.open)
    return (
        len(begun) > most
        or len(others) > most + MOST_ALIKE
        or any(other.open == found.open for other in others)
    )


def most_beginnings(environment: Environment, spare: int) -> int | None:
    """Return how many beginnings of the open items are enough, see :func:`is_needless`; None if bytes matter otherwise."""
    read = opened = 0
    for node, value in environment:
        if node.kind is Kind.APART:
            read += len(value)  # type: ignore[arg-type]
        elif node.kind is Kind.ITEM:
            opened += 1
        else:
            return None
    return (spare + read) * opened
