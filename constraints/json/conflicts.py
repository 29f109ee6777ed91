"""The keywords for which no value satisfies a schema.

Keywords are left out, outer ones first and ``properties`` after those beside it, as long as the rest has no value either. Of a
schema without a value each keyword that is then left is needed for that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...errors import TooManyStates, TractileError
from .. import limits
from ..automata.work import attempt
from ..program.nodes import NOTHING
from ..validation import short
from .document import Schema
from .nodes import Reading, value_node
from .text import Style
from .vocabulary import ANNOTATIONS, KEYWORDS, subschemas

MOST_TRIED = 200
Assertion = tuple[str, str, Any]
"""The path of a schema, a keyword and its value."""


def conflict(root: Schema, reading: Reading, style: Style) -> str:
    """Return the end of a message that names the keywords; empty if that takes too long to find."""
    if not isinstance(root, dict):
        return ": the schema is false"
    schema, tried = copy.deepcopy(root), 0
    queue: list[tuple[str, dict[str, Any]]] = [("", schema)]
    left: list[Assertion] = []
    try:
        with attempt(limits.WORK):
            if endless := without_end(root, lambda found: has_no_value(found, reading, style)):
                return endless
            for path, inner in queue:
                for key in sorted((key for key in inner if key not in ANNOTATIONS), key="properties".__eq__):
                    value, tried = inner.pop(key), tried + 1
                    if tried > MOST_TRIED:
                        return ""
                    if not has_no_value(schema, reading, style):
                        inner[key] = value
                below = [(step, each) for step, each in subschemas(inner) if isinstance(each, dict)]
                queue += [(f"{path}/{step}", each) for step, each in below]
    except (TooManyStates, RecursionError):
        return ""
    for path, inner in queue:
        held = {step.partition("/")[0] for step, each in subschemas(inner) if isinstance(each, dict) and each}
        left += [(path, key, value) for key, value in inner.items() if key in KEYWORDS and key not in held]
    return said(left)


def without_end(root: dict[str, Any], is_empty: Callable[[Schema], bool]) -> str:
    """Return the end of a message that names a reference by which each value needs another one of the same schema, without end;
    empty if there is none: if there is no value either where references go round once only."""
    inside = dict(schemas_in(copy.deepcopy(root)))
    targets = {
        path: inner["$ref"].removeprefix("#")
        for path, inner in inside.items()
        if isinstance(inner.get("$ref"), str) and inner["$ref"].removeprefix("#") in inside
    }
    after = {
        path: {each for each in targets if f"{each}/".startswith(f"{target}/")}
        for path, target in targets.items()
    }
    circular = [path for path in targets if path in closure(after, path)]
    if not circular:
        return ""
    once = dict(schemas_in(copy.deepcopy(root)))
    for path in circular:
        del inside[path]["$ref"], once[path]["$ref"]
    for path in circular:
        once[path]["allOf"] = [*once[path].get("allOf", ()), inside[targets[path]]]
    if is_empty(once[""]):
        return ""

    def is_needed(path: str) -> bool:
        less = dict(schemas_in(copy.deepcopy(root)))
        del less[path]["$ref"]
        return not is_empty(less[""])

    path = next(filter(is_needed, circular), circular[0])
    return (
        f": {path}/$ref {'#' + targets[path]!r} needs a value of the same schema in each value, without end; let one do without: "
        "a member that is not required, an array that may be empty, another alternative"
    )


def closure(after: dict[str, set[str]], path: str) -> set[str]:
    """Return the paths that are reached from one in at least one step."""
    found, todo = set[str](), list(after[path])
    while todo:
        each = todo.pop()
        if each not in found:
            found.add(each)
            todo += after[each]
    return found


def schemas_in(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and those within it, with their paths."""
    yield path, schema
    for step, inner in subschemas(schema):
        if isinstance(inner, dict):
            yield from schemas_in(inner, f"{path}/{step}")


def has_no_value(schema: Schema, reading: Reading, style: Style) -> bool:
    """Return whether certainly no value satisfies a schema."""
    with suppress(TractileError):
        node, _ = value_node(schema, style, replace(reading, strict=False))
        return node is NOTHING
    return False


def said(left: list[Assertion]) -> str:
    """Return the end of a message: the keywords of the innermost schema if they are several, else all of them."""
    depth = max((path.count("/") for path, _, _ in left), default=0)
    inner = [each for each in left if each[0].count("/") == depth]
    telling = [each for each in inner if each[1] != "type"]
    some = telling if len(telling) > 1 else inner if len(inner) > 1 else left
    paths = {path for path, _, _ in some}
    if not some:
        return ""
    if len(paths) == 1:
        place = f"{next(iter(paths))}: " if paths != {""} else ""
        names = [f"{key} {short(value)}" for _, key, value in some]
    else:
        place, names = "", [f"{path}/{key} {short(value)}" for path, key, value in some]
    verb = "contradict each other" if len(names) > 1 else "allows no value"
    return f": {place}{' and '.join(names[:4])}{', among others,' if len(names) > 4 else ''} {verb}"
