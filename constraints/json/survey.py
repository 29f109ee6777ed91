"""One walk over a document's schemas: what every automaton lacks, and what is not supported.
The norms are those that JSON Schema names: ECMA-262 for patterns, RFCs for formats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from ...errors import TooManyStates, UnsupportedConstraint
from ..narrowing import Narrowing, merged
from .document import Document, Node, Resource
from .formats import LEFT_OUT, WITH_SIXTY, leaves_out
from .numbers import Notation
from .text import JSON
from .vocabulary import REFERENCES, is_number, subschemas

EXPONENTS = Narrowing(
    "",
    "numbers",
    "integers, and numbers under a condition, in every way to write them",
    "decimals without an exponent",
    "digits can be compared only before an exponent says what they are worth; write 100, not 1e2",
)
COMPARED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def narrowings(document: Document, asserts_format: bool, notation: Notation) -> tuple[Narrowing, ...]:
    """Return what the automaton lacks of what the schemas say. Raises ``UnsupportedConstraint``."""
    return merged(
        each for schema, path in reached(document) for each in lacks(schema, path, asserts_format, notation)
    )


def reached(document: Document) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the schemas reached from the root of a document, with their paths."""
    seen: set[int] = set()
    stack: list[tuple[Any, Resource, str]] = [(document.root.root, document.root, "")]
    while stack:
        schema, resource, path = stack.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        resource = document.owner.get(id(schema), resource)
        if "$ref" in schema and 4 <= document.draft <= 7:
            schema = {"$ref": schema["$ref"]}
        document.check(schema, path)
        yield schema, path
        for key in REFERENCES:
            if key in schema and document.reads(key):
                stack.append(document.resolve(Node(schema, resource, path, -1), key))
        for step, inner in subschemas(schema):
            if document.reads(step.partition("/")[0]):
                stack.append((inner, resource, f"{path}/{step}"))


def lacks(schema: dict[str, Any], path: str, asserts_format: bool, notation: Notation) -> Iterator[Narrowing]:
    """Yield the narrowings of one schema."""
    kind, pattern = schema.get("format"), schema.get("pattern")
    if asserts_format and kind in WITH_SIXTY:
        lost = True
        with suppress(UnsupportedConstraint, TooManyStates):
            lost = pattern is None or leaves_out(kind, pattern)
        if lost:
            yield Narrowing(f"{path}/format", "format", kind, *LEFT_OUT)
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if has_conditions(schema, listed, notation):
        yield EXPONENTS
    for value in listed:
        if isinstance(value, str) and not value.isascii() and not all(map(JSON.ways, value)):
            why = "a lone surrogate is no Unicode text"
            yield Narrowing(f"{path}/enum", "enum", ascii(value), "nothing", why)


def has_conditions(schema: dict[str, Any], listed: list[Any], notation: Notation) -> bool:
    """Return whether numbers have to be compared, so that they are written without an exponent."""
    types = schema.get("type", [])
    if "integer" in types and "number" not in types:
        return not (notation.plain or notation.whole)
    if any(map(is_number, listed)):
        return not notation.plain
    return any(key in schema for key in COMPARED)
