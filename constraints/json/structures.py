"""Rules of the keywords of arrays and objects: the values that satisfy, or violate, them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import UnsupportedConstraint
from ..automata.work import spend
from .closed_objects import APART, CLOSING
from .counted_patterns import pattern_shapes, readable, words_of
from .document import Subschema
from .shapes import ANY, NEVER, Arrays, Contains, Need, Objects, Others
from .values import EVERYTHING, NOTHING, Value, limited, only
from .vocabulary import pointer, tag_name

if TYPE_CHECKING:
    from .keywords import Evaluator

FULL = float("inf")
"""The number of evaluated items if all are."""

# ---------------------------------------------------------------- arrays


def items(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``prefixItems``, ``items`` and ``additionalItems``, in the spelling of any draft."""
    schema = node.schema
    first, rest = ("prefixItems", "items") if k.document.knows(2020) else ("", "items")
    if isinstance(schema.get("items"), list):
        first, rest = "items", "additionalItems"
    prefix = schema.get(first, []) if first else []
    more = schema.get(rest, True)
    if sign:
        needs = tuple(k.need(inner, node, f"{first}/{i}") for i, inner in enumerate(prefix))
        seen = FULL if rest in schema else len(needs)
        shape = Arrays((), ANY).meet(Arrays(needs, k.need(more, node, rest), seen=seen if tracked else 0))
        return only("array", [shape] if shape else [], True)
    shapes = []
    for i, inner in enumerate(prefix):
        if (need := k.need(inner, node, f"{first}/{i}", False)) != NEVER:
            shapes.append(Arrays((*[ANY] * i, need), least=i + 1))
    if (need := k.need(more, node, rest, False)) == ANY:
        shapes.append(Arrays(least=len(prefix) + 1))
    elif need != NEVER:
        shapes.append(Arrays(contains=(Contains(need, 1, None, len(prefix)),)))
    return only("array", shapes, False)


