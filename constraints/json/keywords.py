"""The sets of values that satisfy, or violate, each keyword of JSON Schema (``values.py``).

    V(schema, +) = ∩ V(keyword, +)        V(schema, −) = ∪ V(keyword, −)

Negation is pushed down to the keywords and into the needs of members and items. So no complement is ever taken of a set that was
cut off at a depth.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata.work import at, spend
from .assertions import SHAPES, atom, constants, length, multiple_of, numeric_bound, types
from .closed_objects import APART, TRACKED
from .combinators import any_of, dependent, disjoint, meet_all, negation, one_of, reference
from .conditions import all_of, condition
from .document import Document, Subschema, knows, read_in
from .shapes import ANY, NEVER, Need
from .structures import (
    contains,
    discriminator,
    items,
    naming,
    objects,
    required,
    unevaluated,
    unique,
    violating,
)
from .values import EVERYTHING, NOTHING, Value, join
from .vocabulary import KEYWORDS, REFERENCES

OBJECT = ("properties", "patternProperties", "additionalProperties")
APPLICATORS = {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf"}
FIRST = (*OBJECT, "required", "discriminator")
"""Members are ordered as in the schema itself, then as in those that it combines."""
LATE = ("unevaluatedProperties", "unevaluatedItems")


class Circular(UnsupportedConstraint):
    """The error of a node whose values are needed to compute themselves."""


Keyword = Callable[["Evaluator", Subschema, bool, int], Value]
"""The rule of a keyword: from a node, the sign and ``tracked`` (see :meth:`Evaluator.value`) to values."""


class Evaluator:
    """The values of the nodes of a document, each computed once.

    ``asserts_format``: whether ``format`` asserts something. ``empty``: whether a shape has no value (False if that is not
    known). ``tuples``: whether the syntax has tuples beside arrays, which are then lists.
    """

    def __init__(
        self, document: Document, asserts_format: bool, empty: Callable[[Any], bool], tuples: bool
    ) -> None:
        self.document, self.asserts_format, self.tuples = document, asserts_format, tuples
        self.empty = empty
        self.needs: dict[tuple[int, bool], Need] = {}
        self.memo: dict[tuple[int, bool, int], Value] = {}
        self.active: set[tuple[int, bool, int]] = set()

    def need(self, schema: Any, node: Subschema, step: str, sign: bool = True) -> Need:
        """Return the need to satisfy (``sign``) or violate the schema at a step below a node."""
        if isinstance(schema, bool):
            return ANY if schema == sign else NEVER
        found = self.document.node(schema, node.resource, f"{node.path}/{step}")
        known = self.needs.get(key := (found.number, sign))
        return self.needs.setdefault(key, self.need_of(found, sign)) if known is None else known

    def need_of(self, node: Subschema, sign: bool = True) -> Need:
        """Return the need of a node, resolving a bare ``$ref``."""
        met = set[int]()
        while "$ref" in node.schema:
            asserting = [key for key in node.schema if self.document.reads(key)]
            if asserting != ["$ref"] and not 4 <= self.document.draft <= 7:
                break
            if node.number in met:
                raise UnsupportedConstraint("the reference leads back to itself", path=node.path)
            met.add(node.number)
            schema, resource, path = self.document.resolve(node, "$ref")
            if isinstance(schema, bool):
                return ANY if schema == sign else NEVER
            node = self.document.node(schema, resource, path)
        if KEYWORDS.keys().isdisjoint(node.schema):
            return ANY if sign else NEVER
        return frozenset([(node.number, sign)])

    def root(self) -> Need:
        """Return the need of a value that is valid against the whole document."""
        resource = self.document.root
        if isinstance(resource.root, bool):
            return ANY if resource.root else NEVER
        return self.need_of(self.document.node(resource.root, resource, ""))

    def below(self, schema: Any, node: Subschema, step: str, sign: bool, tracked: int = 0) -> Value:
        """Return the values that satisfy, or without ``sign`` violate, a schema inside a node that is about the same value."""
        if isinstance(schema, bool):
            return EVERYTHING if schema == sign else NOTHING
        return self.value(self.document.node(schema, node.resource, f"{node.path}/{step}"), sign, tracked)

    def value(self, node: Subschema, sign: bool, tracked: int = 0) -> Value:
        """Return the values that satisfy the node or, without ``sign``, violate it.

        ``tracked``, with ``sign``: 0, ``TRACKED`` or ``CLOSING`` of ``closed_objects.py``. If not 0, shapes record which members
        and items have been evaluated, and alternatives that evaluate different ones stay apart. Without ``sign``: 0 or
        ``APART``. Raises :class:`Circular`.
        """
        key = (node.number, sign, tracked)
        found = self.memo.get(key)
        if found is None:
            if key in self.active:
                raise Circular("the reference leads back to itself", path=node.path)
            self.active.add(key)
            try:
                found = self.memo[key] = self.work_out(node, sign, tracked)
            except TooManyStates as error:
                raise at(node.path, error) from None
            finally:
                self.active.discard(key)
        return found

    def possible(self, value: Value) -> Value:
        """Return the values without shapes that are known to be empty."""
        kept = [tuple(shape for shape in shapes if not self.empty(shape)) for shapes in value.shapes]
        return Value(value.null, value.boolean, *kept)

    def work_out(self, node: Subschema, sign: bool, tracked: int) -> Value:
        """Compute the JSON values that satisfy (``sign``) or violate a schema, keyword by keyword; :meth:`value` keeps them."""
        schema = node.schema
        if "$ref" in schema and (len(schema) == 1 or 4 <= self.document.draft <= 7):
            return reference(self, node, sign, tracked, "$ref")
        spend(140)
        rules, late = rules_of(tuple(schema), self.document.draft)
        parts = [rule(self, node, sign, TRACKED if late and sign else tracked) for rule in rules]
        if not sign:
            failing = (
                disjoint(parts, (rule(self, node, True, 0) for rule in rules))
                if tracked == APART
                else join(*parts)
            )
            if not late:
                return failing
            holding = meet_all(self, (rule(self, node, True, TRACKED) for rule in rules))
            return join(failing, *(violating(self, node, key, holding) for key in late))
        found = meet_all(self, parts)
        if "properties" in schema and not APPLICATORS.isdisjoint(schema):
            keys = list(schema)
            if not APPLICATORS.isdisjoint(keys[: keys.index("properties")]):
                found = found._replace(object=tuple(o.behind(schema["properties"]) for o in found.object))
        for key in late:
            found = unevaluated(self, node, key, found, tracked)
        return found


RULES: dict[str, Keyword] = {
    "type": types,
    "enum": partial(constants, key="enum"),
    "const": partial(constants, key="const"),
    **{
        key: partial(numeric_bound, key=key)
        for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    },
    "multipleOf": multiple_of,
    **{f"{end}{what}": partial(length, key=f"{end}{what}") for end in ("min", "max") for what in SHAPES},
    "pattern": partial(atom, key="pattern"),
    "format": partial(atom, key="format"),
    **dict.fromkeys(("prefixItems", "items", "additionalItems"), items),
    **dict.fromkeys(("contains", "minContains", "maxContains"), contains),
    "uniqueItems": unique,
    **dict.fromkeys(OBJECT, objects),
    "required": required,
    "discriminator": discriminator,
    "propertyNames": naming,
    **{key: partial(dependent, key=key) for key in ("dependentRequired", "dependentSchemas", "dependencies")},
    **{key: partial(reference, key=key) for key in REFERENCES},
    "allOf": all_of,
    "anyOf": any_of,
    "oneOf": one_of,
    "not": negation,
    "if": condition,
}
"""The rule of each keyword. One that several keywords have reads them together."""


@lru_cache(1024)
def rules_of(keywords: tuple[str, ...], draft: int) -> tuple[list[Keyword], list[str]]:
    """Return the rules of some keywords in a draft, in the order in which they are applied, and those of :data:`LATE`."""
    known = sorted(
        (key for key in keywords if key in RULES and key in read_in(draft)), key=lambda key: key not in FIRST
    )
    return list(dict.fromkeys(map(RULES.__getitem__, known))), [
        key for key in LATE if key in keywords and knows(draft, 2019)
    ]
