"""JSON Schema (draft 2020-12) as automata over JSON text (``json_text.py``).

    L(schema) = (∪ over types: texts of that type that its keywords allow) ∩ L(allOf_i) ∩ (∪ L(anyOf_i)) ∩ …

Combinators are real operations on automata. For that to be right every schema of one place in the value must write an
object's members in the same order: the names that any of them mentions, in order of appearance, then all others.
What is not supported is refused by name and path, never passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from ..errors import FormatError, UnsupportedConstraint
from . import json_text
from .constraint import Constraint
from .dfa import difference, intersect, simplify
from .json_numbers import Bound, number
from .json_text import STYLES, quoted, spelled
from .nfa import Nfa, check_limit, empty, literal, repeat, union
from .regex import compile_pattern
from .utf8 import EVERY

KEYWORDS: dict[str, tuple[type, ...]] = {
    "type": (str, list), "enum": (list,), "const": (object,),
    "allOf": (list,), "anyOf": (list,), "oneOf": (list,), "$ref": (str,),
    "properties": (dict,), "required": (list,), "additionalProperties": (dict, bool),
    "items": (dict, bool), "prefixItems": (list,), "minItems": (int,), "maxItems": (int,),
    "minLength": (int,), "maxLength": (int,), "pattern": (str,),
    "minimum": (int, float), "maximum": (int, float),
    "exclusiveMinimum": (int, float), "exclusiveMaximum": (int, float),
}  # fmt: skip
"""The keywords that assert something, and the Python types of their values."""
COMBINATORS = ("allOf", "anyOf", "oneOf", "$ref")
CHOICES = ("const", "enum", *COMBINATORS)
IGNORED = (
    "$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated",
    "readOnly", "writeOnly",
)  # fmt: skip
"""Keywords that assert nothing by the specification; ``$id`` likewise at the root."""
TYPES = {name: frozenset([name]) for name in ("null", "boolean", "object", "array", "integer", "string")}
TYPES["number"] = frozenset(["integer", "fraction"])
EVERY_TYPE: frozenset[str] = frozenset().union(*TYPES.values())

Schema = dict[str, Any] | bool


def json_schema(
    schema: Any,
    *,
    whitespace: Literal["none", "space", "flexible"] = "space",
    open_objects: bool = True,
    max_depth: int = 3,
) -> Constraint:
    """The JSON texts whose values the schema allows.

    ``schema`` is a dict (or a boolean), JSON text, the path of a file, or a Pydantic model class. ``whitespace`` is
    "space" (exactly as ``json.dumps`` separates: ``", "`` and ``": "``), "none" (``","`` and ``":"``) or "flexible" (any
    JSON white space). ``open_objects=False`` reads objects that do not say ``additionalProperties`` as if they said
    ``false``. ``max_depth`` bounds what no regular language can: how often, on the way down, a ``$ref`` may lie within
    itself, and how deep arrays and objects nest in values without a schema.

    Members stand in the order in which the schema declares them, undeclared ones last. Raises ``UnsupportedConstraint``
    with the path of what is not supported, ``FormatError`` for what is not JSON, ``TooManyStates``.
    """
    if whitespace not in STYLES:
        raise UnsupportedConstraint(
            f"whitespace is one of {list(STYLES)}, not {whitespace!r}", path="whitespace"
        )
    root = read_schema(schema)
    return Constraint(Compiler(root, whitespace, open_objects, max_depth).value(root, ""))


def read_schema(schema: Any) -> Schema:
    """The schema as Python values, from any of the forms that a user may give."""
    if isinstance(schema, type):
        from pydantic import BaseModel

        if not issubclass(schema, BaseModel):
            raise FormatError(f"{schema.__name__} is not a Pydantic model")
        return schema.model_json_schema()
    try:
        if isinstance(schema, os.PathLike) or (isinstance(schema, str) and schema.endswith(".json")):
            schema = Path(schema).read_text(encoding="utf-8")
        schema = json.loads(schema if isinstance(schema, str) else json.dumps(schema))
        json.dumps(schema, allow_nan=False)
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the schema cannot be read as JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise FormatError(f"a JSON Schema is an object or a boolean, not {schema!r}")
    return schema


@dataclass(frozen=True, eq=False)
class Members:
    """The values of an object's members by name, those it must have, and the value of any other (``None``: no others)."""

    values: dict[str, Nfa]
    required: frozenset[str]
    others: Nfa | None


