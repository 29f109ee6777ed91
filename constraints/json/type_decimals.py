"""The texts of a ``Decimal`` or a ``Fraction`` of a type, within its conditions, as schemas.

Numbers of at most ``max_digits`` digits and ``decimal_places`` of them after the point; as strings, too, where no bounds are to
be compared.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from .type_marks import Schema, differing
from .type_texts import matching

WHOLE = r"(?:0|[1-9][0-9]*)"
EXACT_DIGITS = 15
"""The most digits that a number of JSON keeps on its way through a float."""
MOST = 1e300
"""A bound below the greatest float."""
FINITE = {"exclusiveMinimum": -MOST, "exclusiveMaximum": MOST}
BOUNDS = [
    ("minimum", "ge"),
    ("maximum", "le"),
    ("exclusiveMinimum", "gt"),
    ("exclusiveMaximum", "lt"),
    ("multipleOf", "multiple_of"),
]
"""Keywords, and Pydantic's names for them."""


def decimals(schema: Any) -> Schema:
    """Return the schema of a ``Decimal`` with Pydantic's conditions."""
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    bounds = {key: a_number(schema[name]) for key, name in BOUNDS if schema.get(name) is not None}
    some: list[Schema] = []
    if digits is None:
        some = [decimal_places(places) | FINITE]
    else:
        for after in range(digits + 1) if places is None else [places]:
            if (before := min(digits, EXACT_DIGITS) - after) >= 0:
                inside = {"exclusiveMinimum": -(10**before), "exclusiveMaximum": 10**before}
                # 0 counts as a digit before the point
                nonzero = {"not": {"const": 0}} if places == digits else {}
                some.append(decimal_places(after) | inside | nonzero)
    numbers = [
        {"type": "number", "allOf": [each, bounds]} if bounds else {"type": "number", **each} for each in some
    ]
    has_text = not bounds and (digits is None or (places is not None and places < digits))
    return {"anyOf": [*numbers, *([decimal_text(digits, places)] if has_text else [])]}


def a_number(value: Any) -> int | float:
    """Return a bound as a number of JSON."""
    value = Decimal(value)
    return int(value) if value == int(value) else float(value)


def decimal_places(places: int | None) -> Schema:
    """Return the schema of numbers with at most ``places`` digits after the point; an empty schema if that excludes none."""
    if places is None or places > EXACT_DIGITS:
        return {}
    return {"multipleOf": float(f"1e-{places}") if places else 1}


def decimal_text(digits: int | None, places: int | None) -> Schema:
    """Return the schema of such numbers as strings."""
    whole = WHOLE if digits is None or places is None else rf"(?:0|[1-9][0-9]{{0,{digits - places - 1}}})"
    fraction = r"(?:\.[0-9]+)?" if places is None else rf"(?:\.[0-9]{{1,{places}}})?" if places else ""
    return matching(f"-?{whole}{fraction}")


def fractions(schema: Any) -> Schema:
    """Return the schema of a ``Fraction`` with its bounds."""
    lows = [(at_least(schema["ge"]), "minimum")] if schema.get("ge") is not None else []
    lows += [(at_least(schema["gt"], True), "minimum")] if schema.get("gt") is not None else []
    highs = [(-at_least(-schema["le"]), "maximum")] if schema.get("le") is not None else []
    highs += [(-at_least(-schema["lt"], True), "maximum")] if schema.get("lt") is not None else []
    if not lows and not highs:
        return {"anyOf": [{"type": "number", **FINITE}, matching(f"-?{WHOLE}(?:/[1-9][0-9]*)?")]}
    ends = [{key: value} for value, key in (*lows, *highs)]
    found: Schema = {"type": "number", **FINITE, "allOf": ends}
    why = "quotients are not compared with bounds"
    return differing(found, "type", "all fractions within the bounds", "numbers of JSON", why)


def at_least(bound: Any, strict: bool = False) -> float:
    """Return the least float that is not less than a bound, or greater if ``strict``."""
    found = float(bound)
    while Fraction(found) < bound or (strict and Fraction(found) == bound):
        found = math.nextafter(found, math.inf)
    return found
