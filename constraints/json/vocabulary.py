"""The keywords of JSON Schema: their drafts, the forms of their values, their subschemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EVER = 9999
"""The last draft of keywords that are still in use."""
KEYWORDS: dict[str, tuple[str, int, int]] = {
    "type": ("type", 4, EVER), "enum": ("list", 4, EVER), "const": ("any", 6, EVER),
    "allOf": ("schemas", 4, EVER), "anyOf": ("schemas", 4, EVER), "oneOf": ("schemas", 4, EVER),
    "not": ("schema", 4, EVER), "if": ("schema", 7, EVER), "then": ("schema", 7, EVER), "else": ("schema", 7, EVER),
    "$ref": ("string", 4, EVER), "$dynamicRef": ("string", 2020, EVER), "$recursiveRef": ("string", 2019, 2019),
    "properties": ("map", 4, EVER), "patternProperties": ("map", 4, EVER), "additionalProperties": ("schema", 4, EVER),
    "propertyNames": ("schema", 6, EVER), "required": ("strings", 4, EVER),
    "minProperties": ("count", 4, EVER), "maxProperties": ("count", 4, EVER),
    "dependentRequired": ("lists", 2019, EVER), "dependentSchemas": ("map", 2019, EVER),
    "dependencies": ("dependencies", 4, 7),
    "unevaluatedProperties": ("schema", 2019, EVER), "unevaluatedItems": ("schema", 2019, EVER),
    "items": ("items", 4, EVER), "prefixItems": ("schemas", 2020, EVER), "additionalItems": ("schema", 4, 2019),
    "contains": ("schema", 6, EVER), "minContains": ("count", 2019, EVER), "maxContains": ("count", 2019, EVER),
    "minItems": ("count", 4, EVER), "maxItems": ("count", 4, EVER), "uniqueItems": ("boolean", 4, EVER),
    "minLength": ("count", 4, EVER), "maxLength": ("count", 4, EVER), "pattern": ("string", 4, EVER),
    "format": ("string", 4, EVER),
    "minimum": ("number", 4, EVER), "maximum": ("number", 4, EVER), "multipleOf": ("positive", 4, EVER),
    "exclusiveMinimum": ("exclusive", 4, EVER), "exclusiveMaximum": ("exclusive", 4, EVER),
    "discriminator": ("discriminator", 4, EVER),
}  # fmt: skip
"""The keywords that assert something, and ``discriminator`` of OpenAPI: the form of their value, their first and last draft."""

ANNOTATIONS = {
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment", "$defs",
    "definitions", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
    "contentEncoding", "contentMediaType", "contentSchema",
}  # fmt: skip
"""Keywords that the specification defines and that assert nothing."""
SILENT = frozenset(
    ["title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"]
)
"""Those that nothing reads: schemas that differ only in them are equal."""
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

APPLIED = {"$defs": "map", "definitions": "map"} | {
    key: form
    for key, (form, _, _) in KEYWORDS.items()
    if form in ("map", "dependencies", "schemas", "items", "schema")
}
"""By keyword that holds subschemas: the form of its value."""
HOLDING = frozenset(APPLIED)


def subschemas(schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the direct subschemas of a schema with their paths relative to it."""
    found: list[tuple[str, Any]] = []
    for key, value in () if HOLDING.isdisjoint(schema) else schema.items():
        if (form := APPLIED.get(key)) is None:
            continue
        if form in ("map", "dependencies") and isinstance(value, dict):
            found += [(f"{key}/{pointer(name)}", inner) for name, inner in value.items()]
        elif form in ("schemas", "items") and isinstance(value, list):
            found += [(f"{key}/{i}", inner) for i, inner in enumerate(value)]
        elif form in ("schema", "items"):
            found.append((key, value))
    return found


SCHEMAS = frozenset([dict, bool])
"""The types that a schema may have."""


def is_schema(value: Any) -> bool:
    """Return whether a value of JSON can be a schema: an object or a boolean."""
    return type(value) in SCHEMAS


def is_number(value: Any) -> bool:
    """Return whether a value is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def all_are(values: Any, test: Any) -> bool:
    """Return whether a value is a list whose members pass the test."""
    return isinstance(values, list) and all(map(test, values))


def tag_name(discriminator: Any) -> Any:
    """Return the name of the member that a ``discriminator`` of OpenAPI names; of version 2 it is the name itself."""
    return discriminator.get("propertyName") if isinstance(discriminator, dict) else discriminator


def is_string(value: Any) -> bool:
    """Return whether a value is a string."""
    return isinstance(value, str)


FORMS: dict[str, Any] = {
    "any": lambda v: True,
    "boolean": lambda v: isinstance(v, bool),
    "string": is_string,
    "list": lambda v: isinstance(v, list),
    "strings": lambda v: all_are(v, is_string),
    "type": lambda v: isinstance(v, str) or (all_are(v, is_string) and bool(v)),
    "number": is_number,
    "positive": lambda v: is_number(v) and v > 0,
    "count": lambda v: is_number(v) and v >= 0 and v == int(v),
    "schema": is_schema,
    "schemas": lambda v: isinstance(v, list) and SCHEMAS.issuperset(map(type, v)) and bool(v),
    "map": lambda v: isinstance(v, dict) and SCHEMAS.issuperset(map(type, v.values())),
    "lists": lambda v: isinstance(v, dict) and all(all_are(x, is_string) for x in v.values()),
    "discriminator": lambda v: isinstance(tag_name(v), str),
    "dependencies": lambda v: (
        isinstance(v, dict)
        and all(is_schema(x) or isinstance(x, str) or all_are(x, is_string) for x in v.values())
    ),
}
"""By name of a form, as in :data:`KEYWORDS`: whether a value has it."""


def pointer(name: str) -> str:
    """Return a name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1") if "/" in name or "~" in name else name
