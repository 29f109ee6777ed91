"""The texts of values that hold no others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from ..automata.nfa import literal
from ..automata.work import metered
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


def finite(value: Value, notation: Notation, order: Iterable[Any]) -> dict[str, Piece] | None:
    """Values that hold no others by their texts, if they are listed; those of ``order`` come in that order."""
    if value.array or value.object:
        return None
    found = {"null": word("null")} if value.null else {}
    found |= {str(b).lower(): word(str(b).lower()) for b in sorted(value.boolean)}
    for shape in value.number:
        among = numbers.listed(shape)
        if among is None:
            return None
        found |= {str(v): piece(numbers.number(Numbers(among=frozenset([v])), notation)) for v in among}
    for string in value.string:
        if string.among is None:
            return None
        words = (s for s in sorted(string.among) if strings.has(s, string.atoms))
        found |= {f'"{s}': quoted(strings.words((s,))) for s in words}
    place = {name(each): i for i, each in reversed(list(enumerate(order)))}
    return dict(sorted(found.items(), key=lambda item: place.get(item[0], len(place))))


def name(value: Any) -> str:
    """The text of a value as :func:`finite` names it."""
    if isinstance(value, str):
        return f'"{value}'
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(Decimal(repr(value)))
    return json.dumps(value)
