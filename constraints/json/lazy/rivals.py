"""Whether a JSON text that has begun may still become one of some values, and by which bytes.

    may_be(b'["a", "b', ("array", "a", "bc"))  is True        may_be(b'["a", "b', ("array", "a"))  is False

Values are as :func:`~.distinct.frozen` makes them. Of a name that is written twice the last value counts; that a name which
stands there already may come once more is left aside.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from decimal import Decimal
from typing import NamedTuple

from .distinct import frozen
from .keys import spelling

DECODER = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal, strict=False)
NUMBER = frozenset("-+.eE0123456789")
BLANKS = b" \t\n\r"
WORDS = {"t": "true", "f": "false", "n": "null"}
MOST_ESCAPE = 12
"""Characters of the longest way to write one character."""


class Verdict(NamedTuple):
    """Whether a value is equal, ``None`` if that is open; where its text ends; the bytes that may lead on (``None``: any)."""

    equal: bool | None
    end: int = -1
    onward: bytes | None = None


OPEN, DIFFERS = Verdict(None), Verdict(False)


def may_be(text: bytes, value: Hashable) -> bool:
    """Whether the text begins some text of the value."""
    return judged(text, value).equal is not False


def leading_on(text: bytes, values: Iterable[Hashable]) -> frozenset[int] | None:
    """The bytes after which the text may still become one of some values, ``None`` if all bytes may be."""
    found = set[int]()
    for value in values:
        verdict = judged(text, value)
        if verdict.equal is None and verdict.onward is None:
            return None
        found.update(verdict.onward or BLANKS if verdict.equal is not False else b"")
    return frozenset(found)


def judged(text: bytes, value: Hashable) -> Verdict:
    """The verdict on a text that begins with the value."""
    try:
        return compared(text.decode(), 0, value)
    except UnicodeDecodeError:  # the text ends within a character
        return compared(text.decode(errors="ignore"), 0, value)._replace(onward=None)


def compared(text: str, at: int, value: Hashable) -> Verdict:
    """The verdict on the value that begins at a place."""
    at = past_blanks(text, at)
    if at == len(text):
        return Verdict(None, onward=BLANKS + first_bytes(value))
    if NUMBER.issuperset(text[at:]):
        return OPEN if isinstance(value, Decimal) else DIFFERS
    try:
        found, end = DECODER.raw_decode(text, at)
    except ValueError:
        return unfinished(text, at, value)
    return Verdict(frozen(found) == value, end)


def first_bytes(value: Hashable) -> bytes:
    """The bytes that a value may begin with."""
    if isinstance(value, str):
        return b'"'
    if isinstance(value, tuple):
        return {"array": b"[", "object": b"{", True: b"t", False: b"f"}[value[0]]
    return b"n" if value is None else b"-0123456789"


def unfinished(text: str, at: int, value: Hashable) -> Verdict:
    """The verdict on a value whose text has not ended."""
    first = text[at]
    if first == '"':
        return in_string(text, at, [value] if isinstance(value, str) else [])
    if first in WORDS:
        same = value == frozen({"t": True, "f": False, "n": None}[first])
        return Verdict(None, onward=WORDS[first][len(text) - at :][:1].encode()) if same else DIFFERS
    kind, *parts = value if isinstance(value, tuple) else ("",)
    if first == "[" and kind == "array":
        return in_array(text, at + 1, parts)
    if first == "{" and kind == "object":
        return in_object(text, at + 1, dict(*parts))
    return DIFFERS


def in_string(text: str, at: int, options: Iterable[str]) -> Verdict:
    """The verdict on a string that has not ended and may be one of some."""
    begun, is_whole = beginning(text, at)
    rests = [option[len(begun) :] for option in options if option.startswith(begun)]
    if not is_whole:  # a character has begun
        rests = [rest for rest in rests if rest]
    if not rests:
        return DIFFERS
    onward = {byte for rest in rests for byte in ((spelling(rest)[0], 92) if rest else (34,))}
    return Verdict(None, onward=bytes(onward) if is_whole else None)


def in_array(text: str, at: int, items: list[Hashable]) -> Verdict:
    """The verdict on an array that has not ended."""
    for i, item in enumerate(items):
        verdict = compared(text, at, item)
        if not verdict.equal:
            return verdict if verdict.equal is None else DIFFERS
        at = past_blanks(text, verdict.end)
        if at == len(text):
            return Verdict(None, onward=BLANKS + b",]")
        at += i + 1 < len(items)  # the comma
    return DIFFERS if past_blanks(text, at) < len(text) else Verdict(None, onward=BLANKS + b"]")


def in_object(text: str, at: int, members: dict[str, Hashable]) -> Verdict:
    """The verdict on an object that has not ended."""
    verdicts = dict[str, Verdict]()
    onward: bytes | None = BLANKS + b'",}'
    while (at := past_blanks(text, at)) < len(text):
        try:
            name, at = DECODER.raw_decode(text, at)
        except ValueError:
            verdict = in_string(text, at, members)
            if verdict.equal is False:
                return DIFFERS
            onward = verdict.onward
            break
        if name not in members:
            return DIFFERS
        at = past_blanks(text, at)
        verdict = Verdict(None, onward=BLANKS + b":")
        verdicts[name] = verdict = compared(text, at + 1, members[name]) if at < len(text) else verdict
        if verdict.end < 0:
            onward = verdict.onward
            break
        at = past_blanks(text, verdict.end)
        at += at < len(text)  # the comma
    return DIFFERS if any(v.equal is False for v in verdicts.values()) else Verdict(None, onward=onward)


def past_blanks(text: str, at: int) -> int:
    """The place of what follows white space."""
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def beginning(text: str, at: int) -> tuple[str, bool]:
    """The whole characters of a string that begins at a place and has not ended, and whether that is all of its text."""
    for size in range(len(text), max(len(text) - MOST_ESCAPE, at), -1):
        try:
            found = str(DECODER.raw_decode(text[at:size] + '"')[0])
        except ValueError:
            continue
        if found and 0xD800 <= ord(found[-1]) <= 0xDBFF:  # half of a pair
            return found[:-1], False
        return found, size == len(text)
    return "", False
