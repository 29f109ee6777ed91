"""Whether a begun JSON text can still become a given value, and with which bytes it goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ..text import JSON

BLANKS = b" \t\n\r"
DIGITS = b"0123456789.eE+-"
EVERY = bytes(range(256))
MOST_KEPT = 1 << 14  # answers of `onward`
NUMBER = re.compile(rb"[-+0-9.eE]+")
LITERALS = {None: b"null", (True,): b"true", (False,): b"false"}
Rest = tuple[int, bytes]
"""The end of the value in the text and no bytes; or −1 and the bytes that may follow if the text ends within the value."""


class Differs(Exception):
    """The error of a text that does not begin a text of the value."""


@lru_cache(MOST_KEPT)
def onward(text: bytes, value: Hashable) -> bytes | None:
    """Return a superset of the bytes with which a text goes on towards a value.
    Return ``None`` if it cannot become the value, which is one of :func:`~.distinct.frozen`."""
    try:
        end, following = read(text, 0, value)
        if end >= 0 and text[end:].strip(BLANKS):
            return None
    except Differs:
        return None
    return following + BLANKS


def read(text: bytes, at: int, value: Any) -> Rest:
    """Compare the text from a position on with a JSON value.
    Raises :class:`Differs` if it cannot become the value."""
    at = after_blanks(text, at)
    if isinstance(value, str):
        return read_string(text, at, [value])[:2]
    if value in LITERALS:
        return read_literal(text, at, LITERALS[value])
    if isinstance(value, tuple):
        return (
            read_array(text, at, value[1:]) if value[0] == "array" else read_object(text, at, dict(value[1]))
        )
    return read_number(text, at, value)


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
        found = read_whole(text[at : end + 1])
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


def read_whole(text: bytes) -> str:
    """Return the string of a complete text with its quotes."""
    if b"\\" not in text:
        with suppress(UnicodeDecodeError):
            return text[1:-1].decode()
    return str(json.loads(text, strict=False))


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


def read_number(text: bytes, at: int, value: Decimal) -> Rest:
    """Compare with a number, as :func:`read`."""
    found = NUMBER.match(text, at)
    if found is None:
        if at < len(text):
            raise Differs
        return -1, DIGITS
    word = found[0]
    if found.end() < len(text):
        if Decimal(word.decode()) != value:
            raise Differs
        return found.end(), b""
    if word.startswith(b"-") != value.is_signed() and value:
        raise Differs
    if not re.search(rb"[eE]", word):
        ours, theirs = digits(word.decode()), digits(f"{value:f}")
        if not (ours.startswith(theirs.rstrip("0")) or theirs.startswith(ours)):
            raise Differs
    return -1, DIGITS + b",]}"


def digits(number: str) -> str:
    """Return the digits of a number from the first that is not zero on."""
    return number.lstrip("-").replace(".", "").lstrip("0")


def read_array(text: bytes, at: int, items: tuple[Any, ...]) -> Rest:
    """Compare with an array, as :func:`read`."""
    at = expect(text, at, b"[")
    for i, item in enumerate(items):
        if at >= 0 and i:
            at = expect(text, after_blanks(text, at), b",")
        if at < 0:
            return -1, b"[,"
        at, following = read(text, at, item)
        if at < 0:
            return -1, following
    at = expect(text, after_blanks(text, at), b"]") if at >= 0 else at
    return (at, b"") if at >= 0 else (-1, b"[]")


def read_object(text: bytes, at: int, members: dict[str, Any]) -> Rest:
    """Compare with an object, whose members may stand in any order, as :func:`read`."""
    at, left, first = expect(text, at, b"{"), dict(members), True
    while at >= 0 and left:
        if not first:
            at = expect(text, after_blanks(text, at), b",")
            if at < 0:
                break
        first = False
        at, following, name = read_string(text, after_blanks(text, at), list(left))
        if at < 0:
            return -1, following
        at = expect(text, after_blanks(text, at), b":")
        if at < 0:
            break
        at, following = read(text, at, left.pop(name))
        if at < 0:
            return -1, following
    at = expect(text, after_blanks(text, at), b"}") if at >= 0 else at
    return (at, b"") if at >= 0 else (-1, b"{:,}")


def expect(text: bytes, at: int, byte: bytes) -> int:
    """Return the position after a byte, −1 if the text has ended.
    Raises :class:`Differs` for another byte."""
    if at >= len(text):
        return -1
    if text[at : at + 1] != byte:
        raise Differs
    return at + 1
