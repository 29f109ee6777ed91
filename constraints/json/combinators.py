"""Keywords that combine schemas at one place: references, ``allOf``, ``oneOf``, ``if``, ….

Each rule returns the values that satisfy its keywords, or without ``sign`` those that violate them. ``tracked`` is that of
:meth:`.Keywords.value`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .closed_objects import APART
from .document import Node
from .shapes import Objects
from .structures import present
from .values import EVERYTHING, FEW, NOTHING, Value, join, limited, meet, only, widest
from .vocabulary import pointer

if TYPE_CHECKING:
    from .keywords import Keywords

MANY = 64
"""Shapes of one type beyond which what a list of schemas leaves is found again without shapes that have values in common."""


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
    if not sign and tracked == APART:
        return apart(parts, (k.below(s, node, f"allOf/{i}", True) for i, s in enumerate(subs)))
    return meet_all(k, parts) if sign else join(*parts)


def apart(fails: Iterable[Value], holds: Iterable[Value]) -> Value:
    """Return the union of the values that fail a condition, each time without those that fail one before it.
    ``holds``: the values that satisfy each."""
    found, before = list[Value](), EVERYTHING
    for failing, holding in zip(fails, holds, strict=True):
        found.append(meet(before, failing))
        before = meet(before, holding)
    return join(*found)


def requiring(schema: Any, names: list[str]) -> Any:
    """Return a schema with ``oneOf`` that also requires these names.
    They tell its alternatives apart. Other schemas are returned unchanged."""
    if not isinstance(schema, dict) or "oneOf" not in schema or "$ref" in schema:
        return schema
    return schema | {"required": list(dict.fromkeys([*names, *schema.get("required", ())]))}


def any_of(k: Keywords, node: Node, sign: bool, tracked: int) -> Value:
    """Apply ``anyOf``. If ``tracked``, add each combination of alternatives that evaluates more."""
    if not sign:
        return outside(k, node, "anyOf", EVERYTHING)
    parts = [k.below(s, node, f"anyOf/{i}", sign, tracked) for i, s in enumerate(node.schema["anyOf"])]
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
    parts = [k.below(s, node, f"oneOf/{i}", True, tracked) for i, s in enumerate(node.schema["oneOf"])]
    if sign:
        # Required members tell alternatives apart that only constrain them if present: {"properties": {"kind": ...}}.
        must = present(node.schema.get("required", ()), True)
        alone = [outside(k, node, "oneOf", meet(must, part), i) for i, part in enumerate(parts)]
        return join(*alone, absorb=not tracked)
    twice = [k.possible(meet(a, b)) for a, b in itertools.combinations(parts, 2)]
    return join(outside(k, node, "oneOf", EVERYTHING), *twice)


def outside(k: Keywords, node: Node, key: str, value: Value, but: int = -1, form: int = 0) -> Value:
    """Return the values that no schema of a list allows, or none but one. Beyond :data:`MANY` shapes the form is ``APART``."""
    found = value
    for i, schema in enumerate(node.schema[key]):
        if i != but:
            found = without(k, found, schema, node, f"{key}/{i}", form)
            if form != APART and max(map(len, found.shapes)) > MANY:
                return outside(k, node, key, value, but, APART)
    return found


def without(k: Keywords, value: Value, schema: Any, node: Node, step: str, form: int) -> Value:
    """Return the values that a schema does not allow. Shapes that have no value in common with it stay as they are.
    ``form``: 0, or ``APART`` of ``closed_objects.py``."""
    other, result = k.below(schema, node, step, True), []
    for field, shapes in enumerate(value.shapes):
        kept: list[Any] = []
        for shape in shapes:
            if not any((m := shape.meet(o)) is not None and not k.empty(m) for o in other.shapes[field]):
                kept.append(shape)
                continue
            for negated in k.below(schema, node, step, False, form).shapes[field]:
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
