"""How JSON values are written: the texts that a JSON Schema constraint chooses from.

- A character of a string stands for itself where JSON allows that. ``\\" \\\\ \\/ \\b \\f \\n \\r \\t`` may be written so, and
  control characters and those beyond ASCII also as ``\\uXXXX`` (pairs beyond U+FFFF). Letters are not hidden in escapes.
- An integer is plain digits; a number may have a fraction and an exponent, one with bounds a fraction only.
- Between tokens stands the white space of the chosen :class:`Style`.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from . import dfa, nfa, utf8
from .nfa import Nfa, byte_ranges, concat, empty, literal, optional, plus, repeat, star, union
from .utf8 import CodePoints, digit_ranges

BLANK = star(byte_ranges([(9, 10), (13, 13), (32, 32)]))


class Style(NamedTuple):
    """What separates members, what separates a name from its value, and what stands inside brackets."""

    comma: Nfa
    colon: Nfa
    padding: Nfa


STYLES = {
    "none": Style(literal(b","), literal(b":"), literal(b"")),
    "space": Style(literal(b", "), literal(b": "), literal(b"")),
    "flexible": Style(concat([BLANK, literal(b","), BLANK]), concat([BLANK, literal(b":"), BLANK]), BLANK),
}

SHORT = {ord(c): e for c, e in zip('"\\/\b\f\n\r\t', b'"\\/bfnrt', strict=True)}


@lru_cache(maxsize=512)
def spelled(points: CodePoints) -> Nfa:
    """The ways to write a character of the set inside a JSON string."""
    raw = clip(points, ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)))
    short = [(e, e) for code, e in SHORT.items() if clip(points, ((code, code),))]
    parts = [utf8.utf8(raw), concat([literal(b"\\"), byte_ranges(short)])]
    escape = literal(b"\\u")
    for low, high in clip(points, ((0, 0x1F), (0x7F, 0xFFFF))):
        parts.append(concat([escape, hexadecimal(low, high)]))
    for low, high in clip(points, ((0x10000, 0x10FFFF),)):
        first, last = ([0xD800 + (c - 0x10000 >> 10), 0xDC00 + (c & 0x3FF)] for c in (low, high))
        for halves in digit_ranges(first, last, 0xDC00, 0xDFFF):
            parts.append(concat([part for half in halves for part in (escape, hexadecimal(*half))]))
    return dfa.minimize(union(parts))


def clip(points: CodePoints, window: CodePoints) -> CodePoints:
    """The ranges of ``points`` within ``window``."""
    pieces = ((max(a, c), min(b, d)) for a, b in points for c, d in window)
    return utf8.normalize((low, high) for low, high in pieces if low <= high)


def hexadecimal(low: int, high: int) -> Nfa:
    """The numbers of the range in four hexadecimal digits of either case."""
    digits = [[int(d, 16) for d in f"{n:04x}"] for n in (low, high)]
    sequences = digit_ranges(*digits, 0, 15)
    return union([byte_ranges(*(nibble(*digit) for digit in sequence)) for sequence in sequences])


def nibble(low: int, high: int) -> list[tuple[int, int]]:
    """The bytes of the hexadecimal digits ``low..high``."""
    decimal = [(48 + low, 48 + min(high, 9))] if low < 10 else []
    letters = [(start + max(low, 10), start + high) for start in (55, 87)] if high > 9 else []
    return decimal + letters


def quoted(body: Nfa) -> Nfa:
    """A string whose inside is given."""
    return concat([literal(b'"'), body, literal(b'"')])


@lru_cache(maxsize=1024)
def exactly(text: str) -> Nfa:
    """The ways to write this string."""
    return quoted(utf8.string(text, spelled))


# ---------------------------------------------------------------- numbers

DIGIT = byte_ranges([(48, 57)])
DIGITS = star(DIGIT)
NATURAL = union([literal(b"0"), concat([byte_ranges([(49, 57)]), DIGITS])])
SIGN = optional(literal(b"-"))
FRACTION = optional(concat([literal(b"."), plus(DIGIT)]))
INTEGER = dfa.minimize(concat([SIGN, NATURAL]))
EXPONENT = optional(concat([byte_ranges([(69, 69), (101, 101)]), optional(byte_ranges([(43, 43), (45, 45)])), plus(DIGIT)]))
NUMBER = dfa.minimize(concat([SIGN, NATURAL, FRACTION, EXPONENT]))
POSITIVE_TAIL = concat([star(literal(b"0")), byte_ranges([(49, 57)]), DIGITS])


class Bound(NamedTuple):
    """One end of a range of numbers."""

    value: Decimal
    strict: bool


@lru_cache(maxsize=512)
def number(low: Bound | None, high: Bound | None, integer: bool) -> Nfa:
    """Numbers between the bounds; with a bound they are written without an exponent."""
    whole = INTEGER if integer else NUMBER
    for part in ([at_least(low)] if low else []) + ([at_most(high)] if high else []):
        whole = dfa.minimize(dfa.intersect(whole, part))
    return whole


def at_least(bound: Bound) -> Nfa:
    """Numbers not below the bound."""
    value, strict = bound
    if value < 0:
        return union([concat([NATURAL, FRACTION]), concat([literal(b"-"), small(-value, strict)])])
    zero = concat([literal(b"-"), small(value, False)]) if value == 0 and not strict else empty()
    return union([large(value, strict), zero])


def at_most(bound: Bound) -> Nfa:
    """Numbers not above the bound."""
    value, strict = bound
    if value < 0:
        return concat([literal(b"-"), large(-value, strict)])
    negative = large(Decimal(0), True) if value == 0 and strict else concat([NATURAL, FRACTION])
    return union([small(value, strict), concat([literal(b"-"), negative])])


def parts_of(value: Decimal) -> tuple[int, str]:
    """The whole part of a number, and its fraction's digits without zeros at the end."""
    whole, _, fraction = f"{value:f}".partition(".")
    return int(whole), fraction.rstrip("0")


