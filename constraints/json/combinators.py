"""Keywords that combine schemas at one place: references, ``allOf``, ``oneOf``, ``if``, ….

Each rule returns the values that satisfy its keywords, or without ``sign`` those that violate them. ``tracked`` is that of
:meth:`.Keywords.value`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .document import Node
from .shapes import Objects
from .structures import present
from .values import EVERYTHING, FEW, NOTHING, Value, join, limited, meet, only, widest
from .vocabulary import pointer

if TYPE_CHECKING:
    from .keywords import Keywords


def reference(k: Keywords, node: Node, sign: bool, tracked: int, key: str) -> Value:
    """Apply ``$ref``, ``$dynamicRef`` or ``$recursiveRef``."""
    schema, resource, path = k.document.resolve(node, key)
    if isinstance(schema, bool):
        return EVERYTHING if schema == sign else NOTHING
    return k.value(k.document.node(schema, resource, path), sign, tracked)


def all_of(k: Keywords, node: Node, sign: bool, tracked: int) -> Value:
    """Apply ``allOf``."""
    subs = node.schema["allOf"]
    if sign and (must := node.schema.get("required")):
        subs = [requiring(schema, must) for schema in subs]
    parts = [k.below(s, node, f"allOf/{i}", sign, tracked) for i, s in enumerate(subs)]
    return meet_all(k, parts) if sign else join(*parts)


def requiring(schema: Any, names: list[str]) -> Any:
    """Return a schema with ``oneOf`` that also requires these names.
    They tell its alternatives apart. Other schemas are returned unchanged."""
    if not isinstance(schema, dict) or "oneOf" not in schema or "$ref" in schema:
        return schema
    return schema | {"required": list(dict.fromkeys([*names, *schema.get("required", ())]))}


def any_of(k: Keywords, node: Node, sign: bool, tracked: int) -> Value:
    """Apply ``anyOf``. If ``tracked``, add each combination of alternatives that evaluates more."""
    subs = list(enumerate(node.schema["anyOf"]))
    parts = [k.below(s, node, f"anyOf/{i}", sign, tracked) for i, s in subs]
    if not sign:
        return meet_all(k, parts)
    if not tracked:
        return join(*parts)
    found: list[Value] = []
    for part in parts:
        found += [part, *(both for other in found if (both := more_seen(k, other, part)) != NOTHING)]
        limited(tuple(found))
    return join(*found, absorb=False)


def more_seen(k: Keywords, a: Value, b: Value) -> Value:
    """Return the arrays and objects in both values that evaluate more than in either alone."""

    def met(some: Iterable[Any], others: Sequence[Any]) -> tuple[Any, ...]:
        pairs = ((x, y, x.meet(y)) for x in some for y in others)
        kept = [
            m for x, y, m in pairs if m and m.evaluated not in (x.evaluated, y.evaluated) and not k.empty(m)
        ]
        return tuple(dict.fromkeys(kept))

    return NOTHING._replace(array=met(a.array, b.array), object=met(a.object, b.object))


def one_of(k: Keywords, node: Node, sign: bool, tracked: int) -> Value:
    """Apply ``oneOf``: each alternative without the values of the others."""
    subs = list(enumerate(node.schema["oneOf"]))
    parts = [k.below(s, node, f"oneOf/{i}", True, tracked) for i, s in subs]
    if sign:
        found = []
        # Required members tell alternatives apart that only constrain them if present: {"properties": {"kind": ...}}.
        must = present(node.schema.get("required", ()), True)
        parts = [meet(must, part) for part in parts]
        for i, part in enumerate(parts):
            for j, schema in subs:
                if i != j:
                    part = without(k, part, parts[j], schema, node, f"oneOf/{j}")
            found.append(part)
        return join(*found, absorb=not tracked)
    twice = [k.possible(meet(a, b)) for a, b in itertools.combinations(parts, 2)]
    return join(meet_all(k, [k.below(s, node, f"oneOf/{i}", False) for i, s in subs]), *twice)


def without(k: Keywords, value: Value, other: Value, schema: Any, node: Node, step: str) -> Value:
    """Return the values that are not in ``other``, the values of ``schema``.
    Shapes that have no value in common with ``other`` stay as they are."""
    result = []
    for field, shapes in enumerate(value.shapes):
        kept: list[Any] = []
        for shape in shapes:
            if not any((m := shape.meet(o)) is not None and not k.empty(m) for o in other.shapes[field]):
                kept.append(shape)
                continue
            for negated in k.below(schema, node, step, False).shapes[field]:
                if (m := shape.meet(negated)) is not None and not k.empty(m):
                    kept.append(m)
        result.append(limited(widest(tuple(dict.fromkeys(kept)))))
    return Value(value.null and not other.null, value.boolean - other.boolean, *result)


def negation(k: Keywords, node: Node, sign: bool, tracked: int) -> Value:
    """Apply ``not``."""
    return k.below(node.schema["not"], node, "not", not sign)


def condition(k: Keywords, node: Node, sign: bool, tracked: int) -> Value:
    """Apply ``if`` with ``then`` and ``else``."""
    schema = node.schema
    if not {"then", "else"} & schema.keys() and not (tracked and sign):
        return EVERYTHING if sign else NOTHING
    holds, fails = (k.below(schema["if"], node, "if", s, tracked if s else 0) for s in (True, False))
    then, other = (k.below(schema.get(key, True), node, key, sign, tracked) for key in ("then", "else"))
    return join(k.possible(meet(holds, then)), k.possible(meet(fails, other)), absorb=not tracked)


def dependent(k: Keywords, node: Node, sign: bool, tracked: int, key: str) -> Value:
    """Apply ``dependentRequired``, ``dependentSchemas``, or ``dependencies``."""
    parts = []
    for name, inner in node.schema[key].items():
        absent, there = present([name], False), only("object", [Objects(required=(name,))], False)
        if isinstance(inner, str | list):
            holds = present([inner] if isinstance(inner, str) else inner, sign)
        else:
            holds = k.below(inner, node, f"{key}/{pointer(name)}", sign, tracked)
        holds = meet(there, holds)
        others = EVERYTHING._replace(object=())
        parts.append(join(others, absent, holds, absorb=not tracked) if sign else holds)
    return meet_all(k, parts) if sign else join(*parts)


def meet_all(k: Keywords, parts: Iterable[Value]) -> Value:
    """Return the values in all parts.
    Where there are many shapes, empty ones are dropped on the way."""
    found = EVERYTHING
    for part in parts:
        found = meet(found, part)
        if max(map(len, found.shapes)) > FEW:
            found = k.possible(found)
    return found
