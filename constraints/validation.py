"""Arguments as people give them: texts and whole numbers, or an error that names the argument and says what it should be."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ..errors import UnsupportedConstraint
from . import limits


def text(value: Any, path: str) -> str:
    """The text. Raises ``UnsupportedConstraint`` for what is none, or has half of a surrogate pair, which no UTF-8 text
    has."""
    if not isinstance(value, str):
        raise UnsupportedConstraint(f"a text is needed, not {short(value)}", path=path)
    if not value.isascii() and (odd := next((c for c in value if "\ud800" <= c <= "\udfff"), None)):
        raise UnsupportedConstraint(f"{short(value)} has the lone surrogate {odd!r}, no character", path=path)
    return value


def count(value: Any, path: str, least: int = 0, most: int = limits.COUNT) -> int:
    """The whole number. Raises ``UnsupportedConstraint`` for what is none, or is not in the range."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        raise UnsupportedConstraint(
            f"a whole number from {least:,} to {most:,} is needed, not {short(value)}", path=path
        )
    return int(value)


def short(value: Any) -> str:
    """The value for a message."""
    if isinstance(value, int) and abs(value) > limits.COUNT * limits.COUNT:
        return f"a number of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"
