"""JSON numbers between bounds, multiples, and single values, as automata over their texts.

Numbers without any condition are written in every way that JSON has. Under a condition they are decimals without an
exponent, with any number of zeros at the end of the fraction: ``1``, ``1.0`` and ``1.00`` are one number. Plain numbers
(:class:`Notation`) have one text each, but for those that are very large or very small. Bounds are
compared digit by digit (``core/decimals.h``); the rest is union and difference.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from ..._core import between_bounds
from ...errors import TooManyStates
from .. import limits
from ..automata.dfa import complement, difference, intersect, minimize
from ..automata.nfa import Nfa, byte_ranges, concat, literal, optional, plus, star, union
from ..automata.repeats import repeat
from ..automata.work import metered
from .exact import EXACT
from .shapes import Numbers, inside


def digits(low: int, high: int = 9) -> Nfa:
    """Return the automaton of one digit from ``low`` to ``high``."""
    return byte_ranges([(48 + low, 48 + high)])


ANY = star(digits(0))
NATURAL = union([literal(b"0"), concat([digits(1), ANY])])
FRACTION = optional(concat([literal(b"."), plus(digits(0))]))
EXPONENT = concat(
    [byte_ranges([(69, 69), (101, 101)]), optional(byte_ranges([(43, 43), (45, 45)])), plus(digits(0))]
)
MINUS = literal(b"-")
DECIMAL = minimize(concat([optional(MINUS), NATURAL, FRACTION]))
NUMBER = minimize(concat([DECIMAL, optional(EXPONENT)]))
PLAIN_INTEGER = minimize(concat([optional(MINUS), NATURAL]))
NO_FRACTION = optional(concat([literal(b"."), plus(literal(b"0"))]))
INTEGER = minimize(concat([PLAIN_INTEGER, NO_FRACTION]))
NO_ZERO_SIGN = difference(PLAIN_INTEGER, literal(b"-0"))
SIGN, NO_MORE = optional(byte_ranges([(43, 43), (45, 45)])), repeat(digits(0), 0, 2)
PLAIN_EXPONENT = concat([literal(b"e"), SIGN, optional(literal(b"0")), digits(1), NO_MORE])
PLAIN_NUMBER = minimize(
    union(
        [
            NO_ZERO_SIGN,
            concat([NO_ZERO_SIGN, literal(b".0")]),
            concat([optional(MINUS), NATURAL, literal(b"."), ANY, digits(1)]),
            concat(
                [
                    optional(MINUS),
                    digits(1),
                    optional(concat([literal(b"."), ANY, digits(1)])),
                    PLAIN_EXPONENT,
                ]
            ),
        ]
    )
)
"""Integers without a point, decimals with no zero at the end but ``.0``, and ``1.5e-07`` and ``1e21`` as ``json.dumps`` and
other writers have them; no ``-0``."""


class Notation(NamedTuple):
    """The way in which numbers are written.

    ``whole``: integers have no point (in draft 4 ``1.0`` is not an integer). ``plain``: also no ``-0`` and no zeros at the end of
    a fraction but in ``1.0``; listed integers have no point. ``digits``: the most digits before the point, and the most after it
    (``None``: no bound).
    """

    whole: bool = False
    plain: bool = False
    digits: int | None = None


def number_dfa(shape: Numbers, notation: Notation = Notation()) -> Nfa:  # noqa: B008
    """Return a DFA of the texts of a shape's numbers.
    Raises ``TooManyStates`` for multiples with too many residues."""
    found = values(shape, notation)
    if notation.plain:
        found = intersect(found, NO_ZERO_SIGN if shape.integer else PLAIN_NUMBER)
    if notation.digits is not None:
        some = repeat(digits(0), 1, notation.digits)
        fraction = optional(concat([literal(b"."), some]))
        found = intersect(found, concat([optional(MINUS), some, fraction, optional(EXPONENT)]))
    return found if notation in (Notation(), Notation(whole=True)) else minimize(found)


def values(shape: Numbers, notation: Notation) -> Nfa:
    """Return the texts of a shape's numbers, before :func:`number_dfa` restricts the notation."""
    if shape == Numbers():
        return NUMBER
    whole = PLAIN_INTEGER if notation.whole else INTEGER
    if shape.among is not None:
        listed = union([same(value, notation.plain) for value in sorted(shape.among)])
        return minimize(intersect(listed, whole) if notation.whole and shape.integer else listed)
    if notation.whole and shape == Numbers(integer=False):
        return minimize(difference(NUMBER, whole))
    found = whole if shape.integer else DECIMAL
    if shape.low or shape.high:
        low, high = (None if e is None else (f"{e.value:f}", e.strict) for e in (shape.low, shape.high))
        found = between_bounds(low, high, bool(shape.integer), not (shape.integer and notation.whole))
    if shape.integer is False:
        found = difference(found, whole)
    for step, sign in sorted(shape.multiples):
        steps = multiples(step)
        found = intersect(found, steps if sign else complement(steps), limit=limits.PART_STATES)
    if shape.but:
        found = difference(found, union([same(value) for value in sorted(shape.but)]))
    return minimize(found)


