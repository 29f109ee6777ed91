"""Whether a begun JSON text can still become a given value, and with which bytes it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...program.json_value import WORDS, Open, after
from ...program.json_value import read_string as whole_string
from ..exact import Number, number
from ..text import JSON

BLANKS = b" \t\n\r"
DIGITS = b"0123456789.eE+-"
EVERY = bytes(range(256))
MOST_KEPT = 1 << 14  # answers of `onward`
NUMBER = re.compile(rb"[-+0-9.eE]+")
LITERALS = {value: word for word, value in WORDS.items()}
Rest = tuple[int, bytes]
"""The end of the value in the text and no bytes; or −1 and the bytes that may follow if the text ends within the value."""


class Differs(Exception):
    """The error of a text that does not begin a text of the value."""


@lru_cache(MOST_KEPT)
def onward(text: bytes, value: Hashable) -> bytes | None:
    """Return a superset of the bytes with which a text goes on towards a value.
    Return ``None`` if it cannot become the value, which is one of :func:`~...program.json_value.meaning`."""
    try:
        return following(text, value) + BLANKS
    except Differs:
        return None


@dataclass
class Container:
    """An array or object that the text has begun: the entries of the value that are still to come.

    ``end``: the position after it in the value. ``members``: of an object, the position of each value that has not come, by name.
    """

    end: int
    members: dict[str, int] | None
    first: bool = True


def following(text: bytes, value: Any) -> bytes:
    """Compare a text with a value; return a superset of the bytes that may follow, none after the whole value.
    Raises :class:`Differs` if it cannot become the value."""
    entries = value if isinstance(value, tuple) and isinstance(value[0], Open) else (value,)
    begun: list[Container] = []
    at = here = 0
    while True:
        entry, at = entries[here], after_blanks(text, at)
        if isinstance(entry, Open):
            at, rest = expect(text, at, entry.bracket.encode())
            end = here + entry.size
            begun.append(Container(end, members_of(entries, here + 1, end) if entry.bracket == "{" else None))
        else:
            at, rest = read_scalar(text, at, entry)
        here += 1
        while at >= 0 and begun:
            inner = begun[-1]
            if inner.members or (inner.members is None and here < inner.end):
                at, here, rest = next_item(text, at, here, inner)
                break
            at, rest = expect(text, after_blanks(text, at), b"}" if inner.members is not None else b"]")
            here = begun.pop().end
        if at < 0:
            return rest
        if not begun:
            if text[at:].strip(BLANKS):
                raise Differs
            return b""


def next_item(text: bytes, at: int, here: int, inner: Container) -> tuple[int, int, bytes]:
    """Read up to the next item, or member's value: return the positions in the text and the value, and what may follow.
    The first is −1 if the text ends before."""
    rest = b""
    if not inner.first:
        at, rest = expect(text, after_blanks(text, at), b",")
    inner.first = False
    if at >= 0 and inner.members is not None:
        at, rest, name = read_string(text, after_blanks(text, at), list(inner.members))
        if at >= 0:
            here = inner.members.pop(name)
            at, rest = expect(text, after_blanks(text, at), b":")
    return at, here, rest


def members_of(entries: Sequence[Any], at: int, end: int) -> dict[str, int]:
    """Return the position of the value of each member of an object, by name."""
    found = {}
    while at < end:
        found[entries[at]] = at + 1
        at = after(entries, at + 1)
    return found


def read_scalar(text: bytes, at: int, value: Any) -> Rest:
    """Compare the text from a position on with a string, a number or a literal.
    Raises :class:`Differs` if it cannot become the value."""
    if isinstance(value, str):
        return read_string(text, at, [value])[:2]
    if isinstance(value, Number):
        return read_number(text, at, value)
    return read_literal(text, at, LITERALS[value])


def after_blanks(text: bytes, at: int) -> int:
    """Return the position after white space."""
    while at < len(text) and text[at] in BLANKS:
        at += 1
    return at


def read_literal(text: bytes, at: int, word: bytes) -> Rest:
    """Read one of ``null``, ``true`` and ``false``."""
    part = text[at : at + len(word)]
    if not word.startswith(part):
        raise Differs
    return (at + len(word), b"") if len(part) == len(word) else (-1, word[len(part) :][:1])


def read_string(text: bytes, at: int, values: list[str]) -> tuple[int, bytes, str]:
    """Read one of some strings; return the two parts of :data:`Rest` and the string.
    The string is empty if the text ends within it."""
    if at == len(text):
        return -1, b'"', ""
    if text[at] != 34:
        raise Differs
    end = at + 1
    while end < len(text) and text[end] != 34:
        end += 2 if text[end] == 92 else 1
    if end < len(text):
        found = whole_string(text[at : end + 1])
        if found not in values:
            raise Differs
        return end + 1, b"", found
    prefix, whole = decoded(text[at:])
    onward = [value[len(prefix) :] for value in values if value.startswith(prefix)]
    if not onward:
        raise Differs
    if not whole:
        return -1, EVERY, ""
    first = {byte for rest in onward if rest for byte in (JSON.plain(rest)[0], first_byte(rest))}
    return -1, b"\\" + bytes(first) + (b'"' if "" in onward else b""), ""


def first_byte(word: str) -> int:
    """Return the first byte of a word, unescaped."""
    return word[0].encode("utf-8", "surrogatepass")[0]


def decoded(text: bytes) -> tuple[str, bool]:
    """Return the whole letters of the beginning of a string, and whether nothing follows them."""
    if b"\\" not in text:
        with suppress(UnicodeDecodeError):
            return text[1:].decode(), True
    for size in range(len(text), 0, -1):
        try:
            found = str(json.loads(text[:size] + b'"', strict=False))
        except ValueError:
            continue
        if found and 0xD800 <= ord(found[-1]) <= 0xDBFF:  # the first half of a pair
            return found[:-1], False
        return found, size == len(text)
    return "", False


def read_number(text: bytes, at: int, value: Number) -> Rest:
    """Compare with a number, as :func:`read_scalar`."""
    found = NUMBER.match(text, at)
    if found is None:
        if at < len(text):
            raise Differs
        return -1, DIGITS
    word = found[0]
    if found.end() < len(text):
        if number(word) != value:
            raise Differs
        return found.end(), b""
    if word.startswith(b"-") != value.negative and value.digits:
        raise Differs
    if not re.search(rb"[eE]", word):
        ours, theirs = word.decode().lstrip("-").replace(".", "").lstrip("0"), value.digits
        if not (theirs.startswith(ours) or (ours.startswith(theirs) and not ours[len(theirs) :].strip("0"))):
            raise Differs
    return -1, DIGITS + b",]}"


def expect(text: bytes, at: int, byte: bytes) -> Rest:
    """Read one byte. Raises :class:`Differs` for another one."""
    if at >= len(text):
        return -1, byte
    if text[at : at + 1] != byte:
        raise Differs
    return at + 1, b""
