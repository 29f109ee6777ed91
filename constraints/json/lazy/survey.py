"""One walk over the schemas of a document: what no text of its automaton will have, and what is not supported.

The norms are those that JSON Schema names: ECMA-262 for patterns, RFCs for formats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....errors import UnsupportedConstraint
from ...narrowing import Narrowing, merged
from ..document import Document, Node, Resource
from ..formats import KNOWN, LEFT_OUT, REFUSED
from ..numbers import Notation
from ..patterns import readings, translate
from ..text import ways
from ..vocabulary import KEYWORDS, pointer, subschemas

MORE_THAN_RFC = frozenset(["email", "idn-email", "duration", "hostname"])
"""Formats of which only what no RFC has is left out."""
NEGATING = frozenset(["not", "oneOf", "if"])
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
EXPONENTS = Narrowing(
    "",
    "numbers",
    "integers, and numbers under a condition, in every way to write them",
    "decimals without an exponent",
    "digits can be compared only before an exponent says what they are worth; write 100, not 1e2",
)
PATTERN = "strings that validators may read in two ways are left out"


def is_exact(pattern: str, sign: bool) -> bool:
    """Whether the strings that have (or lack) a pattern are those of ECMA-262, but for the ends of lines."""
    if len(readings(pattern)) > 1:
        return False
    found, exact = translate(pattern, over=not sign), translate(pattern, over=None)
    dots = r"[^\n]", r"[^\n\r\u2028\u2029]"
    return found.replace(r"\n?$", "$").replace(*dots) == exact.replace(*dots)


class Survey:
    """The schemas that the root of a document may lead to."""

    def __init__(self, document: Document, asserts_format: bool, notation: Notation) -> None:
        self.document, self.asserts_format, self.notation = document, asserts_format, notation

    def narrowings(self) -> tuple[Narrowing, ...]:
        """What the automaton lacks of what the schemas say. Raises ``UnsupportedConstraint``."""
        return merged(
            each for schema, path, negated in self.schemas() for each in self.lacks(schema, path, negated)
        )

    def schemas(self) -> Iterator[tuple[dict[str, Any], str, bool]]:
        """The schemas below the root with their paths, and whether what they say may have to fail."""
        document = self.document
        seen: set[tuple[int, bool]] = set()
        stack: list[tuple[Any, Resource, str, bool]] = [(document.root.root, document.root, "", False)]
        while stack:
            schema, resource, path, negated = stack.pop()
            if not isinstance(schema, dict) or (id(schema), negated) in seen:
                continue
            seen.add((id(schema), negated))
            resource = document.owner.get(id(schema), resource)
            if "$ref" in schema and 4 <= document.draft <= 7:
                schema = {"$ref": schema["$ref"]}
            document.check(schema, path)
            yield schema, path, negated
            for key in REFERENCES:
                if isinstance(ref := schema.get(key), str) and document.knows(*KEYWORDS[key][1:]):
                    node = Node(schema, resource, path, -1)
                    if key != "$ref" and document.is_dynamic(ref, node):
                        raise UnsupportedConstraint(
                            f"{key} {ref!r} depends on what refers to it", path=f"{path}/{key}"
                        )
                    stack.append((*document.resolve(ref, node, key), negated))
            for step, inner in subschemas(schema):
                key = step.partition("/")[0]
                if key not in ("$defs", "definitions") and document.knows(*KEYWORDS[key][1:]):
                    stack.append((inner, resource, f"{path}/{step}", negated or key in NEGATING))

    def lacks(self, schema: dict[str, Any], path: str, negated: bool) -> Iterator[Narrowing]:
        """What is lacking of one schema."""
        pattern = schema.get("pattern")
        if pattern is not None and not all(is_exact(pattern, sign) for sign in {True, not negated}):
            yield Narrowing(f"{path}/pattern", "pattern", pattern, "strings read in one way", PATTERN)
        for pattern in schema.get("patternProperties", ()):
            if not (is_exact(pattern, True) and is_exact(pattern, False)):
                where = f"{path}/patternProperties/{pointer(pattern)}"
                yield Narrowing(where, "patternProperties", pattern, "names read in one way", PATTERN)
        kind = schema.get("format")
        if self.asserts_format and kind in KNOWN:
            if kind in REFUSED:
                raise UnsupportedConstraint(f"the format {kind!r} is not supported", path=f"{path}/format")
            if kind in LEFT_OUT and kind not in MORE_THAN_RFC:
                given = "strings that have the format beyond doubt"
                yield Narrowing(f"{path}/format", "format", kind, given, f"left out is {LEFT_OUT[kind]}")
        if self.has_conditions(schema):
            yield EXPONENTS
        listed = schema.get("enum", [schema["const"]] if "const" in schema else [])
        for value in listed if isinstance(listed, list) else ():
            if isinstance(value, str) and not value.isascii() and not all(map(ways, value)):
                why = "a lone surrogate is no Unicode text"
                yield Narrowing(f"{path}/enum", "enum", ascii(value), "nothing", why)

    def has_conditions(self, schema: dict[str, Any]) -> bool:
        """Whether numbers are asked for that must be compared, and so have no exponent."""
        plain, types = self.notation.plain, schema.get("type", [])
        if "integer" in types:
            return not (plain or self.notation.whole)
        if any(isinstance(v, int | float) and not isinstance(v, bool) for v in listed_values(schema)):
            return not plain
        return any(key in schema for key in COMPARED)


COMPARED = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def listed_values(schema: dict[str, Any]) -> list[Any]:
    """The values that ``enum`` or ``const`` lists."""
    found = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return found if isinstance(found, list) else []
