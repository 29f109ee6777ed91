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
from .text import ways
from .vocabulary import KEYWORDS, subschemas

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
EXPONENTS = Narrowing(
    "",
    "numbers",
    "integers, and numbers under a condition, in every way to write them",
    "decimals without an exponent",
    "digits can be compared only before an exponent says what they are worth; write 100, not 1e2",
)


class Survey:
    """The schemas that are reached from the root of a document."""

    def __init__(self, document: Document, asserts_format: bool, notation: Notation) -> None:
        self.document, self.asserts_format, self.notation = document, asserts_format, notation

    def narrowings(self) -> tuple[Narrowing, ...]:
        """Return what the automaton lacks of what the schemas say. Raises ``UnsupportedConstraint``."""
        return merged(each for schema, path in self.schemas() for each in self.lacks(schema, path))

    def schemas(self) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the schemas reached from the root, with their paths."""
        document = self.document
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
                if isinstance(ref := schema.get(key), str) and document.knows(*KEYWORDS[key][1:]):
                    node = Node(schema, resource, path, -1)
                    if key != "$ref" and document.is_dynamic(ref, node):
                        raise UnsupportedConstraint(
                            f"{key} {ref!r} depends on what refers to it", path=f"{path}/{key}"
                        )
                    stack.append(document.resolve(ref, node, key))
            for step, inner in subschemas(schema):
                key = step.partition("/")[0]
                if key not in ("$defs", "definitions") and document.knows(*KEYWORDS[key][1:]):
                    stack.append((inner, resource, f"{path}/{step}"))

    def lacks(self, schema: dict[str, Any], path: str) -> Iterator[Narrowing]:
        """Yield the narrowings of one schema."""
        kind, pattern = schema.get("format"), schema.get("pattern")
        if self.asserts_format and kind in [*WITH_SIXTY]:
            lost = True
            with suppress(UnsupportedConstraint, TooManyStates):
                lost = pattern is None or leaves_out(kind, pattern)
            if lost:
                yield Narrowing(f"{path}/format", "format", kind, *LEFT_OUT)
        if self.has_conditions(schema):
            yield EXPONENTS
        listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
        for value in listed if isinstance(listed, list) else ():
            if isinstance(value, str) and not value.isascii() and not all(map(ways, value)):
                why = "a lone surrogate is no Unicode text"
                yield Narrowing(f"{path}/enum", "enum", ascii(value), "nothing", why)

    def has_conditions(self, schema: dict[str, Any]) -> bool:
        """Return whether numbers have to be compared, so that they are written without an exponent."""
        plain, types = self.notation.plain, schema.get("type", [])
        if "integer" in types and "number" not in types:
            return not (plain or self.notation.whole)
        if any(isinstance(v, int | float) and not isinstance(v, bool) for v in listed_values(schema)):
            return not plain
        return any(key in schema for key in COMPARED)


COMPARED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def listed_values(schema: dict[str, Any]) -> list[Any]:
    """Return the values that ``enum`` or ``const`` lists."""
    found = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return found if isinstance(found, list) else []
