"""Whether a JSON text that has begun may still become one of some values.

    may_be(b'["a", "b', ("array", "a", "bc"))  is True        may_be(b'["a", "b', ("array", "a"))  is False

Values are as :func:`~.distinct.frozen` makes them. Of a name that is written twice the last value counts; that a name which
stands there already may come once more is left aside.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from decimal import Decimal

from .distinct import frozen

DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, strict=False)
NUMBER = frozenset("-+.eE0123456789")
MOST_ESCAPE = 12
"""Characters of the longest way to write one character."""
Verdict = tuple[bool | None, int]
"""Whether a value is equal, ``None`` if that is open; where its text ends."""
OPEN: Verdict = (None, -1)
DIFFERS: Verdict = (False, -1)


def may_be(text: bytes, value: Hashable) -> bool:
    """Whether the text begins some text of the value."""
    return compared(text.decode(errors="ignore"), 0, value)[0] is not False


def compared(text: str, at: int, value: Hashable) -> Verdict:
    """The verdict on the value that begins at a place."""
    at = past_blanks(text, at)
    if at == len(text):
        return OPEN
    try:
        found, end = DECODER.raw_decode(text, at)
    except ValueError:
        return unfinished(text, at, value)
    if end == len(text) and text[at] in NUMBER:
        return OPEN if isinstance(value, Decimal) else DIFFERS
    return frozen(found) == value, end


def unfinished(text: str, at: int, value: Hashable) -> Verdict:
    """The verdict on a value whose text has not ended."""
    first = text[at]
    if first == '"':
        return OPEN if isinstance(value, str) and value.startswith(beginning(text, at)) else DIFFERS
    if first in "tfn":
        return OPEN if value == frozen({"t": True, "f": False, "n": None}[first]) else DIFFERS
    if first in NUMBER:
        return OPEN if isinstance(value, Decimal) else DIFFERS
    kind, *parts = value if isinstance(value, tuple) else ("",)
    if first == "[" and kind == "array":
        return in_array(text, at + 1, parts)
    if first == "{" and kind == "object":
        (members,) = parts
        return in_object(text, at + 1, dict(members))
    return DIFFERS


def in_array(text: str, at: int, items: list[Hashable]) -> Verdict:
    """The verdict on an array that has not ended."""
    for i, item in enumerate(items):
        verdict, at = compared(text, at, item)
        if not verdict:
            return OPEN if verdict is None else DIFFERS
        at = past_blanks(text, at)
        if at == len(text):
            return OPEN
        if i + 1 < len(items):
            at += 1  # the comma
    return DIFFERS if past_blanks(text, at) < len(text) else OPEN


def in_object(text: str, at: int, members: dict[str, Hashable]) -> Verdict:
    """The verdict on an object that has not ended."""
    verdicts = dict[str, bool | None]()
    while (at := past_blanks(text, at)) < len(text):
        try:
            name, at = DECODER.raw_decode(text, at)
        except ValueError:
            begun = beginning(text, at)
            if not any(other.startswith(begun) for other in members):
                return DIFFERS
            break
        if name not in members:
            return DIFFERS
        at = past_blanks(text, at)
        verdicts[name], at = compared(text, at + 1, members[name]) if at < len(text) else OPEN
        if at < 0:
            break
        at = past_blanks(text, at)
        at += at < len(text)  # the comma
    return DIFFERS if False in verdicts.values() else OPEN


def past_blanks(text: str, at: int) -> int:
    """The place of what follows white space."""
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def beginning(text: str, at: int) -> str:
    """The whole characters of a string that begins at a place and has not ended."""
    for size in range(len(text), max(len(text) - MOST_ESCAPE, at), -1):
        try:
            found = DECODER.raw_decode(text[at:size] + '"')[0]
        except ValueError:
            continue
        if isinstance(found, str):
            return found[:-1] if found and 0xD800 <= ord(found[-1]) <= 0xDBFF else found
    return ""
