"""Closed objects: no members beyond those that the schemas of an object declare.

An object is closed as ``unevaluatedProperties: false`` closes it: a member is declared by ``properties``,
``patternProperties`` or ``additionalProperties`` of any schema that applies to the object, also through ``$ref``, ``allOf``,
and those branches of ``anyOf``, ``oneOf`` and ``if`` that hold. An object of which no such schema declares any member (``{}``,
``{"type": "object"}``, ``propertyNames`` alone) stays open: it is a map, and closing it would leave ``{}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from .shapes import NEVER, Objects, Others
from .values import Value, limited
from .vocabulary import subschemas

TRACKED = 1
"""Values are worked out with what has been evaluated, for ``unevaluatedProperties`` and ``unevaluatedItems``."""
CLOSING = 2
"""As :data:`TRACKED`; for closed objects, shapes also say whether they declare members. Listed objects declare all of theirs."""
APART = 3
"""Values that violate a schema are worked out as shapes of which each satisfies the keywords, members and required names that
those before it violate, so that few have a value in common."""

IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas speak of the same object."""
PARTS = ("allOf", "not", "if", "then", "else", "dependentSchemas")
"""The keywords of :data:`IN_PLACE` whose schemas describe only a part of the object."""


def closed(value: Value) -> Value:
    """Return the values without the objects that have undeclared members.
    ``value`` must have been computed with ``CLOSING``."""
    found: dict[Objects, None] = {}
    for shape in value.object:
        undeclared = ((shape.seen, NEVER),) if shape.declares and shape.seen is not None else ()
        kept = replace(shape, declares=False, seen=Others()).meet(Objects(others=undeclared))
        if kept is not None:
            found[kept] = None
    return value._replace(object=limited(tuple(found)))


def close_schema(root: Any) -> Any:
    """Return a copy of a schema (2020-12) that itself says that its objects are closed.

    It says ``additionalProperties: false``, or where several schemas apply to an object ``unevaluatedProperties: false``, beside
    the outermost of them. Objects are closed that declare ``properties`` (not none) and do not say otherwise.
    """

    def declares(schema: Any, met: frozenset[str]) -> bool:
        """Return whether a schema, or one that applies to the same object, has ``properties``."""
        if not isinstance(schema, Mapping):
            return False
        if schema.get("properties"):
            return True
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in met and declares(pointed(root, ref), met | {ref}):
            return True
        inner = [inner for step, inner in subschemas(schema) if step.partition("/")[0] in IN_PLACE]
        return any(declares(each, met) for each in inner)

    def close(schema: Any, step: str) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        result = map_subschemas(schema, close)
        if step.partition("/")[0] in (*IN_PLACE, "$defs", "definitions"):  # closed where it is used
            return result
        if "$ref" in schema or any(key in schema for key in IN_PLACE):
            if not {"additionalProperties", "unevaluatedProperties"} & result.keys() and declares(
                schema, frozenset()
            ):
                result["unevaluatedProperties"] = False
        elif schema.get("properties") and "unevaluatedProperties" not in schema:
            result.setdefault("additionalProperties", False)
        return result

    return close(root, "")


def pointed(root: Any, ref: str) -> Any:
    """Return the target of a JSON pointer within a schema, or ``None``."""
    found = root
    for step in ref.split("/")[1:] if ref.startswith("#") else ("",):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def close_types(schema: Any) -> Any:
    """Return a copy of a schema in which objects with ``properties`` have no other members.

    They get ``additionalProperties: false``. Objects that say something else, or are only a part of another one, stay.
    Definitions and the alternatives of ``anyOf`` and ``oneOf`` are closed separately, as is right where each stands for one type.
    """

    def close(schema: Any, step: str) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        result = map_subschemas(
            schema, lambda inner, at: inner if at.partition("/")[0] in PARTS else close(inner, at)
        )
        if "properties" in result:
            result.setdefault("additionalProperties", False)
        return result

    return close(schema, "")


def map_subschemas(schema: Mapping[str, Any], rule: Callable[[Any, str], Any]) -> dict[str, Any]:
    """Return a copy of a schema, its direct subschemas replaced by ``rule(subschema, step)``, the step that leads there."""
    result = dict(schema)
    for step, inner in subschemas(schema):
        key, several, rest = step.partition("/")
        found = rule(inner, step)
        if not several:
            result[key] = found
        elif isinstance(result[key], list):
            result[key] = [*result[key][: int(rest)], found, *result[key][int(rest) + 1 :]]
        else:
            result[key] = {**result[key], rest.replace("~1", "/").replace("~0", "~"): found}
    return result
