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
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from ..json.exact import number

TOKEN = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|([-+0-9.eE]+)|(true|false|null)|([\[{])|([\]}])', re.DOTALL)
SPACE = re.compile(rb'("(?:[^"\\]|\\.)*"?)|[ \t\n\r]+', re.DOTALL)
WORDS: dict[bytes, Hashable] = {b"null": None, b"true": (True,), b"false": (False,)}


class Open(NamedTuple):
    """The beginning of an array or object: its bracket, and its number of entries, this one included."""

    bracket: str
    size: int


@lru_cache(maxsize=4096)
def meaning(text: bytes) -> Hashable:
    """Return a hashable value of a JSON text: equal for equal JSON values.
    A string stands for itself."""
    found: list[Any] = []
    begun: list[int] = []
    for token in TOKEN.finditer(text):
        string, digits, word, opening, closing = token.groups()
        if string is not None:
            found.append(read_string(string))
        elif digits is not None:
            found.append(number(digits))
        elif word is not None:
            found.append(WORDS[word])
        elif opening is not None:
            begun.append(len(found))
            found.append(None)
        else:
            start = begun.pop()
            if closing == b"}":
                sort_members(found, start + 1)
            found[start] = Open("{" if closing == b"}" else "[", len(found) - start)
    return tuple(found) if isinstance(found[0], Open) else found[0]


@lru_cache(maxsize=4096)
def beginning(text: bytes) -> bytes:
    """Return the beginning of a JSON text without white space between its tokens: what may follow gives it the same value."""
    return SPACE.sub(rb"\1", text)


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


def read_string(text: bytes) -> str:
    """Return the string of a complete text with its quotes."""
    if b"\\" not in text:
        with suppress(UnicodeDecodeError):
            return text[1:-1].decode()
    return str(json.loads(text, strict=False))