def contains(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``contains`` with ``minContains`` and ``maxContains``."""
    schema, knows = node.schema, k.document.knows(2019)
    if "contains" not in schema:
        return EVERYTHING if sign else NOTHING
    least = int(schema.get("minContains", 1)) if knows else 1
    most = int(schema["maxContains"]) if knows and "maxContains" in schema else None
    need = k.need(schema["contains"], node, "contains")
    ranges = [(least, most)]
    if not sign:
        ranges = ([(0, least - 1)] if least else []) + ([(most + 1, None)] if most is not None else [])
    kinds = (need,) if tracked and k.document.knows(2020) else ()
    shapes = [
        Arrays(contains=(Contains(need, low, high),) if (low, high) != (0, None) else (), seen_kinds=kinds)
        for low, high in ranges
        if high is None or low <= high
    ]
    return only("array", shapes, sign)


def unique(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``uniqueItems``."""
    if node.schema["uniqueItems"] is False:
        return EVERYTHING if sign else NOTHING
    return only("array", [Arrays(unique=sign)], sign)


# ---------------------------------------------------------------- objects


def objects(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``properties``, ``patternProperties`` and ``additionalProperties``."""
    schema = node.schema
    (members, patterns), extra = declared(schema), schema.get("additionalProperties", True)
    others = Others(frozenset(name for name, _, _ in members), frozenset(patterns))
    spend(10 * len(members))
    for pattern in patterns:
        readable(pattern_shapes(pattern, sign), f"{node.path}/patternProperties/{pointer(pattern)}")
    if sign:
        need = k.need(extra, node, "additionalProperties")
        seen = (None if "additionalProperties" in schema else others) if tracked else Others()
        shape = Objects(
            tuple([(name, k.need(inner, node, place)) for name, inner, place in members]),
            patterns=tuple(
                [(p, k.need(s, node, f"patternProperties/{pointer(p)}")) for p, s in patterns.items()]
            ),
            others=((others, need),) if need else (),
            seen=seen,
            declares=tracked == CLOSING,
        )
        return only("object", [shape], True)
    shapes, before = list[Objects](), tuple[tuple[str, Need], ...]()
    for name, inner, place in members:
        fails, holds = (k.need(inner, node, place, s) for s in (False, True))
        if fails != NEVER:
            shapes.append(Objects((*before, (name, fails)), (name,)))
            before += ((name, holds),) if tracked == APART else ()
    for pattern, inner in patterns.items():
        if (need := k.need(inner, node, f"patternProperties/{pointer(pattern)}", False)) != NEVER:
            naming = k.need({"pattern": pattern}, node, f"patternProperties/{pointer(pattern)}")
            shapes.append(Objects(some=((Others(), naming, need),)))
    if (need := k.need(extra, node, "additionalProperties", False)) != NEVER:
        shapes.append(Objects(some=((others, ANY, need),)))
    return only("object", shapes, False)


def declared(schema: Mapping[str, Any]) -> tuple[list[tuple[str, Any, str]], dict[str, Any]]:
    """Return the members that have a schema, each with it and its place, and the schemas of patterns.
    A pattern that lists names (``^a$``) declares these."""
    members = [(name, s, f"properties/{pointer(name)}") for name, s in schema.get("properties", {}).items()]
    patterns = dict(schema.get("patternProperties", {}))
    for pattern, names in [(each, words_of(each)) for each in patterns]:
        if names is not None and names.isdisjoint(name for name, _, _ in members):
            place = f"patternProperties/{pointer(pattern)}"
            members += [(name, patterns[pattern], place) for name in sorted(names)]
            del patterns[pattern]
    return members, patterns


def required(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``required``."""
    names = tuple(dict.fromkeys(node.schema["required"]))
    if not sign and tracked == APART:
        lacking = [Objects(((name, NEVER),), names[:i]) for i, name in enumerate(names)]
        return only("object", lacking, False)
    return present(names, sign)


def discriminator(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``discriminator`` of OpenAPI, which requires the member that it names."""
    return present([tag_name(node.schema["discriminator"])], sign)


def present(names: Sequence[str], sign: bool) -> Value:
    """Return the objects that have all of the members, or without ``sign`` those that lack one."""
    if sign:
        return only("object", [Objects(required=tuple(dict.fromkeys(names)))], True)
    return only("object", [Objects(((name, NEVER),)) for name in names], False)


def naming(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``propertyNames``."""
    need = k.need(node.schema["propertyNames"], node, "propertyNames", sign)
    if sign:
        return only("object", [Objects(naming=need)], True)
    return only("object", [Objects(some=((Others(), need, ANY),))] if need != NEVER else [], False)


def unevaluated(k: Evaluator, node: Subschema, key: str, found: Value, tracked: int) -> Value:
    """Apply ``unevaluatedProperties`` or ``unevaluatedItems`` to the values of the other keywords.
    Members or items that those have not evaluated must satisfy its schema."""
    need = k.need(node.schema[key], node, key)
    done: list[Any] = []
    if key == "unevaluatedProperties":
        for o in found.object:
            shape = o.meet(Objects(others=((o.seen, need),))) if o.seen is not None and need else o
            done += [replace(shape, seen=None if tracked else Others())] if shape else []
        return found._replace(object=limited(tuple(dict.fromkeys(done))))
    for a in found.array:
        left: Arrays | None = a
        if need and a.seen != FULL:
            if (kinds := a.seen_kinds) and (need != NEVER or len(kinds) > 1 or len(kinds[0]) > 1):
                raise UnsupportedConstraint("unevaluatedItems beside contains", path=f"{node.path}/{key}")
            left = a.meet(Arrays((ANY,) * int(a.seen), kinds[0] if kinds else need))
        done += [replace(left, seen=FULL if tracked else 0, seen_kinds=())] if left else []
    return found._replace(array=limited(tuple(dict.fromkeys(done))))


def violating(k: Evaluator, node: Subschema, key: str, found: Value) -> Value:
    """Return the values of the other keywords that violate ``unevaluatedProperties`` or ``unevaluatedItems``.

    A value may have several shapes if they have evaluated the same. Raises ``UnsupportedConstraint`` where they have not.
    """
    need = k.need(node.schema[key], node, key, False)
    shapes: tuple[Any, ...] = found.object if key == "unevaluatedProperties" else found.array
    for one, other in itertools.combinations(shapes, 2):
        spend(20)
        if one.evaluated != other.evaluated and (both := one.meet(other)) and not k.empty(both):
            raise UnsupportedConstraint(
                "what violates several schemas that one object satisfies, and that declare different members (or items), is not "
                "read: give each a required member with a constant of its own, or anyOf in place of oneOf",
                path=node.path,
            )
    if need == NEVER:
        return NOTHING
    if key == "unevaluatedProperties":
        some = (o.meet(Objects(some=((o.seen, ANY, need),))) for o in found.object if o.seen is not None)
        return NOTHING._replace(object=tuple(replace(o, seen=Others()) for o in some if o))
    if any(a.seen_kinds for a in found.array):
        raise UnsupportedConstraint("unevaluatedItems beside contains", path=f"{node.path}/{key}")
    open_ones = [(a, Contains(need, 1, None, int(a.seen))) for a in found.array if a.seen != FULL]
    rest = (a.meet(Arrays(contains=(unseen,))) for a, unseen in open_ones)
    return NOTHING._replace(array=tuple(replace(a, seen=0) for a in rest if a))
