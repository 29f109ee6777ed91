"""JSON numbers between bounds.

Every bound comes down to one language, the decimals not below a positive number, compared digit by digit; the rest is
union and difference. An integer is plain digits. A number may have a fraction and an exponent, one with bounds a fraction
only.
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from .dfa import difference, intersect, minimize
from .nfa import Nfa, byte_ranges, concat, literal, optional, plus, repeat, star, union
from .utf8 import digit_ranges


def digits(low: int, high: int = 9) -> Nfa:
    """One digit from ``low`` to ``high``."""
    return byte_ranges([(48 + low, 48 + high)])


ANY = star(digits(0))
POSITIVE = concat([star(literal(b"0")), digits(1), ANY])  # digits that are not all zero
NATURAL = union([literal(b"0"), concat([digits(1), ANY])])
FRACTION = optional(concat([literal(b"."), plus(digits(0))]))
EXPONENT = concat(
    [byte_ranges([(69, 69), (101, 101)]), optional(byte_ranges([(43, 43), (45, 45)])), plus(digits(0))]
)
MINUS = literal(b"-")
UNSIGNED = minimize(concat([NATURAL, FRACTION]))
DECIMAL = minimize(concat([optional(MINUS), UNSIGNED]))
NUMBER = minimize(concat([DECIMAL, optional(EXPONENT)]))
INTEGER = minimize(concat([optional(MINUS), NATURAL]))


class Bound(NamedTuple):
    """One end of a range of numbers; a strict one is not in the range itself."""

    value: Decimal
    strict: bool


@lru_cache(maxsize=512)
def number(low: Bound | None, high: Bound | None, integer: bool) -> Nfa:
    """The numbers (or integers) within the bounds."""
    found = INTEGER if integer else DECIMAL if low or high else NUMBER
    if low:
        found = intersect(found, at_least(*low))
    if high:
        found = difference(found, at_least(high.value, not high.strict))
    return minimize(found)


def at_least(value: Decimal, strict: bool) -> Nfa:
    """The decimals not below ``value`` (above it if ``strict``)."""
    if value > 0 or (value == 0 and strict):
        return unsigned_at_least(value, strict)
    return union([UNSIGNED, concat([MINUS, difference(UNSIGNED, unsigned_at_least(-value, not strict))])])


def unsigned_at_least(value: Decimal, strict: bool) -> Nfa:
    """The decimals without sign not below ``value >= 0`` (above it if ``strict``)."""
    whole, _, tail = f"{value:f}".partition(".")
    tail = tail.rstrip("0")
    # Digits after the point that make more than `tail`: equal up to some place and larger there, or longer.
    more = [concat([literal(tail.encode()), POSITIVE if strict else ANY])]
    for i, digit in enumerate(tail):
        if digit != "9":
            more.append(concat([literal(tail[:i].encode()), digits(int(digit) + 1), ANY]))
    fraction = concat([literal(b"."), union(more)]) if tail or strict else FRACTION
    return union([concat([literal(whole.encode()), fraction]), concat([naturals(int(whole) + 1), FRACTION])])


def naturals(low: int) -> Nfa:
    """Whole numbers not below ``low >= 1``, without leading zeros."""
    first = [int(d) for d in str(low)]
    same = digit_ranges(first, [9] * len(first), 0, 9)
    longer = concat([digits(1), repeat(digits(0), len(first), None)])
    return union([*(byte_ranges(*([(48 + a, 48 + b)] for a, b in sequence)) for sequence in same), longer])
