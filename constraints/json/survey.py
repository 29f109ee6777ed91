"""One walk over a document's schemas: what every automaton lacks, and what is not supported.
The norms are those that JSON Schema names: ECMA-262 for patterns, RFCs for formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ...errors import TooManyStates, UnsupportedConstraint
from ..narrowing import Narrowing, merged
from .document import Document, Resource, Subschema
from .formats import KNOWN, LEFT_OUT, WITH_SIXTY, leaves_out
from .misspelt import NAMED, meant, tell
from .numbers import Notation
from .text import MARKUP, is_text
from .vocabulary import HOLDING, REFERENCES, is_number

EXPONENTS = Narrowing(
    "",
    "numbers",
    "integers, and numbers under a condition, in every way to write them",
    "decimals without an exponent",
    "digits can be compared only before an exponent says what they are worth; write 100, not 1e2",
)
ESCAPES = Narrowing(
    "",
    "escapes",
    "names, listed strings and those with a pattern or a format, in every way to write them",
    f"printable ASCII as it is, but for {MARKUP}",
    "what is compared has few spellings, those that encoders write; strings under no condition have all of them",
)
"""The ways to write strings that ``escapes="any"`` leaves out."""
NAMING = {
    "properties", "required", "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies",
}  # fmt: skip
REFERRING = frozenset(REFERENCES)
COMPARED = frozenset(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
SAYING = COMPARED | {"enum", "const", "format"}


def narrowings(
    document: Document,
    asserts_format: bool,
    notation: Notation,
    escapes: bool = False,
    place: Callable[[str], str] = str,
) -> tuple[Narrowing, ...]:
    """Return where less is accepted than the schemas say, and warn of misspelt keywords. Raises ``UnsupportedConstraint``.
    ``escapes``: whether strings may have escapes that are not needed. ``place``: a path as the warnings have it."""
    schemas = list(reached(document))
    for schema, path in schemas:
        for key in () if NAMED.issuperset(schema) else schema:
            if key not in NAMED and (keyword := meant(key, schema[key])) is not None:
                tell(place(path), key, keyword)
    spelled = escapes and any(compares_strings(schema, asserts_format) for schema, _ in schemas)
    saying = ((s, path) for s, path in schemas if not SAYING.isdisjoint(s) or "integer" in s.get("type", ()))
    found = (each for schema, path in saying for each in lacks(schema, path, asserts_format, notation))
    return merged(dict.fromkeys(found), [ESCAPES] * spelled)


def reached(document: Document) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the schemas reached from the root of a document, with their paths."""
    seen, owner, read = set[int](), document.owner, document.read
    unread = HOLDING - read.keys()
    stack: list[tuple[Any, Resource, str]] = [(document.root.root, document.root, "")]
    while stack:
        schema, resource, path = stack.pop()
        if not isinstance(schema, dict) or (number := id(schema)) in seen:
            continue
        seen.add(number)
        resource = owner.get(number, resource) if owner else resource
        if "$ref" in schema and 4 <= document.draft <= 7:
            schema = {"$ref": schema["$ref"]}
        document.check(schema, path)
        yield schema, path
        for key in () if REFERRING.isdisjoint(schema) else REFERENCES:
            if key in schema and key in read:
                stack.append(document.resolve(Subschema(schema, resource, path, -1), key))
        if found := document.below(schema):
            if not unread.isdisjoint(schema):
                found = [each for each in found if each[0].partition("/")[0] in read]
            stack += [(inner, resource, f"{path}/{step}") for step, inner in found if isinstance(inner, dict)]


def lacks(schema: dict[str, Any], path: str, asserts_format: bool, notation: Notation) -> Iterator[Narrowing]:
    """Yield the narrowings of one schema."""
    if asserts_format and (kind := schema.get("format")) in WITH_SIXTY:
        pattern, lost = schema.get("pattern"), True
        with suppress(UnsupportedConstraint, TooManyStates):
            lost = pattern is None or leaves_out(kind, pattern)
        if lost:
            yield Narrowing(f"{path}/format", "format", kind, *LEFT_OUT)
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if has_conditions(schema, listed, notation):
        yield EXPONENTS
    for value in listed:
        if isinstance(value, str) and not is_text(value):
            why = "a lone surrogate is no Unicode text"
            yield Narrowing(f"{path}/enum", "enum", ascii(value), "nothing", why)


def compares_strings(schema: dict[str, Any], asserts_format: bool) -> bool:
    """Return whether a schema has conditions on names of members, or on strings but for their length."""
    values = [*schema.get("enum", ()), schema.get("const")]
    has_format = asserts_format and schema.get("format") in KNOWN
    return (
        has_format
        or "pattern" in schema
        or any(schema[key] for key in NAMING & schema.keys())
        or any(map(has_strings, values))
    )


def has_strings(value: Any) -> bool:
    """Return whether a value is a string, or one is in it."""
    if isinstance(value, list):
        return any(map(has_strings, value))
    return isinstance(value, str) or (isinstance(value, dict) and bool(value))


def has_conditions(schema: dict[str, Any], listed: list[Any], notation: Notation) -> bool:
    """Return whether numbers have to be compared, so that they are written without an exponent."""
    types = schema.get("type", [])
    if "integer" in types and "number" not in types:
        return not (notation.plain or notation.whole)
    if any(map(is_number, listed)):
        return not notation.plain
    return not COMPARED.isdisjoint(schema)
