"""The texts of values that hold no others."""

from __future__ import annotations

from ..nfa import literal
from ..work import metered
from . import numbers, strings
from .numbers import Notation
from .pieces import Piece, either, piece, quoted
from .shapes import Numbers
from .values import Value


@metered(maxsize=8)
def word(text: str) -> Piece:
    """One text."""
    return piece(literal(text.encode()))


@metered(maxsize=512)
def number_piece(shape: Numbers, notation: Notation) -> Piece:
    """The texts of a shape of numbers."""
    return piece(numbers.number(shape, notation))


def scalars(value: Value, notation: Notation) -> list[Piece]:
    """The texts of the values that hold no others."""
    parts = [word("null")] if value.null else []
    parts += [word(str(b).lower()) for b in sorted(value.boolean)]
    parts.append(either(number_piece(shape, notation) for shape in value.number))
    parts.append(either(quoted(strings.body(shape)) for shape in value.string))
    return parts
