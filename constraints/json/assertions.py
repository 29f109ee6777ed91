"""Keywords about the value itself: type, equality to listed values, size, pattern, format."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ...errors import UnsupportedConstraint
from .closed_objects import CLOSING
from .combinators import meet_all
from .counted_patterns import pattern_shapes, readable, with_length, words_of
from .document import Subschema
from .exact import EXACT
from .formats import KNOWN, MOST_CHARACTERS
from .shapes import ANY, NEVER, Arrays, Bound, Numbers, Objects, Others, Strings
from .values import EVERYTHING, NOTHING, Value, join, only

if TYPE_CHECKING:
    from .keywords import Evaluator

TYPES = {
    "null": NOTHING._replace(null=True),
    "boolean": NOTHING._replace(boolean=EVERYTHING.boolean),
    "number": NOTHING._replace(number=EVERYTHING.number),
    "integer": NOTHING._replace(number=(Numbers(integer=True),)),
    "string": NOTHING._replace(string=EVERYTHING.string),
    "array": NOTHING._replace(array=EVERYTHING.array),
    "object": NOTHING._replace(object=EVERYTHING.object),
}
WITH_TUPLES = TYPES | {kind: NOTHING._replace(array=(Arrays(kind=kind),)) for kind in ("list", "tuple")}
WITH_TUPLES["array"] = WITH_TUPLES.pop("list")
"""The types of a syntax with tuples, where an array is a list."""
SHAPES: dict[str, tuple[str, Any]] = {
    "Length": ("string", Strings),
    "Items": ("array", Arrays),
    "Properties": ("object", Objects),
}
"""By suffix of ``min…`` and ``max…``: the type that is counted, and its shapes."""


def types(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``type``."""
    named = node.schema["type"]
    named = [named] if isinstance(named, str) else named
    known = WITH_TUPLES if k.tuples else TYPES
    if unknown := [name for name in named if name not in known]:
        raise UnsupportedConstraint(
            f"there is no type {unknown[0]!r}; there are {', '.join(known)}", path=f"{node.path}/type"
        )
    if sign:
        return known[named[0]] if len(named) == 1 else join(*(known[name] for name in named))
    others = {name: values for name, values in known.items() if name not in named}
    if "number" in named:
        others.pop("integer", None)
    elif "integer" in named:
        others["number"] = NOTHING._replace(number=(Numbers(integer=False),))
    return join(*others.values())


def constants(k: Evaluator, node: Subschema, sign: bool, tracked: int, key: str) -> Value:
    """Return the values that ``enum`` or ``const`` allows; with ``sign`` false, those that it excludes."""
    values = node.schema[key] if key == "enum" else [node.schema[key]]
    numbers = frozenset(
        Decimal(repr(v)) for v in values if isinstance(v, int | float) and not isinstance(v, bool)
    )
    strings = frozenset(v for v in values if isinstance(v, str))
    booleans = frozenset(v for v in values if isinstance(v, bool))
    structures = [composite(k, node, v, sign, tracked) for v in values if isinstance(v, list | dict)]
    if not sign:
        return meet_all(
            k,
            [
                EVERYTHING._replace(
                    null=None not in values,
                    boolean=EVERYTHING.boolean - booleans,
                    number=(Numbers(but=numbers),),
                    string=(Strings(but=strings),),
                ),
                *structures,
            ],
        )
    scalars = Value(
        None in values,
        booleans,
        (Numbers(among=numbers),) if numbers else (),
        (Strings(among=strings),) if strings else (),
    )
    return join(scalars, *structures)


def composite(
    k: Evaluator, node: Subschema, value: list[Any] | dict[str, Any], sign: bool, tracked: int
) -> Value:
    """Return the value that is this array or object, or without ``sign`` all other values."""
    if isinstance(value, list):
        size, kind = len(value), "list" if k.tuples else None
        needs = [k.need({"enum": [v]}, node, "const", sign) for v in value]
        if sign:
            return only("array", [Arrays(tuple(needs), least=size, most=size, kind=kind)], False)
        differ = [Arrays((*[ANY] * i, need), least=size, most=size) for i, need in enumerate(needs)]
        shorter = [Arrays(most=size - 1)] if size else []
        tuples = [Arrays(kind="tuple")] if k.tuples else []
        return EVERYTHING._replace(array=(Arrays(least=size + 1), *shorter, *differ, *tuples))
    members = tuple((name, k.need({"enum": [v]}, node, "const", sign)) for name, v in value.items())
    others = Others(frozenset(value))
    if sign:
        seen = None if tracked == CLOSING else Others()
        shape = Objects(members, tuple(value), others=((others, NEVER),), seen=seen)
        return only("object", [shape], False)
    lacks = [Objects(((name, NEVER),)) for name in value]
    differs = [Objects(((name, need),), (name,)) for name, need in members]
    return EVERYTHING._replace(object=(*lacks, *differs, Objects(some=((others, ANY, ANY),))))


def numeric_bound(k: Evaluator, node: Subschema, sign: bool, tracked: int, key: str) -> Value:
    """Apply ``minimum``, ``maximum``, ``exclusiveMinimum`` or ``exclusiveMaximum``.
    A boolean one, of draft 4, is read with the bound that it modifies."""
    value = node.schema[key]
    if isinstance(value, bool):
        return EVERYTHING if sign else NOTHING
    strict = key.startswith("exclusive")
    is_low = key.lower().endswith("minimum")
    if not strict and node.schema.get("exclusiveMinimum" if is_low else "exclusiveMaximum") is True:
        strict = k.document.knows(4, 4)
    bound = Bound(Decimal(repr(value)), strict == sign)
    return only("number", [Numbers(low=bound) if is_low == sign else Numbers(high=bound)], sign)


def multiple_of(k: Evaluator, node: Subschema, sign: bool, tracked: int) -> Value:
    """Apply ``multipleOf``."""
    step = Decimal(repr(node.schema["multipleOf"])).normalize(EXACT)
    return only("number", [Numbers(multiples=frozenset([(step, sign)]))], sign)


def length(k: Evaluator, node: Subschema, sign: bool, tracked: int, key: str) -> Value:
    """Apply a bound on the number of characters, items or members."""
    count = int(node.schema[key])
    kind, shape = SHAPES[key[3:]]
    if key.startswith("min") == sign:
        least = count if sign else count + 1
        return only(kind, [shape(least=least)], sign)
    most = count if sign else count - 1
    return only(kind, [shape(most=most)] if most >= 0 else [], sign)


def atom(k: Evaluator, node: Subschema, sign: bool, tracked: int, key: str) -> Value:
    """Apply ``pattern`` or ``format``."""
    which = node.schema[key]
    if key == "format" and not (k.asserts_format and which in KNOWN):
        if k.document.strict and k.asserts_format:
            raise UnsupportedConstraint(f"the format {which!r} is not known", path=f"{node.path}/format")
        return EVERYTHING if sign else NOTHING
    if key == "format":
        return only("string", with_length(key, which, 0, MOST_CHARACTERS.get(which), sign), sign)
    if (words := words_of(which)) is not None:
        return only("string", [Strings(among=words) if sign else Strings(but=words)], sign)
    shapes = pattern_shapes(which, sign)
    readable(shapes, f"{node.path}/pattern")
    return only("string", shapes, sign)
