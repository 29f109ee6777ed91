"""Members of the objects of a type: the names that stand for keys of a ``dict``, and fields that an alias finds further down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .type_decimals import WHOLE
from .type_marks import MARK, Schema, with_marks

INTEGER, NUMBER = rf"-?{WHOLE}", rf"-?{WHOLE}(?:\.[0-9]+)?"
MOST_NAMES = 1_000
"""The most integers that are listed as names of members."""


def names_of(keys: Any) -> Schema | bool:
    """Return the schema of the names that stand for values of a schema, with its marks."""
    names = member_names({key: value for key, value in keys.items() if key != MARK})
    if MARK not in keys:
        return names
    return with_marks(names if isinstance(names, dict) else {} if names else {"not": {}}, keys[MARK])


def member_names(keys: Any) -> Schema | bool:
    """Return the schema of the names that stand for values of a schema."""
    if not isinstance(keys, dict) or not keys.keys() - {"title", "description", "default"}:
        return True
    if "anyOf" in keys:
        rest = {key: value for key, value in keys.items() if key != "anyOf"}
        return {**rest, "anyOf": [names_of(each) for each in keys["anyOf"]]}
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
