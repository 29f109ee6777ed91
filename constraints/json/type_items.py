"""Listed values that are read from JSON, and the items of a ``set`` or keys of a ``dict``, which are different values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from .type_marks import NAMES, Schema, differing, refused, validated

COPIED = {"int", "str", "bool", "none", "literal", "enum"}
"""The core schemas of which different texts are different values."""


def readable(found: Schema, schema: Any) -> Schema:
    """Return the schema of listed values, without those that Pydantic does not read from JSON, and their :data:`NAMES`."""
    values = found["enum"] if "enum" in found else [found["const"]] if "const" in found else []
    kept, core = read(values, schema), {"type": "dict", "keys_schema": {**schema, "metadata": {}}}
    if not all(isinstance(value, str) for value in values):
        named = read([{each if isinstance(each, str) else json.dumps(each): 0} for each in values], core)
        found = {**found, NAMES: [name for each in named for name in each]}
    if len(kept) == len(values):
        return found
    if not kept:
        return refused(f"none of {values} is read from JSON")
    found = {key: value for key, value in found.items() if key != "const"} | {"enum": kept}
    return differing(found, "enum", str(values), str(kept), "Pydantic does not read the others from JSON")


def read(values: Sequence[Any], schema: Any) -> list[Any]:
    """Return those of some values that Pydantic reads from JSON."""
    from pydantic_core import SchemaValidator, ValidationError, to_json

    validator, kept = SchemaValidator({**schema, "metadata": {}}), []
    for value in values:
        with suppress(ValidationError):
            validator.validate_json(to_json(value))
            kept.append(value)
    return kept


def distinct(found: Schema, schema: Any) -> Schema:
    """Return the schema of a ``set``: items that can be hashed, and are different where their texts are."""
    items = schema.get("items_schema", {"type": "any"})
    if items["type"] == "any":
        found["items"] = {"type": ["null", "boolean", "number", "string"]}
        why = "a set has none"
        found = differing(found, "items", "values that can be hashed", "no arrays and objects", why)
    elif why := unhashable(items):
        found = {**found, "maxItems": 0, **({"minItems": found["minItems"]} if "minItems" in found else {})}
        found = differing(found, "items", "items", "none", f"{why} cannot be an item of a set")
    return few(found, schema, "items_schema", "Items")


def unhashable(core: Any) -> str:
    """Return the name of what cannot be hashed in the values of a core schema, or nothing."""
    kind = core["type"]
    if kind in ("list", "set", "dict", "deque", "typed-dict", "generator", "counter", "ordered-dict"):
        return str(kind)
    if kind in ("model", "dataclass"):
        return core["cls"].__qualname__ if core["cls"].__hash__ is None else ""
    inner = [core[key] for key in ("schema", "lax_schema", "json_schema") if isinstance(core.get(key), dict)]
    inner += core.get("items_schema", []) if kind == "tuple" else []
    return next(filter(None, map(unhashable, inner)), "")


def few(found: Schema, schema: Any, key: str, what: str) -> Schema:
    """Return the schema of a collection; marked where two of its texts may be one value, and several values are asked for."""
    core = schema.get(key, {"type": "any"})
    is_said = core["type"] in COPIED and not any(map(core.get, ("strip_whitespace", "to_lower", "to_upper")))
    if found.get(f"min{what}", 0) < 2 or is_said:
        return found
    return validated(found, "the comparison of equal values that are written differently")
