"""Objects that satisfy several schemas at once, as one schema: ``allOf`` in Python syntax.

Each schema alone would write the members in its own order, and few texts are in the order of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KEYWORDS = frozenset(["type", "properties", "required", "additionalProperties"])


def one_object(schemas: Sequence[Any], typed: bool) -> dict[str, Any] | None:
    """The schema of the objects that satisfy all of ``schemas``, members in the order in which they are first declared.

    ``typed``: whether their values are known to be objects, without any of them saying so. ``None`` where they say more
    than which members there are. As the objects of tools, they are closed where members are declared and no schema says
    ``additionalProperties``.
    """
    if not all(
        isinstance(s, Mapping) and s.keys() <= KEYWORDS and s.get("type", "object") == "object"
        for s in schemas
    ):
        return None
    if not typed and not any("type" in s for s in schemas):
        return None
    names = dict.fromkeys(name for s in schemas for name in s.get("properties", {}))
    said = any("additionalProperties" in s for s in schemas)
    rest = [s.get("additionalProperties", True) for s in schemas]
    return {
        "type": "object",
        "properties": {
            name: all_of([s.get("properties", {}).get(name, r) for s, r in zip(schemas, rest, strict=True)])
            for name in names
        },
        "required": [*dict.fromkeys(name for s in schemas for name in s.get("required", []))],
        "additionalProperties": all_of(rest) if said or not names else False,
    }


def all_of(schemas: Sequence[Any]) -> Any:
    """The schema of the values that satisfy all of them."""
    if any(schema is False for schema in schemas):
        return False
    said = [schema for schema in schemas if schema not in (True, {})]
    return {"allOf": said} if len(said) > 1 else said[0] if said else True