def same(value: Decimal, plain: bool = False) -> Nfa:
    """Return the texts of one number: as a decimal, and as ``json.dumps`` writes it.
    ``plain``: an integer has no point."""
    text = f"{value.copy_abs():f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    sign = MINUS if value < 0 else literal(b"") if value else optional(MINUS)
    tail = star(literal(b"0")) if "." in text else literal(b"") if plain else NO_FRACTION
    exact = concat([sign, literal(text.encode()), tail])
    if "e" in (shown := repr(float(value))) and Decimal(shown) == value:
        return union([exact, literal(shown.encode())])
    return exact


@metered(maxsize=256)
def multiples(step: Decimal) -> Nfa:
    """Return the decimals that are multiples of ``step``. Raises ``TooManyStates``.

    With ``step`` = M / 10^s: the integer formed by the digits before the point and the first s after it is a multiple of M, and
    only zeros follow. A state is a residue modulo M and the number of digits after the point.
    """
    _, parts, exponent = step.normalize(EXACT).as_tuple()
    assert isinstance(exponent, int)
    shift = max(0, -exponent)
    size = int("".join(map(str, parts))) * 10 ** max(0, exponent)
    if size * (shift + 1) > limits.PART_STATES:
        raise TooManyStates(f"multiples of {step} need too many states", limit=limits.PART_STATES)
    # Layers of residues: 0 before the point, 1 + p after p digits of the fraction; at the end a state for zeros.
    residue, end = np.arange(size), (shift + 2) * size
    zero = [residue[residue * (10 ** (shift - p) % size) % size == 0] for p in range(shift + 1)]
    rows = [
        np.column_stack([residue, np.full((size, 2), 46), size + residue]),
        np.array([[end, 48, 48, end]]),
    ]
    for digit in range(10):
        target, byte = (residue * 10 + digit) % size, np.full((size, 2), 48 + digit)
        for layer in range(shift + 1):
            onward = layer + 1 if layer else 0  # before the point any number of digits, after it one less
            rows.append(np.column_stack([layer * size + residue, byte, onward * size + target]))
    last = (shift + 1) * size + zero[shift]
    rows.append(np.column_stack([last, np.full((len(last), 2), 48), np.full(len(last), end)]))
    accept = np.concatenate([zero[0], *((1 + p) * size + zero[p] for p in range(1, shift + 1)), [end]])
    body = Nfa(end + 1, np.concatenate(rows), (), [0], accept)
    return minimize(intersect(concat([optional(MINUS), body]), DECIMAL))


def listed_numbers(shape: Numbers, most: int = 64) -> list[Decimal] | None:
    """Return the numbers of a shape that lists them, or has integers in a small range.
    The range is at most ``most`` wide. Return ``None`` for other shapes."""
    if shape.among is not None:
        return sorted(shape.among)
    if not (shape.integer and shape.low and shape.high):
        return None
    first, last = math.ceil(shape.low.value), math.floor(shape.high.value)
    if last - first > most:
        return None
    some = [Decimal(i) for i in range(first, last + 1)]
    return [v for v in some if inside(v, shape.low, shape.high, True, shape.multiples) and v not in shape.but]


def empty(shape: Numbers) -> bool:
    """Return whether certainly no number has the shape; no automaton is made."""
    return listed_numbers(shape) == []
