"""How JSON is written: the styles of white space, and the characters of strings.

A character of a string stands for itself where JSON allows that. ``\\" \\\\ \\/ \\b \\f \\n \\r \\t`` may be written so, and
control characters and those beyond ASCII also as ``\\uXXXX`` (a pair of them beyond U+FFFF); letters are not hidden in
escapes. Between tokens stands the white space of the chosen :class:`Style`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..automata import utf8
from ..automata.dfa import minimize
from ..automata.nfa import Nfa, sequences, union
from ..automata.utf8 import CodePoints, digit_ranges, within
from ..automata.work import metered


class Style(NamedTuple):
    """The separators of JSON: between members, between name and value; ``blank``: any white space may surround them."""

    comma: bytes
    colon: bytes
    blank: bool


STYLES = {
    "none": Style(b",", b":", False),
    "space": Style(b", ", b": ", False),
    "flexible": Style(b",", b":", True),
}

# ---------------------------------------------------------------- strings

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
def ways(char: str) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """The ways to write one character in JSON: for each way, the bytes that may stand at each place. A surrogate has none."""
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
    """The bytes that may stand at a place: digits of ``\\uXXXX`` are of either case."""
    is_digit = way[:2] == b"\\u" and i % 6 > 1 and way[i : i + 1].isalpha()
    return (way[i], way[i] - 32) if is_digit else (way[i],)


def escape(low: int, high: int) -> list[list[Ranges]]:
    """``\\uXXXX`` for the code units of the range, in hexadecimal digits of either case: for each way the ranges of bytes."""
    first, last = ([int(d, 16) for d in f"{n:04x}"] for n in (low, high))
    return [[BACKSLASH, [(117, 117)], *(nibble(*d) for d in s)] for s in digit_ranges(first, last, 0, 15)]


def nibble(low: int, high: int) -> Ranges:
    """The bytes of the hexadecimal digits ``low..high``."""
    letters = [(start + max(low, 10), start + high) for start in (55, 87)] if high > 9 else []
    return ([(48 + low, 48 + min(high, 9))] if low < 10 else []) + letters