def large(value: Decimal, strict: bool) -> Nfa:
    """Numbers without sign that are not below ``value >= 0``."""
    whole, digits = parts_of(value)
    same = [concat([literal(digits.encode()), POSITIVE_TAIL if strict else DIGITS])]
    for i, digit in enumerate(digits):
        if digit != "9":
            same.append(concat([literal(digits[:i].encode()), byte_ranges([(ord(digit) + 1, 57)]), DIGITS]))
    equal = concat([literal(b"."), union(same)])
    if not digits and not strict:
        equal = FRACTION
    beyond = concat([naturals(whole + 1, None), FRACTION])
    return union([concat([literal(str(whole).encode()), equal]), beyond])


def small(value: Decimal, strict: bool) -> Nfa:
    """Numbers without sign that are not above ``value >= 0``."""
    whole, digits = parts_of(value)
    zeros = star(literal(b"0"))
    same = [] if strict else [concat([literal(digits.encode()), zeros if digits else plus(literal(b"0"))])]
    for i, digit in enumerate(digits):
        same.append(concat([literal(digits[:i].encode()), byte_ranges([(48, ord(digit) - 1)] if digit != "0" else []), DIGITS]))
        if i:
            same.append(literal(digits[:i].encode()))
    equal = concat([literal(b"."), union(same)])
    if digits or not strict:
        equal = optional(equal)
    below = concat([naturals(0, whole - 1), FRACTION])
    return union([concat([literal(str(whole).encode()), equal]), below])


def naturals(low: int, high: int | None) -> Nfa:
    """Whole numbers ``low..high`` (``None``: no end) without leading zeros."""
    if high is not None and high < low:
        return empty()
    most = len(str(low if high is None else high))
    parts = []
    for width in range(len(str(low)), most + 1):
        first = max(low, 10 ** (width - 1) if width > 1 else 0)
        last = 10**width - 1 if high is None else min(high, 10**width - 1)
        ends = [[int(d) for d in str(n)] for n in (first, last)]
        parts += [byte_ranges(*([(48 + a, 48 + b)] for a, b in s)) for s in digit_ranges(*ends, 0, 9)]
    if high is None:
        parts.append(concat([byte_ranges([(49, 57)]), repeat(DIGIT, most, None)]))
    return union(parts)
