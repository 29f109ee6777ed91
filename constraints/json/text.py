"""Surface syntax: how values are written. A :class:`Style` has their punctuation, a :class:`Spelling` the characters of strings.

In JSON a character of a string stands for itself where JSON allows that. ``\\" \\\\ \\/ \\b \\f \\n \\r \\t`` may be written so,
and control characters and those beyond ASCII also as ``\\uXXXX`` (a pair of them beyond U+FFFF); letters are not hidden in
escapes. Between tokens stands the white space of the chosen style.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ..automata import utf8
from ..automata.dfa import minimize
from ..automata.nfa import Nfa, sequences, union
from ..automata.utf8 import Alphabet, CodePoints, digit_ranges, within
from ..automata.work import metered

Ways = tuple[tuple[tuple[int, ...], ...], ...]
"""The ways to write one character: for each way, the bytes that may stand at each place."""


@dataclass(frozen=True, eq=False)
class Spelling:
    """How a string is written: the byte before it (none for a bare name) and after it, and its characters.

    ``alphabet`` gives the texts of a set of characters, ``ways`` those of one character (none for a surrogate), ``plain`` a short
    text of a string, and ``read`` the string of a text, ``None`` where the text ends within a character. None of them has the
    bytes around the string.
    """

    opening: bytes
    closing: int
    alphabet: Alphabet
    ways: Callable[[str], Ways]
    plain: Callable[[str], bytes]
    read: Callable[[bytes], str | None]

    def around(self, inside: bytes) -> bytes:
        """A text with the bytes around it."""
        return self.opening + inside + bytes((self.closing,))


# ---------------------------------------------------------------- the strings of JSON

SHORT = {ord(c): e for c, e in zip('"\\/\b\f\n\r\t', b'"\\/bfnrt', strict=True)}
Ranges = list[tuple[int, int]]  # of bytes
BACKSLASH: Ranges = [(92, 92)]


@metered(maxsize=512)
def spelled(points: CodePoints) -> Nfa:
    """The ways to write a character of the set inside a JSON string."""
    raw = within(points, ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)))
    short = [(e, e) for code, e in SHORT.items() if within(points, ((code, code),))]
    escapes = [[BACKSLASH, short]]
    for low, high in within(points, ((0, 0x1F), (0x7F, 0xFFFF))):
        escapes += escape(low, high)
    for low, high in within(points, ((0x10000, 0x10FFFF),)):
        first, last = ([0xD800 + (c - 0x10000 >> 10), 0xDC00 + (c & 0x3FF)] for c in (low, high))
        for one, other in digit_ranges(first, last, 0xDC00, 0xDFFF):
            escapes += [[*a, *b] for a in escape(*one) for b in escape(*other)]
    return minimize(union([utf8.utf8(raw), sequences(escapes)]))


@lru_cache(maxsize=4096)
def ways(char: str) -> Ways:
    """The ways to write one character in JSON. A surrogate has none."""
    code, found = ord(char), []
    if 0xD800 <= code <= 0xDFFF:
        return ()
    if code >= 0x20 and char not in '"\\':
        found.append(char.encode())
    if code in SHORT:
        found.append(bytes([92, SHORT[code]]))
    if code < 0x20 or code >= 0x7F:
        units = char.encode("utf-16-be").hex()
        found.append("".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)).encode())
    return tuple(tuple(choices(way, i) for i in range(len(way))) for way in found)


def choices(way: bytes, i: int) -> tuple[int, ...]:
    """The bytes that may stand at a place of one way to write a character: hexadecimal digits are of either case."""
    escaped = len(way) > 2 and way[:1] == b"\\"
    is_digit = escaped and way[i - 1 : i] != b"\\" and way[i : i + 1].isalpha()
    return (way[i], way[i] - 32) if is_digit else (way[i],)


def escape(low: int, high: int, letter: bytes = b"u", width: int = 4) -> list[list[Ranges]]:
    """``\\uXXXX`` for the code units of the range, in hexadecimal digits of either case: for each way the ranges of bytes."""
    first, last = ([int(d, 16) for d in f"{n:0{width}x}"] for n in (low, high))
    head = [BACKSLASH, [(letter[0], letter[0])]]
    return [[*head, *(nibble(*d) for d in s)] for s in digit_ranges(first, last, 0, 15)]


def nibble(low: int, high: int) -> Ranges:
    """The bytes of the hexadecimal digits ``low..high``."""
    letters = [(start + max(low, 10), start + high) for start in (55, 87)] if high > 9 else []
    return ([(48 + low, 48 + min(high, 9))] if low < 10 else []) + letters


def plain(text: str) -> bytes:
    """A string as ``json.dumps`` writes it, between its quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


@lru_cache(4096)
def read(text: bytes) -> str | None:
    """The string that is written so between quotes; ``None`` if the text ends within a character."""
    try:
        return str(json.loads(b'"' + text + b'"', strict=False))
    except ValueError:
        return None


JSON = Spelling(b'"', ord('"'), spelled, ways, plain, read)

# ---------------------------------------------------------------- punctuation


@dataclass(frozen=True, eq=False)
class Style:
    """How values are written. Equality is identity.

    Parameters
    ----------
    comma, colon
        What stands between members or items, and between a name and its value.
    blank
        Whether any white space may surround them.
    spellings
        The ways to write a string; short texts are written in the first.
    words
        ``null``, ``false`` and ``true``.
    braces
        The first and the last byte of an object.
    opened
        Whether the first byte of an object is read before it.
    tuples
        Whether there are tuples beside arrays; integers have no point then.
    """

    comma: bytes
    colon: bytes
    blank: bool
    spellings: tuple[Spelling, ...] = (JSON,)
    words: tuple[bytes, bytes, bytes] = (b"null", b"false", b"true")
    braces: tuple[bytes, bytes] = (b"{", b"}")
    opened: bool = False
    tuples: bool = False

    def named(self, name: bytes) -> bytes:
        """The name of a member, spelled, with all that stands before its value."""
        return self.spellings[0].around(name) + self.colon


STYLES = {
    "none": Style(b",", b":", False),
    "space": Style(b", ", b": ", False),
    "flexible": Style(b",", b":", True),
}