class Compiler:
    """Compiles the schemas within one document. ``active`` are the references being followed, ``depth_left`` how often
    one may still be followed within itself."""

    def __init__(self, root: Schema, whitespace: str, open_objects: bool, max_depth: int) -> None:
        self.root, self.style = root, STYLES[whitespace]
        self.open_objects, self.max_depth = open_objects, max_depth
        self.active: frozenset[str] = frozenset()
        self.depth_left = max_depth
        self.memo: dict[object, Nfa] = {}
        self.inside: dict[str, frozenset[str]] = {}

    def value(
        self,
        schema: Any,
        path: str,
        types: frozenset[str] = EVERY_TYPE,
        names: tuple[str, ...] = (),
        around: Members | None = None,
    ) -> Nfa:
        """Texts of the values that the schema allows.

        The rest is what is known from schemas that apply at the same place, whose texts these will be intersected with:
        the types that matter, the names that lead the order of members, and the members' values (``around``).
        """
        if schema is False:
            return empty()
        if (schema is True or schema == {}) and path and types == EVERY_TYPE and not names:
            return json_text.anything(self.style, self.max_depth)
        schema = {} if schema is True else schema
        names = tuple(dict.fromkeys([*names, *self.mentioned(schema, path, frozenset())]))
        types &= types_of(schema, path)
        parts = []
        for key in schema.keys() & {"const", "enum"}:
            values = schema[key] if key == "enum" else [schema[key]]
            parts.append(
                union(json_text.constant(self.style, v, names) for v in values if type_of(v) in types)
            )
        if not schema.keys() & set(CHOICES) or schema.keys() & (KEYWORDS.keys() - {"type", *CHOICES}):
            around = self.members(schema, path, names, around) if "object" in types else None
            parts.append(self.of_types(schema, path, types, around))
        for key in ("allOf", "anyOf", "oneOf"):
            subs = enumerate(schema.get(key, ()))
            found = [self.value(sub, f"{path}/{key}/{i}", types, names, around) for i, sub in subs]
            if key == "allOf":
                parts += found
            elif found:
                parts.append(union(found) if key == "anyOf" else exactly_one(found))
        if "$ref" in schema:
            parts.append(self.reference(schema["$ref"], path, types, names, around))
        whole, *rest = parts
        for part in rest:
            whole = intersect(simplify(whole), simplify(part))
        return whole

    def mentioned(self, schema: Any, path: str, seen: frozenset[str]) -> list[str]:
        """The member names that a schema, or one applied at the same place, mentions."""
        check(schema, path)
        if isinstance(schema, bool):
            return []
        found = [*schema.get("properties", ()), *schema.get("required", ())]
        for key in ("allOf", "anyOf", "oneOf"):
            for i, sub in enumerate(schema.get(key, ())):
                found += self.mentioned(sub, f"{path}/{key}/{i}", seen)
        ref = schema.get("$ref")
        if ref is not None and ref not in seen:
            found += self.mentioned(self.resolve(ref, path), ref.removeprefix("#"), seen | {ref})
        return found

    def reference(
        self, ref: str, path: str, types: frozenset[str], names: tuple[str, ...], around: Members | None
    ) -> Nfa:
        """The schema that a ``$ref`` points to; nothing where references have come round ``max_depth`` times."""
        again = ref in self.active
        if again and not self.depth_left:
            return empty()
        inside = self.refs_inside(ref, path)
        recursive = any(r in self.refs_inside(r, path) for r in inside)
        key = (ref, types, names, around, self.active & inside, self.depth_left if recursive else 0)
        if key not in self.memo:
            before = self.active, self.depth_left
            self.active, self.depth_left = self.active | {ref}, self.depth_left - again
            self.memo[key] = self.value(self.resolve(ref, path), ref.removeprefix("#"), types, names, around)
            self.active, self.depth_left = before
        return self.memo[key]

    def refs_inside(self, ref: str, path: str) -> frozenset[str]:
        """The references met on following ``ref``, and those met on following them, and so on."""
        if ref not in self.inside:
            found: set[str] = set()
            queue = [self.resolve(ref, path)]
            for part in queue:
                if isinstance(part, list):
                    queue.extend(part)
                elif isinstance(part, dict):
                    queue.extend(part.values())
                    target = part.get("$ref")
                    if isinstance(target, str) and target not in found:
                        with suppress(
                            UnsupportedConstraint
                        ):  # a constant, say, that only looks like a reference
                            queue.append(self.resolve(target, path))
                            found.add(target)
            self.inside[ref] = frozenset(found)
        return self.inside[ref]

    def resolve(self, ref: str, path: str) -> Any:
        """What a reference within the document points to."""
        where = f"{path}/$ref"
        if ref != "#" and not ref.startswith("#/"):
            raise UnsupportedConstraint(
                f"only references within the document are supported, not {ref!r}", path=where
            )
        target: Any = self.root
        for step in ref.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and step in target:
                target = target[step]
            elif isinstance(target, list) and step.isdecimal() and int(step) < len(target):
                target = target[int(step)]
            else:
                raise UnsupportedConstraint(f"{ref!r} points to nothing", path=where)
        return target

    # ------------------------------------------------------------ by type

    def of_types(
        self, schema: dict[str, Any], path: str, types: frozenset[str], members: Members | None
    ) -> Nfa:
        """What the keywords of each type allow, united."""
        parts = [literal(b"null")] if "null" in types else []
        if "boolean" in types:
            parts += [literal(b"true"), literal(b"false")]
        if types & TYPES["number"]:
            low = max(bounds(schema, "minimum", "exclusiveMinimum"), default=None)
            high = min(
                bounds(schema, "maximum", "exclusiveMaximum"),
                key=lambda b: (b.value, not b.strict),
                default=None,
            )
            parts.append(number(low, high, integer="fraction" not in types))
        if "string" in types:
            parts.append(self.string(schema, path))
        if "array" in types:
            parts.append(self.array(schema, path))
        if members is not None:
            parts.append(json_text.record(self.style, members.values, members.required, members.others))
        return union(parts)

    def string(self, schema: dict[str, Any], path: str) -> Nfa:
        """Strings of the right length (in characters) in which the pattern is found."""
        parts = []
        if "pattern" in schema:
            try:
                parts.append(compile_pattern(schema["pattern"], 0, spelled, ecma_search=True))
            except UnsupportedConstraint as error:
                raise UnsupportedConstraint(str(error), path=f"{path}/pattern") from None
        if not parts or schema.keys() & {"minLength", "maxLength"}:
            parts.append(repeat(spelled(EVERY), schema.get("minLength", 0), schema.get("maxLength")))
        return quoted(intersect(simplify(parts[0]), simplify(parts[1])) if len(parts) > 1 else parts[0])

    def array(self, schema: dict[str, Any], path: str) -> Nfa:
        """Arrays of the prefix items and then of the others, as many as allowed."""
        prefix, least, most = schema.get("prefixItems", []), schema.get("minItems", 0), schema.get("maxItems")
        size = max(len(prefix), least, 1) if most is None else most
        check_limit(size)
        items = [self.value(s, f"{path}/prefixItems/{i}") for i, s in enumerate(prefix[:size])]
        more = (
            self.value(schema.get("items", True), f"{path}/items")
            if most is None or size > len(items)
            else None
        )
        items += [more] * (size - len(items)) if more else []
        return json_text.array(self.style, items, least, more if most is None else None)

    def members(
        self, schema: dict[str, Any], path: str, names: tuple[str, ...], around: Members | None
    ) -> Members:
        """The members that the schema allows, in order; what it leaves open is as ``around`` has it."""
        properties, extra = (
            schema.get("properties", {}),
            schema.get("additionalProperties", self.open_objects),
        )
        known: dict[str, Nfa] = {}
        if around is not None and extra is True:
            known, others = around.values, around.others
        else:
            others = None if extra is False else self.value(extra, f"{path}/additionalProperties")
        values = {}
        for name in names:
            if name in properties:
                values[name] = self.value(properties[name], f"{path}/properties/{pointer(name)}")
            else:
                values[name] = known.get(name, others or empty())
        return Members(values, frozenset(schema.get("required", ())), others)


