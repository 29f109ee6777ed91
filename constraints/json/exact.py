"""Exact arithmetic of JSON numbers: no digit is rounded."""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from fractions import Fraction

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
"""A context that rounds nothing."""


def is_multiple(value: Decimal, step: Decimal) -> bool:
    """Return whether a number is a whole number of steps."""
    return Fraction(value) % Fraction(step) == 0
