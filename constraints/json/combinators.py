"""Keywords that combine schemas at one place: references, ``anyOf``, ``oneOf``, ``not``, ….

Each rule returns the values that satisfy its keywords, or without ``sign`` those that violate them. ``tracked`` is that of
:meth:`.Evaluator.value`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .closed_objects import APART
from .document import Subschema
from .shapes import Objects
from .structures import present
from .tagged import in_common, objects_in_common, required_members, tags_of_items
from .values import EVERYTHING, FEW, NOTHING, Value, join, limited, meet, only, widest
from .vocabulary import pointer

if TYPE_CHECKING:
    from .keywords import Evaluator

MANY = 64
"""Shapes of one type beyond which what a list of schemas leaves is found again without shapes that have values in common."""


def reference(k: Evaluator, node: Subschema, sign: bool, tracked: int, key: str) -> Value:
    """Apply ``$ref``, ``$dynamicRef`` or ``$recursiveRef``."""
    schema, resource, path = k.document.resolve(node, key)
    if isinstance(schema, bool):
        return EVERYTHING if schema == sign else NOTHING
    return k.value(k.document.node(schema, resource, path), sign, tracked)


def disjoint(fails: Iterable[Value], holds: Iterable[Value]) -> Value:
    """Return the union of the values that fail a condition, each time without those that fail one before it.
    ``holds``: the values that satisfy each."""
    found, before = list[Value](), EVERYTHING
    for failing, holding in zip(fails, holds, strict=True):
        found.append(meet(before, failing))
        before = meet(before, holding)
    return join(*found)


def any_of(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``anyOf``. If ``tracked``, add each combination of alternatives that evaluates more."""
    if not sign:
        return outside(k, node, "anyOf", EVERYTHING)
    parts = [k.below(s, node, f"anyOf/{i}", sign, tracked) for i, s in enumerate(node.schema["anyOf"])]
    if not tracked:
        return join(*parts)
    near = list(map(set, objects_in_common(k, parts, required_members(node.schema))))
    found = list[tuple[Value, set[int]]]()  # with the alternatives that may share objects with all combined
    for i, part in enumerate(parts):
        more = [(more_seen(k, other, part, i in among), among & near[i]) for other, among in found]
        found += [(part, near[i]), *(each for each in more if each[0] != NOTHING)]
        limited(tuple(found))
    return join(*(value for value, _ in found), absorb=False)


def more_seen(k: Evaluator, a: Value, b: Value, objects: bool) -> Value:
    """Return the arrays, and ``objects`` if there are any, in both values that evaluate more than in either alone."""

    def met(some: Iterable[Any], others: Sequence[Any]) -> tuple[Any, ...]:
        pairs = ((x, y, x.meet(y)) for x in some for y in others)
        kept = [
            m for x, y, m in pairs if m and m.evaluated not in (x.evaluated, y.evaluated) and not k.empty(m)
        ]
        return tuple(dict.fromkeys(kept))

    return NOTHING._replace(array=met(a.array, b.array), object=met(a.object, b.object) if objects else ())


def one_of(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``oneOf``: each alternative without the values of the others."""
    parts = [k.below(s, node, f"oneOf/{i}", True, tracked) for i, s in enumerate(node.schema["oneOf"])]
    if sign:
        # Required members tell alternatives apart that only constrain them if present: {"properties": {"kind": ...}}.
        must = required_members(node.schema)
        near = objects_in_common(k, parts, must)
        near_arrays = in_common([[tags_of_items(k, shape) for shape in part.array] for part in parts])
        alone = list[Value]()
        for i, part in enumerate(parts):
            value = meet(present(must, True), part)
            objects, arrays = NOTHING._replace(object=value.object), NOTHING._replace(array=value.array)
            others = [j for j in range(len(parts)) if j != i]
            alone += [
                outside(k, node, "oneOf", objects, near[i]),
                outside(k, node, "oneOf", arrays, near_arrays[i]),
                outside(k, node, "oneOf", value._replace(object=(), array=()), others),
            ]
        return join(*alone, absorb=not tracked)
    twice = [k.possible(meet(a, b)) for a, b in itertools.combinations(parts, 2)]
    return join(outside(k, node, "oneOf", EVERYTHING), *twice)


def outside(
    k: Evaluator, node: Subschema, key: str, value: Value, among: Iterable[int] | None = None, form: int = 0
) -> Value:
    """Return the values that no schema of a list allows, or none of some of them, which are given by index.
    Beyond :data:`MANY` shapes the form is ``APART``."""
    schemas, found = node.schema[key], value
    for i in range(len(schemas)) if among is None else among:
        if found == NOTHING:
            return found
        found = excluded(k, found, schemas[i], node, f"{key}/{i}", form)
        if form != APART and max(map(len, found.shapes)) > MANY:
            return outside(k, node, key, value, among, APART)
    return found


def excluded(k: Evaluator, value: Value, schema: Any, node: Subschema, step: str, form: int) -> Value:
    """Return the values that a schema does not allow. Shapes that have no value in common with it stay as they are.
    ``form``: 0, or ``APART`` of ``closed_objects.py``."""
    other, result = k.below(schema, node, step, True), []
    for field, shapes in enumerate(value.shapes):
        kept: list[Any] = []
        for shape in shapes:
            if any(shape.within(o) for o in other.shapes[field]):
                continue
            if not any((m := shape.meet(o)) is not None and not k.empty(m) for o in other.shapes[field]):
                kept.append(shape)
                continue
            for negated in k.below(schema, node, step, False, form).shapes[field]:
                if (m := shape.meet(negated)) is not None and not k.empty(m):
                    kept.append(m)
        result.append(limited(widest(tuple(dict.fromkeys(kept)))))
    return Value(value.null and not other.null, value.boolean - other.boolean, *result)


def negation(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``not``."""
    return k.below(node.schema["not"], node, "not", not sign)


def dependent(k: Evaluator, node: Subschema, sign: bool, tracked: int, key: str) -> Value:
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


def meet_all(k: Evaluator, parts: Iterable[Value]) -> Value:
    """Return the values in all parts.
    Where there are many shapes, empty ones are dropped on the way."""
    found = EVERYTHING
    for part in parts:
        found = meet(found, part)
        _, _, number, string, array, other = found
        if len(other) > FEW or len(array) > FEW or len(string) > FEW or len(number) > FEW:
            found = k.possible(found)
    return found
