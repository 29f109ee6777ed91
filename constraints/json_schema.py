"""JSON Schema (draft 2020-12) as automata over JSON text (``json_text.py``).

    L(schema) = (∪ over types: texts of that type that its keywords allow) ∩ L(allOf_i) ∩ (∪ L(anyOf_i)) ∩ …

Combinators are real operations on automata. For that to be right every schema of one place in the value must write an
object's members in the same order: the names that any of them mentions, in order of appearance, then all others.
What is not supported is refused by name and path, never passed over.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import unquote

from ..errors import FormatError, UnsupportedConstraint
from . import dfa, nfa, utf8
from .constraint import Constraint
from .json_text import INTEGER, NUMBER, STYLES, Bound, exactly, number, quoted, spelled
from .nfa import Nfa, concat, empty, literal, network, union
from .regex import compile_pattern

TYPES = ("null", "boolean", "object", "array", "number", "integer", "string")
ALL_TYPES = frozenset(("null", "boolean", "object", "array", "fraction", "integer", "string"))
SCHEMA = (dict, bool)
KEYWORDS: dict[str, tuple[type, ...]] = {
    "type": (str, list), "enum": (list,), "const": (object,),
    "allOf": (list,), "anyOf": (list,), "oneOf": (list,), "$ref": (str,),
    "properties": (dict,), "required": (list,), "additionalProperties": SCHEMA,
    "items": SCHEMA, "prefixItems": (list,), "minItems": (int,), "maxItems": (int,),
    "minLength": (int,), "maxLength": (int,), "pattern": (str,),
    "minimum": (int, float), "maximum": (int, float), "exclusiveMinimum": (int, float), "exclusiveMaximum": (int, float),
}  # fmt: skip
"""The keywords that assert something, and the Python types of their values."""
COMBINATORS = ("allOf", "anyOf", "oneOf", "$ref")
IGNORED = frozenset(
    ("$schema", "$comment", "$defs", "definitions", "title", "description", "default", "examples", "deprecated", "readOnly",
     "writeOnly")
)  # fmt: skip
"""Keywords that assert nothing by the specification; ``$id`` likewise at the root."""

Schema = dict[str, Any] | bool
Names = tuple[str, ...]
T = TypeVar("T")


class Members(NamedTuple):
    """The values of an object's members by name, which are required, and the value of any other (``None``: no others)."""

    values: dict[str, Nfa]
    required: frozenset[str]
    others: Nfa | None


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
    ``false``. ``max_depth`` bounds what no regular language can: how often a ``$ref`` may lie within itself, and how deep
    arrays and objects nest in values without a schema.

    Members stand in the order in which the schema declares them, undeclared ones last. Raises ``UnsupportedConstraint``
    with the path of what is not supported, ``FormatError`` for what is not JSON, ``TooManyStates``.
    """
    if whitespace not in STYLES:
        raise UnsupportedConstraint(f"whitespace is one of {list(STYLES)}, not {whitespace!r}", path="whitespace")
    root = read_schema(schema)
    return Constraint(Compiler(root, whitespace, open_objects, max_depth).value(root, ""))


def read_schema(schema: Any) -> Schema:
    """The schema as Python values, from any of the forms that a user may give."""
    if isinstance(schema, type):
        from pydantic import BaseModel

        if not issubclass(schema, BaseModel):
            raise FormatError(f"{schema.__name__} is not a Pydantic model")
        return schema.model_json_schema()
    if isinstance(schema, os.PathLike) or (isinstance(schema, str) and schema.endswith(".json")):
        try:
            schema = Path(schema).read_text(encoding="utf-8")
        except OSError as error:
            raise FormatError(f"cannot read the schema: {error}") from None
    if isinstance(schema, str):
        try:
            schema = json.loads(schema)
        except json.JSONDecodeError as error:
            raise FormatError(f"the schema is not JSON: {error}") from None
    if not isinstance(schema, SCHEMA):
        raise FormatError(f"a JSON Schema is an object or a boolean, not {type(schema).__name__}")
    return schema


class Compiler:
    """Compiles the schemas within one document; ``active`` counts the references being followed."""

    def __init__(self, root: Schema, whitespace: str, open_objects: bool, max_depth: int) -> None:
        self.root, self.style, self.open_objects, self.max_depth = root, STYLES[whitespace], open_objects, max_depth
        self.active: Counter[str] = Counter()
        self.memo: dict[object, Any] = {}

    def once(self, key: object, make: Callable[[], T]) -> T:
        """``make()``, remembered under ``key``."""
        if key not in self.memo:
            self.memo[key] = make()
        found: T = self.memo[key]
        return found

    # ------------------------------------------------------------ schemas

    def value(
        self,
        schema: Any,
        path: str,
        types: frozenset[str] = ALL_TYPES,
        names: Names = (),
        around: Members | None = None,
    ) -> Nfa:
        """Texts of the values that the schema allows.

        The rest is what is known from schemas that apply at the same place, whose texts these will be intersected with:
        the types that matter, the names that lead the order of members, and the members' values (``around``).
        """
        if schema is True:
            schema = {}
        if schema is False:
            return empty()
        self.check(schema, path)
        types &= self.types(schema, path)
        if any(key in schema for key in COMBINATORS):
            names = tuple(dict.fromkeys([*names, *self.mentioned(schema, path, frozenset())]))
        parts = [self.constants([schema["const"]], path, types, names)] if "const" in schema else []
        if "enum" in schema:
            parts.append(self.constants(schema["enum"], path, types, names))
        choices = any(key in schema for key in ("const", "enum", *COMBINATORS))
        if not choices or schema.keys() & (KEYWORDS.keys() - {"type", "enum", "const", *COMBINATORS}):
            around = self.members(schema, path, names, around) if "object" in types else None
            parts.append(self.of_types(schema, path, types, around))
        for index, sub in enumerate(schema.get("allOf", [])):
            parts.append(self.value(sub, f"{path}/allOf/{index}", types, names, around))
        for key in ("anyOf", "oneOf"):
            if key in schema:
                found = [self.value(s, f"{path}/{key}/{i}", types, names, around) for i, s in enumerate(schema[key])]
                parts.append(union(found) if key == "anyOf" else exactly_one(found))
        if "$ref" in schema:
            parts.append(self.reference(schema["$ref"], path, types, names, around))
        whole, *rest = parts
        for part in rest:
            whole = dfa.intersect(dfa.simplify(whole), dfa.simplify(part))
        return whole

    def check(self, schema: Any, path: str) -> None:
        """Raises ``UnsupportedConstraint`` for keywords that are unknown or have values of the wrong type."""
        if not isinstance(schema, dict):
            raise UnsupportedConstraint(f"a schema is an object or a boolean, not {schema!r}", path=path or "/")
        for key, argument in schema.items():
            where = f"{path}/{escape(key)}"
            if key in IGNORED or (key == "$id" and not path):
                continue
            if key not in KEYWORDS:
                raise UnsupportedConstraint(f"the keyword {key!r} is not supported", path=where)
            expected = KEYWORDS[key]
            if not isinstance(argument, expected) or (isinstance(argument, bool) and int in expected):
                raise UnsupportedConstraint(f"the value of {key!r} has the wrong type: {argument!r}", path=where)
            if expected == (list,) and key in COMBINATORS and not argument:
                raise UnsupportedConstraint(f"{key!r} needs at least one schema", path=where)

    def types(self, schema: dict[str, Any], path: str) -> frozenset[str]:
        """The types that the schema admits; a number is an integer or a fraction."""
        named = schema.get("type", list(TYPES))
        named = [named] if isinstance(named, str) else named
        for name in named:
            if name not in TYPES:
                raise UnsupportedConstraint(f"there is no type {name!r}", path=f"{path}/type")
        return frozenset(n for name in named for n in (("integer", "fraction") if name == "number" else (name,)))

    def mentioned(self, schema: Any, path: str, seen: frozenset[str]) -> list[str]:
        """The member names that a schema, or one applied at the same place, mentions."""
        if not isinstance(schema, dict):
            return []
        found = [*schema.get("properties", {}), *schema.get("required", [])]
        for key in ("allOf", "anyOf", "oneOf"):
            for sub in schema.get(key, []):
                found += self.mentioned(sub, path, seen)
        if "$ref" in schema and schema["$ref"] not in seen:
            found += self.mentioned(self.resolve(schema["$ref"], path), path, seen | {schema["$ref"]})
        return found

    def reference(
        self, ref: str, path: str, types: frozenset[str], names: Names, around: Members | None
    ) -> Nfa:
        """The schema that a ``$ref`` points to; nothing once it lies more than ``max_depth`` times within itself."""
        if self.active[ref] > self.max_depth:
            return empty()
        target = self.resolve(ref, path)
        key = (ref, types, names, id(around), frozenset((+self.active).items()))
        self.active[ref] += 1
        result = self.once(key, lambda: (self.value(target, ref.removeprefix("#"), types, names, around), around))
        self.active[ref] -= 1
        return result[0]

    def resolve(self, ref: str, path: str) -> Any:
        """What a reference within the document points to."""
        target: Any = self.root
        if ref != "#" and not ref.startswith("#/"):
            raise UnsupportedConstraint(f"only references within the document are supported, not {ref!r}", path=f"{path}/$ref")
        for step in ref.split("/")[1:]:
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and step in target:
                target = target[step]
            elif isinstance(target, list) and step.isdecimal() and int(step) < len(target):
                target = target[int(step)]
            else:
                raise UnsupportedConstraint(f"{ref!r} points to nothing", path=f"{path}/$ref")
        return target

    # ------------------------------------------------------------ values by type

    def of_types(self, schema: dict[str, Any], path: str, types: frozenset[str], members: Members | None) -> Nfa:
        """What the keywords of each type allow, united."""
        parts = [literal(b"null")] if "null" in types else []
        if "boolean" in types:
            parts += [literal(b"true"), literal(b"false")]
        if types & {"integer", "fraction"}:
            parts.append(self.number(schema, integer="fraction" not in types))
        if "string" in types:
            parts.append(self.string(schema, path))
        if "array" in types:
            parts.append(self.array(schema, path))
        if members is not None:
            parts.append(self.object(members))
        return union(parts)

    def number(self, schema: dict[str, Any], integer: bool) -> Nfa:
        """Numbers within the bounds."""
        lows = [Bound(Decimal(repr(schema[k])), k != "minimum") for k in ("minimum", "exclusiveMinimum") if k in schema]
        highs = [Bound(Decimal(repr(schema[k])), k != "maximum") for k in ("maximum", "exclusiveMaximum") if k in schema]
        low = max(lows, default=None)
        high = min(highs, key=lambda b: (b.value, not b.strict), default=None)
        return number(low, high, integer)

    def string(self, schema: dict[str, Any], path: str) -> Nfa:
        """Strings of the right length (in characters) in which the pattern is found."""
        body = nfa.repeat(spelled(utf8.EVERY), schema.get("minLength", 0), schema.get("maxLength"))
        if "pattern" in schema:
            try:
                matching = compile_pattern(schema["pattern"], 0, spelled, ecma_search=True)
            except UnsupportedConstraint as error:
                raise UnsupportedConstraint(str(error), path=f"{path}/pattern") from None
            body = dfa.intersect(dfa.simplify(matching), dfa.simplify(body)) if schema.keys() & {"minLength", "maxLength"} else matching
        return quoted(body)

    def array(self, schema: dict[str, Any], path: str) -> Nfa:
        """Arrays: hub i is the place after i items."""
        prefix, low, high = schema.get("prefixItems", []), schema.get("minItems", 0), schema.get("maxItems")
        last = max(len(prefix), low, 1) if high is None else high
        items = [self.value(s, f"{path}/prefixItems/{i}") for i, s in enumerate(prefix[:last])]
        if high is None or last > len(prefix):
            other = self.free(schema["items"], f"{path}/items") if "items" in schema else self.anything(self.max_depth)
            items += [other] * (last - len(items))
        comma, _, padding = self.style
        arcs: list[tuple[int, Nfa | None, int]] = []
        for i, item in enumerate(items):
            arcs.append((i, concat([comma, item]) if i else item, i + 1))
        if high is None:
            arcs.append((last, concat([comma, other]), last))
        close = last + 1
        arcs += [(i, padding if i else literal(b""), close) for i in range(low, last + 1)]
        return concat([literal(b"["), padding, network(close + 1, arcs, 0, close), literal(b"]")])

    def members(self, schema: dict[str, Any], path: str, names: Names, around: Members | None) -> Members:
        """The members that the schema allows, in order; what it leaves open is as ``around`` has it."""
        properties, required = schema.get("properties", {}), frozenset(schema.get("required", []))
        extra = schema.get("additionalProperties", self.open_objects)
        others = around.others if around else None
        if extra is False:
            others = None
        elif extra is not True or around is None:
            others = self.free(extra, f"{path}/additionalProperties")
        values = {}
        for name in dict.fromkeys([*names, *properties, *schema.get("required", [])]):
            if name in properties:
                values[name] = self.value(properties[name], f"{path}/properties/{escape(name)}")
            elif extra is True and around is not None and name in around.values:
                values[name] = around.values[name]
            else:
                values[name] = empty() if others is None else others
        return Members(values, required, others)

    def object(self, members: Members) -> Nfa:
        """Objects of these members: the listed ones in order, then any others."""
        colon = self.style.colon
        listed = [(concat([exactly(n), colon, v]), n in members.required) for n, v in members.values.items()]
        others = None
        if members.others is not None:
            others = concat([self.other_name(tuple(members.values)), colon, members.others])
        return self.braces(listed, others)

    def braces(self, members: Sequence[tuple[Nfa, bool]], others: Nfa | None) -> Nfa:
        """Optional and required members in order, with commas between those that are there.

        Hubs: 3i none yet, before member i; 3i + 1 some already; 3i + 2 about to write member i.
        """
        comma, _, padding = self.style
        arcs: list[tuple[int, Nfa | None, int]] = []
        for i, (member, needed) in enumerate(members):
            arcs += [(3 * i, None, 3 * i + 2), (3 * i + 1, comma, 3 * i + 2), (3 * i + 2, member, 3 * i + 4)]
            if not needed:
                arcs += [(3 * i, None, 3 * i + 3), (3 * i + 1, None, 3 * i + 4)]
        end = 3 * len(members)
        if others is not None:
            arcs += [(end, None, end + 2), (end + 1, comma, end + 2), (end + 2, others, end + 1)]
        arcs += [(end, None, end + 3), (end + 1, padding, end + 3)]
        return concat([literal(b"{"), padding, network(end + 4, arcs, 0, end + 3), literal(b"}")])

    def free(self, schema: Any, path: str) -> Nfa:
        """A value of the schema, which may well be ``true``."""
        return self.anything(self.max_depth) if schema is True or schema == {} else self.value(schema, path)

    def anything(self, depth: int) -> Nfa:
        """Any value whose arrays and objects nest at most ``depth`` deep."""
        return self.once(("anything", depth), lambda: self._anything(depth))

    def _anything(self, depth: int) -> Nfa:
        text = quoted(nfa.star(spelled(utf8.EVERY)))
        parts = [literal(b"null"), literal(b"true"), literal(b"false"), NUMBER, text]
        if depth:
            inner = self.anything(depth - 1)
            comma, colon, padding = self.style
            items = [(0, inner, 1), (1, concat([comma, inner]), 1), (0, None, 2), (1, padding, 2)]
            parts.append(concat([literal(b"["), padding, network(3, items, 0, 2), literal(b"]")]))
            parts.append(self.braces([], concat([text, colon, inner])))
        return dfa.minimize(union(parts))

    def other_name(self, names: Names) -> Nfa:
        """A string that is none of the names."""
        text = quoted(nfa.star(spelled(utf8.EVERY)))
        return self.once(("other", names), lambda: dfa.minimize(dfa.difference(text, union(map(exactly, names)))))

    def constants(self, values: Iterable[Any], path: str, types: frozenset[str], names: Names) -> Nfa:
        """The texts of those of the values that have one of the types."""
        return union([self.constant(v, path, names) for v in values if type_of(v) in types])

    def constant(self, value: Any, path: str, names: Names = ()) -> Nfa:
        """The texts of one value; a whole number may be written with or without ``.0`` if the schema does so."""
        if isinstance(value, str):
            return exactly(value)
        if isinstance(value, list):
            return self.array({"prefixItems": [{"const": v} for v in value], "minItems": len(value), "maxItems": len(value)}, path)
        if isinstance(value, dict):
            order = dict.fromkeys([*(name for name in names if name in value), *value])
            parts = [(concat([exactly(k), self.style.colon, self.constant(value[k], path)]), True) for k in order]
            return self.braces(parts, None)
        if isinstance(value, float) and not math.isfinite(value):
            raise UnsupportedConstraint(f"{value} is no JSON value", path=path)
        whole = [literal(str(int(value)).encode())] if isinstance(value, float) and value.is_integer() else []
        return union([literal(json.dumps(value).encode()), *whole])


def type_of(value: Any) -> str:
    """The JSON type of a Python value."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    names = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object", type(None): "null"}
    return names[type(value)]


def exactly_one(options: Sequence[Nfa]) -> Nfa:
    """Words of exactly one of the options."""
    any_yet, twice = empty(), empty()
    for option in options:
        option = dfa.simplify(option)
        twice = union([twice, dfa.intersect(any_yet, option)])
        any_yet = dfa.simplify(union([any_yet, option]))
    return any_yet if twice.is_empty else dfa.difference(any_yet, twice)


def escape(name: str) -> str:
    """A name as a step of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
