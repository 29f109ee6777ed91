"""Members of the objects of a type: the names that stand for keys of a ``dict``, and fields that an alias finds further down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from .type_decimals import WHOLE
from .type_marks import MARK, NAMES, Schema, differing, with_marks
from .type_ranges import whole

INTEGER, NUMBER = rf"-?{WHOLE}", rf"-?{WHOLE}(?:\.[0-9]+)?"
MOST_NAMES = 1_000
"""The most integers that are listed as names of members."""
MOST_DIGITS = 18
"""The most digits of an integer that is a name, where it has bounds."""
FURTHEST = 10**MOST_DIGITS - 1
MOST_LENGTH = 200
"""The most characters of a name that a pattern describes."""


def names_of(keys: Any) -> Schema | bool:
    """Return the schema of the names that stand for values of a schema, with its marks."""
    names = member_names({key: value for key, value in keys.items() if key != MARK})
    if isinstance(names, dict) and "pattern" in names and names.get("maxLength", 0) > MOST_LENGTH:
        why = "a pattern of names is followed character by character"
        long = f"names of up to {names['maxLength']} characters"
        names = differing({**names, "maxLength": MOST_LENGTH}, "maxLength", long, f"up to {MOST_LENGTH}", why)
    if MARK not in keys:
        return names
    return with_marks(names if isinstance(names, dict) else {} if names else {"not": {}}, keys[MARK])


def member_names(keys: Any) -> Schema | bool:
    """Return the schema of the names that stand for values of a schema."""
    if not isinstance(keys, dict) or not keys.keys() - {"title", "description", "default"}:
        return True
    if "anyOf" in keys:
        rest = {key: value for key, value in keys.items() if key != "anyOf"}
        ways = [names_of(each) for each in keys["anyOf"]]
        return {
            **rest,
            "anyOf": [way if isinstance(way, dict) else {} if way else {"not": {}} for way in ways],
        }
    values = keys.get(NAMES, keys.get("enum", [keys["const"]] if "const" in keys else None))
    if values is not None:
        return {"enum": [value for value in values if isinstance(value, str)]}
    kind = keys.get("type")
    if kind == "boolean":
        return {"enum": ["true", "false"]}
    if kind in ("integer", "number"):
        return number_names(keys)
    return keys if kind == "string" else False


def number_names(keys: Schema) -> Schema:
    """Return the schema of the names of numbers: within bounds those of integers, of up to :data:`MOST_DIGITS` digits."""
    parts = [keys]
    for part in parts:
        parts += part.get("allOf", [])
    low = max((math.ceil(p["minimum"]) for p in parts if "minimum" in p), default=-FURTHEST)
    low = max((low, *(math.floor(p["exclusiveMinimum"]) + 1 for p in parts if "exclusiveMinimum" in p)))
    high = min((math.floor(p["maximum"]) for p in parts if "maximum" in p), default=FURTHEST)
    high = min((high, *(math.ceil(p["exclusiveMaximum"]) - 1 for p in parts if "exclusiveMaximum" in p)))
    steps = [Fraction(str(p["multipleOf"])) for p in parts if "multipleOf" in p]
    if not steps and low <= -FURTHEST and high >= FURTHEST:
        return {"pattern": f"^{INTEGER if keys.get('type') == 'integer' else NUMBER}$"}
    if any("not" in part for part in parts):
        return {"not": {}}
    step = math.lcm(*(each.numerator for each in steps))  # of the integers among the multiples
    if step > 1 or high - low < MOST_NAMES:
        first = max(low, min(high, 0) - MOST_NAMES * step // 2)
        some = range(-(-first // step) * step, high + 1, step)[:MOST_NAMES]
        found: Schema = {"enum": [str(value) for value in some]}
        is_all = first == low and len(some) == len(range(-(-low // step) * step, high + 1, step))
    else:
        ways = [whole(max(low, 0), high)] if high >= 0 else []
        ways += [f"-{whole(-min(high, -1), -low)}"] if low < 0 else []
        found, is_all = {"pattern": f"^(?:{'|'.join(ways)})$"}, True
    if is_all and keys.get("type") == "integer":
        return found
    what = "integers among them" if is_all else f"{MOST_NAMES} integers among them"
    why = "names are texts, which are listed"
    return differing(found, "propertyNames", "all numbers within the bounds", what, why)


def alias_path(alias: Any) -> Sequence[str | int] | None:
    """Return the path by which a field is written where its alias has no plain name, else ``None``.

    ``alias``: a name, a path, or a list of paths of which the first is taken. A path is a list of names and places.
    """
    if not isinstance(alias, list) or not alias:
        return None
    paths = alias if isinstance(alias[0], list) else [alias]
    return None if any(len(path) == 1 for path in paths) else list(paths[0])


def placed(path: Sequence[str | int], schema: Any, required: bool) -> Schema:
    """Return the schema of a value that has another one at a path of names and places within it."""
    if not path:
        return dict(schema)
    step, inner = path[0], placed(path[1:], schema, required)
    if isinstance(step, str):
        return {"type": "object", "properties": {step: inner}, **({"required": [step]} if required else {})}
    return {
        "type": "array",
        "prefixItems": [*({} for _ in range(step)), inner],
        **({"minItems": step + 1} if required else {}),
    }


def with_paths(found: Schema, paths: Iterable[tuple[str, Sequence[str | int], bool]]) -> Schema:
    """Return the schema of an object in which some properties are written at a path.

    ``paths``: the property in ``found``, its path, and whether it is required.
    """
    properties, needed = dict(found["properties"]), list(found.get("required", ()))
    for name, path, required in paths:
        inner = properties.pop(name)
        needed = [each for each in needed if each != name]
        root = str(path[0])
        shared = properties.get(root, {})
        properties[root] = {**shared, "allOf": [*shared.get("allOf", ()), placed(path[1:], inner, required)]}
        needed += [root] if required and root not in needed else []
    return {**found, "properties": properties, "required": needed}
