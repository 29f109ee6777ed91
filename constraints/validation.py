"""Checks of arguments: texts and whole numbers, with errors that name the argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

from ..errors import UnsupportedConstraint
from . import limits


def check_text(value: Any, path: str) -> str:
    """Return ``value``. Raise ``UnsupportedConstraint`` if it is no text or has a lone surrogate."""
    if not isinstance(value, str):
        raise UnsupportedConstraint(f"a text is needed, not {short(value)}", path=path)
    if not value.isascii() and (odd := next((c for c in value if "\ud800" <= c <= "\udfff"), None)):
        raise UnsupportedConstraint(f"{short(value)} has the lone surrogate {odd!r}, no character", path=path)
    return value


def utf8(text: Any) -> bytes:
    """Return the UTF-8 bytes of a text, or the bytes given. Raise ``UnsupportedConstraint`` for anything else."""
    if isinstance(text, bytes | bytearray):
        return bytes(text)
    return (text if isinstance(text, str) else check_text(text, "text")).encode("utf-8", "surrogatepass")


def count(value: Any, path: str, least: int = 0, most: int = limits.COUNT) -> int:
    """Return ``value`` as an ``int``, an integer from ``least`` to ``most``.

    Raises ``UnsupportedConstraint`` for anything else.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        raise UnsupportedConstraint(
            f"a whole number from {least:,} to {most:,} is needed, not {short(value)}", path=path
        )
    return int(value)


def choice(value: Any, path: str, choices: Iterable[Any]) -> None:
    """Raise ``UnsupportedConstraint`` unless ``value`` is one of the choices."""
    if value not in (known := list(choices)):
        raise UnsupportedConstraint(f"{path} is one of {known}, not {value!r}", path=path)


def items_of(value: Any, path: str, what: str) -> list[Any]:
    """Return the items of an iterable other than a text; else raise ``UnsupportedConstraint``: ``what``, not the value."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise UnsupportedConstraint(f"{what}, not {short(value)}", path=path)
    return list(value)


def token_texts(value: Any) -> dict[int, str]:
    """Return a mapping from token ids to texts; keys may be strings of digits, as in JSON. None gives an empty one.

    Raises ``UnsupportedConstraint`` for anything else.
    """
    if not isinstance(value, Mapping | None):
        raise UnsupportedConstraint(f"give texts of tokens by number, not {short(value)}", path="tokens")
    items = () if value is None else value.items()
    found = {int(k) if isinstance(k, str) and k.isdecimal() else k: v for k, v in items}
    if not all(isinstance(token, int) and isinstance(each, str) and each for token, each in found.items()):
        raise UnsupportedConstraint(f"give texts of tokens by number, not {short(found)}", path="tokens")
    return found


def short(value: Any) -> str:
    """Return a short representation of a value for a message."""
    if isinstance(value, int) and abs(value) > limits.COUNT * limits.COUNT:
        return f"a number of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"
