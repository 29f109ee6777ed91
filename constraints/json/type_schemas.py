"""JSON Schemas of Python types that allow what the types accept, where those of Pydantic allow more.

    Decimal        numbers of at most max_digits digits and decimal_places of them after the point; as strings, too, where no
                   bounds are to be compared
    dict[K, V]     names that K reads: "12" for int, "true" for bool
    timedelta      durations of at most 99,999 years, and parts of a day that are not longer
    date, time, …  no year 0, no leap second
    complex        numbers as Python writes them

What a validator or another type refuses beyond its schema is told by its parser alone (``output_type``).
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

Schema = dict[str, Any]

WHOLE = r"(?:0|[1-9][0-9]*)"
INTEGER, NUMBER = rf"-?{WHOLE}", rf"-?{WHOLE}(?:\.[0-9]+)?"
DURATION = (
    r"^P(?:[0-9]{1,7}W|(?:[0-9]{1,5}Y)?(?:[0-9]{1,6}M)?(?:[0-9]{1,8}D)?"
    r"(?:T(?:[0-9]{1,5}H)?(?:[0-9]{1,7}M)?(?:[0-9]{1,8}S)?)?)$"
)
YEAR = r"^(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-"
SECONDS = r":[0-5][0-9]:[0-5][0-9]"
COMPLEX = rf"^{NUMBER}(?:[+-]{WHOLE}(?:\.[0-9]+)?j)?$"
EXACT_DIGITS = 15
"""The most digits that a number of JSON keeps on its way through a float."""
MOST = 1e300
"""A bound below the greatest float."""
BOUNDS = [
    ("minimum", "ge"),
    ("maximum", "le"),
    ("exclusiveMinimum", "gt"),
    ("exclusiveMaximum", "lt"),
    ("multipleOf", "multiple_of"),
]
"""Keywords, and Pydantic's names for them."""
MOST_NAMES = 1_000
"""The most integers that are listed as names of members."""


@cache
def generator() -> Any:
    """Return the class that makes the schemas, for Pydantic's ``schema_generator``."""
    from pydantic.json_schema import GenerateJsonSchema

    def with_pattern(found: Schema, format_: str, pattern: str) -> Schema:
        return {**found, "pattern": pattern} if found.get("format") == format_ else found

    class Exact(GenerateJsonSchema):
        """Pydantic's writer of schemas, with the texts that Pydantic reads where it writes more."""

        def decimal_schema(self, schema: Any) -> Schema:
            return decimals(schema)

        def complex_schema(self, schema: Any) -> Schema:
            return {"type": "string", "pattern": COMPLEX}

        def timedelta_schema(self, schema: Any) -> Schema:
            return with_pattern(super().timedelta_schema(schema), "duration", DURATION)

        def date_schema(self, schema: Any) -> Schema:
            return with_pattern(super().date_schema(schema), "date", YEAR)

        def time_schema(self, schema: Any) -> Schema:
            return with_pattern(super().time_schema(schema), "time", "^[0-9]{2}" + SECONDS)

        def datetime_schema(self, schema: Any) -> Schema:
            pattern = f"{YEAR}[0-9]{{2}}-[0-9]{{2}}[Tt][0-9]{{2}}{SECONDS}"
            return with_pattern(super().datetime_schema(schema), "date-time", pattern)

        def dict_schema(self, schema: Any) -> Schema:
            found: Schema = super().dict_schema(schema)
            if "patternProperties" in found:
                found["additionalProperties"] = False
            elif "keys_schema" in schema:
                keys = self.generate_inner(schema["keys_schema"])
                if "$ref" in keys:
                    keys = self.get_schema_from_definitions(keys["$ref"]) or keys
                if (names := member_names(keys)) is not True:
                    found["propertyNames"] = names
            return found

    return Exact


def decimals(schema: Any) -> Schema:
    """Return the schema of a ``Decimal`` with Pydantic's conditions."""
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    bounds = {key: a_number(schema[name]) for key, name in BOUNDS if schema.get(name) is not None}
    some: list[Schema] = []
    if digits is None:
        some = [decimal_places(places) | {"exclusiveMinimum": -MOST, "exclusiveMaximum": MOST}]
    else:
        for after in range(digits + 1) if places is None else [places]:
            if (before := min(digits, EXACT_DIGITS) - after) >= 0:
                inside = {"exclusiveMinimum": -(10**before), "exclusiveMaximum": 10**before}
                nonzero = (
                    {"not": {"const": 0}} if places == digits else {}
                )  # 0 counts as a digit before the point
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
    """Return the condition of at most so many digits after the point."""
    return (
        {}
        if places is None or places > EXACT_DIGITS
        else {"multipleOf": float(f"1e-{places}") if places else 1}
    )


def decimal_text(digits: int | None, places: int | None) -> Schema:
    """Return the schema of such numbers as strings."""
    whole = WHOLE if digits is None or places is None else rf"(?:0|[1-9][0-9]{{0,{digits - places - 1}}})"
    fraction = r"(?:\.[0-9]+)?" if places is None else rf"(?:\.[0-9]{{1,{places}}})?" if places else ""
    return {"type": "string", "pattern": f"^-?{whole}{fraction}$"}


def member_names(keys: Any) -> Schema | bool:
    """Return the schema of the names that stand for values of a schema."""
    if not isinstance(keys, dict) or not keys.keys() - {"title", "description", "default"}:
        return True
    if "anyOf" in keys:
        return {"anyOf": [member_names(each) for each in keys["anyOf"]]}
    values = keys.get("enum", [keys["const"]] if "const" in keys else None)
    if values is not None:
        return {"enum": [value if isinstance(value, str) else str(value) for value in values]}
    kind = keys.get("type")
    if kind == "boolean":
        return {"enum": ["true", "false"]}
    if kind == "integer":
        return integer_names(keys)
    if kind == "number":
        return {"pattern": f"^{NUMBER}$"}
    return keys if kind == "string" else False


def integer_names(keys: Schema) -> Schema:
    """Return the schema of the names of integers: listed if they are few; else of their sign, whatever the bounds."""
    low = keys.get("minimum", keys["exclusiveMinimum"] + 1 if "exclusiveMinimum" in keys else None)
    high = keys.get("maximum", keys["exclusiveMaximum"] - 1 if "exclusiveMaximum" in keys else None)
    if low is not None and high is not None and high - low < MOST_NAMES:
        return {"enum": [str(value) for value in range(low, high + 1)]}
    return {"pattern": f"^{INTEGER if low is None or low < 0 else WHOLE if low == 0 else '[1-9][0-9]*'}$"}
