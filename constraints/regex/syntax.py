"""The standard library's parser of patterns, and helpers to walk its tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _constants, _parser
from typing import Any

from ...errors import UnsupportedConstraint

constants, parser = _constants, _parser
Item = tuple[Any, Any]  # an operation and its argument
CHARACTER = (constants.LITERAL, constants.NOT_LITERAL, constants.IN, constants.ANY)
REPEAT = (constants.MAX_REPEAT, constants.MIN_REPEAT)
ATOMIC = (constants.ATOMIC_GROUP, constants.POSSESSIVE_REPEAT)
LOOK = (constants.ASSERT, constants.ASSERT_NOT)


def inner(item: Item) -> list[Sequence[Item]]:
    """Return the sequences of items directly inside an item."""
    operation, argument = item
    if operation is constants.SUBPATTERN:
        return [argument[3]]
    if operation is constants.BRANCH:
        return list(argument[1])
    if operation in (*REPEAT, constants.POSSESSIVE_REPEAT):
        return [argument[2]]
    if operation in LOOK:
        return [argument[1]]
    if operation is constants.ATOMIC_GROUP:
        return [argument]
    if operation is constants.GROUPREF_EXISTS:
        return [part for part in argument[1:] if part is not None]
    return []


def scoped(flags: int, added: int, removed: int) -> int:
    """Return the flags within ``(?flags:…)``; the one set of ``a``, ``u`` and ``L`` replaces the others."""
    return (flags & ~(parser.TYPE_FLAGS if added & parser.TYPE_FLAGS else 0) | added) & ~removed


def walk(items: Sequence[Item]) -> Iterator[Item]:
    """Iterate over the items of a parsed pattern at any depth."""
    for item in items:
        yield item
        for part in inner(item):
            yield from walk(part)


def place(pattern: str, sign: str) -> re.Match[str] | None:
    """Find the first match of ``sign`` that is neither escaped nor in a class."""
    token = re.compile(rf"({sign})|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
    return next((m for m in token.finditer(pattern) if m[1] is not None), None)


def refused(what: str, sign: str, pattern: str) -> UnsupportedConstraint:
    """Return the error for a construct, at the first place in the pattern that looks like it."""
    found = place(pattern, sign) if sign else None
    position = found.start() if found else 0
    return UnsupportedConstraint(f"{pattern!r} has {what}", path=f"position {position}")