def check(schema: Any, path: str) -> None:
    """Raises ``UnsupportedConstraint`` for keywords that are unknown or have values of the wrong type."""
    if not isinstance(schema, dict | bool):
        raise UnsupportedConstraint(f"a schema is an object or a boolean, not {schema!r}", path=path or "/")
    for key, argument in schema.items() if isinstance(schema, dict) else ():
        if key in IGNORED or (key == "$id" and not path):
            continue
        expected = KEYWORDS.get(key)
        if expected is None:
            raise UnsupportedConstraint(
                f"the keyword {key!r} is not supported", path=f"{path}/{pointer(key)}"
            )
        wrong = not isinstance(argument, expected) or (isinstance(argument, bool) and int in expected)
        wrong = wrong or (key in COMBINATORS and not argument) or (expected == (int,) and argument < 0)
        if wrong or (key in ("required", "type") and not all(isinstance(name, str) for name in argument)):
            raise UnsupportedConstraint(
                f"{key!r} has a value of the wrong kind: {argument!r}", path=f"{path}/{key}"
            )


def types_of(schema: dict[str, Any], path: str) -> frozenset[str]:
    """The types that the schema admits; a number is an integer or a fraction."""
    named = schema.get("type", list(TYPES))
    named = [named] if isinstance(named, str) else named
    if unknown := [name for name in named if name not in TYPES]:
        raise UnsupportedConstraint(f"there is no type {unknown[0]!r}", path=f"{path}/type")
    return frozenset().union(*(TYPES[name] for name in named))


def type_of(value: Any) -> str:
    """The type of a Python value from JSON."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    names = {
        bool: "boolean",
        int: "integer",
        str: "string",
        list: "array",
        dict: "object",
        type(None): "null",
    }
    return names[type(value)]


def bounds(schema: dict[str, Any], loose: str, strict: str) -> list[Bound]:
    """The bounds on one side."""
    return [Bound(Decimal(repr(schema[key])), key == strict) for key in (loose, strict) if key in schema]


def exactly_one(options: Sequence[Nfa]) -> Nfa:
    """Words of exactly one of the options."""
    once, twice = empty(), empty()
    for option in map(simplify, options):
        twice = union([twice, intersect(once, option)])
        once = simplify(union([once, option]))
    return once if twice.is_empty else difference(once, twice)


def pointer(name: str) -> str:
    """A name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
