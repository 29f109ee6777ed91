"""JSON values as flat tuples: equal for equal values, however deep they nest and however large their numbers are.

JSON values are equal if they have one type and one meaning: 1 and 1.0 are equal, 1 and true are not, and the members of an object
have no order.

    scalar      None, (True,), (False,), a str, a Number
    array       (Open("[", n), item, item, …)
    object      (Open("{", n), name, value, name, value, …)      by name; of equal names the last

Items and values stand in the tuple without one of their own; n is the number of entries from the bracket to the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from ..json.exact import number

TOKEN = re.compile(
    rb'("[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))|([-0-9][-+0-9.eE]*)|([a-z]+)|([\[{])|([\]}])', re.DOTALL
)
STRING = re.compile(
    rb'("[^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*)(\\(?:u[0-9a-fA-F]{0,3})?)?("?)', re.DOTALL
)
"""A string, what there is of an escape at its end, and whether it ends."""
WORDS: dict[bytes, Hashable] = {b"null": None, b"true": (True,), b"false": (False,)}
ZERO = number(b"0")


class Open(NamedTuple):
    """The beginning of an array or object: its bracket, and its number of entries, this one included."""

    bracket: str
    size: int


@lru_cache(maxsize=4096)
def meaning(text: bytes) -> Hashable:
    """Return a hashable value of a JSON text: equal for equal JSON values.
    A string stands for itself. Of a beginning: the value if it ended here, where a name without a value has 0."""
    found, begun, last = _tokens(text, goes_on=False)
    found += last
    while begun:
        _end(found, begun.pop())
    return tuple(found) if not found or isinstance(found[0], Open) else found[0]


@lru_cache(maxsize=4096)
def beginning(text: bytes, goes_on: bool) -> Hashable:
    """Return what is equal only for beginnings of JSON to which what follows gives equal values.
    ``goes_on``: a number at the end may go on."""
    found, begun, last = _tokens(text, goes_on)
    levels = list[Hashable]()
    for start, stop in pairwise([*begun, len(found)]):
        level, name = found[start + 1 : stop], []
        if found[start] == b"{":
            name = [level.pop()] if _lacks_value(level, 0) else []
            sort_members(level, 0)
        levels.append((found[start], *level, *name))
    return (*found[: begun[0] if begun else None], *levels, *last)


def _tokens(text: bytes, goes_on: bool) -> tuple[list[Any], list[int], list[Hashable]]:
    """Return the entries of a beginning of JSON, where brackets stand in them that are open, and what is read of the last:
    of a string without its end, and of a number or word at the end if it ``goes_on``."""
    found, begun = list[Any](), list[int]()
    for token in TOKEN.finditer(text):
        string, digits, word, opening, closing = token.groups()
        if string is not None:
            characters, ended = read_string(string)
            if not ended:
                return found, begun, [characters]
            found.append(characters)
        elif opening is not None:
            begun.append(len(found))
            found.append(opening)
        elif closing is not None:
            _end(found, begun.pop())
        else:
            value = (
                WORDS.get(word, word)
                if digits is None
                else number(digits + b"0" * (not digits[-1:].isdigit()))
            )
            if goes_on and token.end() == len(text):
                return found, begun, [token[0]]
            found.append(value)
    return found, begun, []


def _end(found: list[Any], start: int) -> None:
    """End the array or object whose bracket is at ``start``, in place."""
    if found[start] == b"{":
        found += [ZERO] * _lacks_value(found, start + 1)
        sort_members(found, start + 1)
    found[start] = Open(found[start].decode(), len(found) - start)


def _lacks_value(found: list[Any], at: int) -> bool:
    """Return whether of the names and values from a position on the last is a name."""
    while at + 1 < len(found):
        at = after(found, at + 1)
    return at < len(found)


def sort_members(found: list[Any], start: int) -> None:
    """Sort the names and values from ``start`` to the end by name, in place; of equal names the last is kept."""
    starts, at = list[int](), start
    while at < len(found):
        starts.append(at)
        at = after(found, at + 1)
    names = [found[i] for i in starts]
    if any(a >= b for a, b in pairwise(names)):
        ends = [*starts[1:], len(found)]
        members = {name: found[i:end] for name, i, end in zip(names, starts, ends, strict=True)}
        found[start:] = [entry for name in sorted(members) for entry in members[name]]


def after(value: Sequence[Any], at: int) -> int:
    """Return the position after the item, name or value at a position."""
    entry = value[at]
    return at + (entry.size if isinstance(entry, Open) else 1)


def read_string(text: bytes) -> tuple[str, bool]:
    """Return the string of a text with its quotes, and whether it ends; otherwise what there is of its last escape is in it."""
    parts = STRING.match(text)
    assert parts is not None
    body, escape, quote = parts.groups(b"")
    if b"\\" not in body:
        found = body[1:].decode(errors="surrogateescape")
    else:
        found = json.loads(body.decode(errors="surrogateescape") + '"', strict=False)
    return found + escape.decode().lower(), bool(quote)
