"""The place in a schema of what its automaton lacks: the path of the keyword."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...errors import UnsupportedConstraint
from .document import Node
from .shapes import NEVER, Need
from .vocabulary import pointer

if TYPE_CHECKING:
    from .needs import Needs

MOST_SEARCHED = 200
"""The most schemas searched for the keyword of one narrowing."""


def bound(needs: Needs, need: Need, what: str, most: int | None) -> tuple[str, str]:
    """Return the path and the keyword of an upper bound.
    It is ``max…``, a violated ``min…``, or ``pattern``."""
    found = said(needs, need, f"max{what}", most)
    if found is None and most is not None:
        found = said(needs, need, f"min{what}", most + 1)
        if found is not None:
            return found, f"min{what}"
    if found is None and what == "Length":
        counted = said(needs, need, "pattern", None)
        if counted is not None:
            return counted, "pattern"
    return needs.where(need) if found is None else found, f"max{what}"


def place(needs: Needs, need: Need, keyword: str, value: Any) -> str:
    """Return the path of the schema that has this keyword and value, else that of the need."""
    found = said(needs, need, keyword, value)
    return needs.where(need) if found is None else found


def said(needs: Needs, need: Need, keyword: str, value: Any) -> str | None:
    """Return the path of a schema with a keyword of this value (``None``: any).
    Schemas of the need are searched, and those that they combine. Return ``None`` if there is none."""
    if need == NEVER:
        return None
    queue = [needs.document.nodes[number] for number, _ in sorted(need)]
    for node in queue:
        said = node.schema.get(keyword, ())
        if keyword in node.schema and (
            said == value or value is None or (isinstance(said, dict) and value in said)
        ):
            return node.path
        if len(queue) < MOST_SEARCHED:
            queue += [n for n in in_place(needs, node) if n not in queue]
    return None


def in_place(needs: Needs, node: Node) -> Iterator[Node]:
    """Yield the schemas that a schema combines at its own place."""
    document, schema = needs.document, node.schema
    steps = [(key, schema.get(key)) for key in ("not", "if", "then", "else")]
    for key in ("allOf", "anyOf", "oneOf"):
        if isinstance(some := schema.get(key), list):
            steps += [(f"{key}/{i}", s) for i, s in enumerate(some)]
    for key in ("dependentSchemas", "dependencies"):  # an older draft lets one of them be anything
        if isinstance(named := schema.get(key), dict):
            steps += [(f"{key}/{pointer(name)}", s) for name, s in named.items()]
    with suppress(UnsupportedConstraint):
        if isinstance(reference := schema.get("$ref"), str):
            target, resource, path = document.resolve(reference, node, "$ref")
            if isinstance(target, dict):
                yield document.node(target, resource, path)
        for step, inner in steps:
            if isinstance(inner, dict):
                yield document.node(inner, node.resource, f"{node.path}/{step}")
