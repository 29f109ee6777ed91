"""Exact arithmetic of JSON numbers: no digit is rounded, and no exponent is written out as zeros."""

from __future__ import annotations

import re
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""A context that rounds nothing."""
PARTS = re.compile(rb"(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?")


class Number(NamedTuple):
    """A number as ±0.d₁d₂… · 10^exponent, without zeros at either end of the digits; 0 has no digits.
    Equal numbers are equal tuples."""

    negative: bool
    digits: str
    exponent: int


def parse_number(text: bytes) -> Number:
    """Return the number of a JSON text; the work is that of reading its digits, whatever the exponent."""
    found = PARTS.fullmatch(text)
    assert found is not None, text
    sign, whole, fraction, exponent = found.groups(b"")
    written = (whole + fraction).decode()
    digits = written.lstrip("0")
    if not digits:
        return Number(False, "", 0)
    shift = int(Decimal(exponent.decode())) if exponent else 0  # unlike int(…) without a limit of digits
    return Number(bool(sign), digits.rstrip("0"), len(whole) - (len(written) - len(digits)) + shift)


def is_multiple(value: Decimal, step: Decimal) -> bool:
    """Return whether a number is a whole number of steps."""
    return Fraction(value) % Fraction(step) == 0
