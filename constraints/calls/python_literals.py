"""Python literals as automata: the texts that ``ast.literal_eval`` reads as a value of a JSON Schema.

Strings (``python_strings.py``), numbers as JSON writes them, ``True``, ``False``, ``None``, lists, tuples, and dicts with
string keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from ...errors import UnsupportedConstraint
from ..automata.dfa import difference, intersect, simplify
from ..automata.nfa import Nfa, byte_ranges, check_limit, concat, empty, literal, star, union
from ..json.constraint import json_schema
from ..json.patterns import matching
from ..narrowing import Narrowing
from .python_objects import one_object
from .python_rows import Style, brackets, in_any_order, in_order, row, tuples
from .python_strings import any_string, exactly, formatted, string_of_length, strings

NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
KEYWORDS = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "integer": NUMERIC,
    "number": NUMERIC,
    "boolean": (),
    "null": (),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "tuple": ("items", "prefixItems", "minItems", "maxItems"),
    "object": ("properties", "required", "additionalProperties"),
}
"""The types, and the keywords that say something about each."""
DEPTH = "no regular language nests without a bound; max_depth sets it"
NUMBERS = "no 1., +1, 1_000 or 0x10"
ORDERS = "only plain objects are put together, with type, properties, required and additionalProperties"
COMBINATORS = ("allOf", "anyOf", "oneOf", "$ref")


@dataclass
class Literals:
    """Compiles the schemas of one document (``root`` holds what ``$ref`` refers to)."""

    root: Mapping[str, Any]
    style: Style
    max_depth: int
    narrowed: list[Narrowing] = field(default_factory=list)
    """What the literals lack of the schemas, added to as they are compiled."""
    any_order: bool = False
    """Whether members of dicts stand in any order."""
    active: dict[str, int] = field(default_factory=dict)

    def value(self, schema: Any, path: str) -> Nfa:
        """The literals that the schema allows. Raises ``UnsupportedConstraint`` with the path."""
        if schema is True or schema == {}:
            most = f"values whose lists, tuples and dicts nest at most {self.max_depth} deep"
            self.cut(path, "max_depth", "any value", most, DEPTH)
            return anything(self.style, self.max_depth)
        if schema is False:
            return empty()
        types = schema.get("type", list(KEYWORDS))
        types = [types] if isinstance(types, str) else list(types)
        known = {"type", "enum", "const", *COMBINATORS}.union(*KEYWORDS.values())
        if unknown := sorted(schema.keys() - known):
            raise UnsupportedConstraint(f"{unknown[0]!r} is not supported in Python syntax", path=path)
        parts = [k for k in (*COMBINATORS, "enum", "const") if k in schema]
        said = set().union(*(KEYWORDS[t] for t in types if t in KEYWORDS)) & schema.keys()
        if parts and said & set(KEYWORDS["object"]):
            raise UnsupportedConstraint(
                f"{parts[0]!r} next to {sorted(said)} is not supported in Python syntax", path=path
            )
        if len(parts) > 1 and "object" in types:
            self.own_orders(f"{path}.{parts[1]}")
        found = None
        for key in parts:
            part = self.combined(key, schema[key], types, f"{path}.{key}")
            found = part if found is None else simplify(intersect(found, part))
        if found is None or said or ("type" in schema and not {"enum", "const"} & schema.keys()):
            own = union([self.typed(t, schema, path) for t in types])
            found = own if found is None else simplify(intersect(found, own))
        return found

    def cut(self, path: str, keyword: str, asked: str, given: str, why: str) -> None:
        """Note that fewer literals are accepted than the schema allows."""
        self.narrowed.append(Narrowing(path, keyword, asked, given, why))

    def own_orders(self, path: str) -> None:
        """Note that of objects which satisfy several schemas the members stand in the order of each of them."""
        if not self.any_order:
            given = "those in the order of every schema that they satisfy"
            self.cut(path, "properties", "members in the order of one of the schemas", given, ORDERS)

    def combined(self, key: str, argument: Any, types: list[str], path: str) -> Nfa:
        """The literals that a combinator, ``enum`` or ``const`` allows."""
        if key in ("enum", "const"):
            values = argument if key == "enum" else [argument]
            return union([self.constant(v) for v in values if any(is_a(v, t) for t in types)])
        if key == "$ref":
            return self.reference(argument, path)
        if not argument:
            raise UnsupportedConstraint("an empty list of schemas", path=path)
        if key == "allOf" and len(said := [s for s in argument if s not in (True, {})]) > 1:
            if (one := one_object(said, types == ["object"])) is not None:
                return self.value(one, path)
            if all("object" in types_of(schema) for schema in said) and "object" in types:
                self.own_orders(path)
        parts = [self.value(schema, f"{path}[{i}]") for i, schema in enumerate(argument)]
        if key == "anyOf":
            return union(parts)
        if key == "allOf":
            result = parts[0]
            for part in parts[1:]:
                result = simplify(intersect(result, part))
            return result
        every = [self.whole(schema, argument, f"{path}[{i}]") for i, schema in enumerate(argument)]
        apart = [[types_of(a).isdisjoint(types_of(b)) for b in argument] for a in argument]
        return union(
            difference(part, union(e for j, e in enumerate(every) if j != i and not apart[i][j]))
            for i, part in enumerate(parts)
        )

    def whole(self, schema: Any, beside: Sequence[Any], path: str) -> Nfa:
        """All literals of a schema, to be taken from those of the schemas beside it. Raises ``UnsupportedConstraint`` where
        some are missing, and there is a schema that they could be of."""
        if sum(not types_of(schema).isdisjoint(types_of(other)) for other in beside) < 2:  # itself
            return empty()
        free = replace(self, narrowed=[], any_order=True)
        found = free.value(schema, path)
        if cut := next((each for each in free.narrowed if each.keyword != "type"), None):
            raise UnsupportedConstraint(
                f"oneOf with an alternative of which texts are missing: {cut}", path=path
            )
        return found

    def reference(self, pointer: Any, path: str) -> Nfa:
        """The literals that a ``$ref`` within the document allows, followed at most ``max_depth`` times within itself."""
        target: Any = self.root
        if not isinstance(pointer, str) or not pointer.startswith("#/"):
            raise UnsupportedConstraint(f"$ref {pointer!r} is not within the parameters", path=path)
        for step in unquote(pointer[2:]).split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, Mapping) or step not in target:
                raise UnsupportedConstraint(f"$ref {pointer!r} leads nowhere", path=path)
            target = target[step]
        depth = self.active.get(pointer, 0)
        if depth > self.max_depth:
            most = f"itself at most {self.max_depth} levels deep"
            self.cut(pointer, "max_depth", "itself at any depth", most, DEPTH)
            return empty()
        self.active[pointer] = depth + 1
        found = self.value(target, path)
        self.active[pointer] = depth
        return found

    def typed(self, kind: str, schema: Mapping[str, Any], path: str) -> Nfa:
        """The literals of one type that its keywords allow."""
        if kind == "string":
            try:
                return self.string(schema, path)
            except UnsupportedConstraint as error:
                raise UnsupportedConstraint(str(error), path=path) from None
        if kind in ("integer", "number"):
            self.cut(path, "type", f"every literal of Python for {kind}", "as JSON writes it", NUMBERS)
            return number(kind, tuple((k, schema[k]) for k in NUMERIC if k in schema))
        if kind in ("boolean", "null"):
            return union([literal(w) for w in ((b"True", b"False") if kind == "boolean" else (b"None",))])
        if kind in ("array", "tuple"):
            return self.array(kind, schema, path)
        if kind == "object":
            return self.object(schema, path)
        raise UnsupportedConstraint(f"unknown type {kind!r}", path=path)

    def string(self, schema: Mapping[str, Any], path: str) -> Nfa:
        """The strings of a schema."""
        found = any_string()
        if "minLength" in schema or "maxLength" in schema:
            found = string_of_length(schema.get("minLength", 0), schema.get("maxLength"))
        if "pattern" in schema:
            pattern: str = schema["pattern"]
            found = intersect(found, strings(lambda alphabet: matching(pattern, True, alphabet)))
        if "format" not in schema:
            return found
        strings_of_format, narrowed = formatted(schema["format"])
        self.narrowed += [each._replace(path=path) for each in narrowed]
        return intersect(found, strings_of_format)

    def array(self, kind: str, schema: Mapping[str, Any], path: str) -> Nfa:
        """The lists (or tuples) of a schema."""
        first = [
            self.value(s, f"{path}.prefixItems[{i}]") for i, s in enumerate(schema.get("prefixItems", []))
        ]
        rest = schema.get("items", True)
        more = None if rest is False else self.value(rest, f"{path}.items")
        low, high = schema.get("minItems", 0), schema.get("maxItems")
        check_limit(max(low, high or 0))
        if high is not None:
            first = [*first, *([more] * (high - len(first)) if more is not None else [])][:high]
            more = None
        if kind == "array":
            return brackets(b"[", row(self.style, first, low, more), b"]", self.style)
        return tuples(self.style, first, low, more)

    def object(self, schema: Mapping[str, Any], path: str) -> Nfa:
        """The dicts of a schema."""
        properties, needed = schema.get("properties", {}), schema.get("required", [])
        comma, colon, padding, _ = self.style
        names = dict.fromkeys([*properties, *needed])
        extra = schema.get("additionalProperties", True)
        items = []
        for name in names:
            value = self.value(properties.get(name, extra), f"{path}.properties.{name}")
            items.append((concat([exactly(name), colon, value]), name in needed))
        others = None
        if extra is not False:
            key = difference(any_string(), union(map(exactly, names))) if names else any_string()
            others = concat([key, colon, self.value(extra, f"{path}.additionalProperties")])
        if not self.any_order:
            return brackets(b"{", in_order(items, comma, others, padding), b"}", self.style)
        if others is not None:
            raise UnsupportedConstraint("oneOf of open objects is not supported in Python syntax", path=path)
        return brackets(b"{", in_any_order(items, comma, padding), b"}", self.style)

    def constant(self, value: Any) -> Nfa:
        """The ways to write one value."""
        if isinstance(value, str):
            return exactly(value)
        if isinstance(value, list):
            items = [self.constant(v) for v in value]
            return brackets(b"[", row(self.style, items, len(items), None), b"]", self.style)
        if isinstance(value, Mapping):
            pairs = [
                (concat([exactly(k), self.style.colon, self.constant(v)]), True) for k, v in value.items()
            ]
            body = in_order(pairs, self.style.comma, padding=self.style.padding)
            return brackets(b"{", body, b"}", self.style)
        whole = isinstance(value, float) and value.is_integer()
        return union([literal(repr(v).encode()) for v in ([value, int(value)] if whole else [value])])


DIGITS = concat([star(literal(b"-")), star(byte_ranges([(48, 57)]))])


@lru_cache(maxsize=256)
def number(kind: str, bounds: tuple[tuple[str, Any], ...]) -> Nfa:
    """Numbers as JSON writes them, which Python reads alike; integers without a point."""
    found = json_schema({"type": kind, **dict(bounds)}, on_narrowed="ignore").bytes_automaton
    return intersect(found, DIGITS) if kind == "integer" else found


@lru_cache(maxsize=32)
def anything(style: Style, depth: int) -> Nfa:
    """Any literal whose lists, tuples and dicts nest at most ``depth`` deep."""
    parts = [literal(b"None"), literal(b"True"), literal(b"False"), number("number", ()), any_string()]
    if depth:
        item = anything(style, depth - 1)
        pair = concat([any_string(), style.colon, item])
        parts.append(brackets(b"[", row(style, [], 0, item), b"]", style))
        parts.append(tuples(style, [], 0, item))
        parts.append(brackets(b"{", row(style, [], 0, pair), b"}", style))
    return simplify(union(parts))


def types_of(schema: Any) -> frozenset[str]:
    """The types that the values of a schema may have."""
    every = frozenset(KEYWORDS)
    if not isinstance(schema, Mapping):
        return every
    types = schema.get("type", [])
    found = frozenset([types] if isinstance(types, str) else types) or every
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        found &= frozenset(kind for kind in every if any(is_a(value, kind) for value in values))
    return found | ({"number"} if "integer" in found else set())


def is_a(value: Any, kind: str) -> bool:
    """Whether a JSON value is of the type."""
    if isinstance(value, bool) or value is None:
        return kind == ("null" if value is None else "boolean")
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    names: dict[str, Any] = {
        "string": str,
        "number": (int, float),
        "array": list,
        "tuple": list,
        "object": Mapping,
    }
    return isinstance(value, names.get(kind, ()))
