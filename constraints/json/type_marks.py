"""Marks in the schema of a type: where the type and the schema differ, and why.

A mark is a member of a schema that no keyword reads. ``narrowings`` takes the marks out again, with the path of each.
"""

from __future__ import annotations

from typing import Any

from ...circuits.narrowing import VALIDATOR, Narrowing
from ...errors import UnsupportedConstraint
from .closed_objects import map_subschemas
from .formats import KNOWN
from .type_texts import TEXTS

Schema = dict[str, Any]

MARK = "x-tractile-differs"
"""The member of a schema that holds its marks: lists of keyword, asked, given, why."""
NAMES = "x-tractile-names"
"""The member of a schema that holds the names which stand for its listed values, as keys of a ``dict``."""
REFUSED = "refused"
"""The keyword of the mark of a type that is refused."""


def differing(schema: Schema, keyword: str, asked: str, given: str, why: str) -> Schema:
    """Return a schema with a mark: ``given`` is what the schema allows, ``asked`` what the type accepts."""
    return with_marks(schema, [[keyword, asked, given, why]])


def with_marks(schema: Schema, marks: list[list[str]]) -> Schema:
    """Return a schema with further marks."""
    known = schema.get(MARK, [])
    return {**schema, MARK: [*known, *(mark for mark in marks if mark not in known)]}


def refused(why: str) -> Schema:
    """Return the schema of a type that is refused where it is used."""
    return {MARK: [[REFUSED, "", "", why]]}


def validated(schema: Schema, name: str) -> Schema:
    """Return a schema with the mark of a function that may refuse values."""
    why = "a Python function is not read; the parser of the type runs it, and tt.generate gives what it refuses weight zero"
    return differing(schema, VALIDATOR, f"the values that {name} passes", "all values of the schema", why)


def narrowings(schema: Any, path: str = "") -> tuple[Any, tuple[Narrowing, ...]]:
    """Return a schema with the texts of its types and without marks, and the narrowings that the marks say.

    Strings of a format that Pydantic names and no draft defines become strings of its pattern. Raises ``UnsupportedConstraint``
    for a type that is refused.
    """
    if not isinstance(schema, dict):
        return schema, ()
    schema = written(schema)
    schema.pop(NAMES, None)
    found = list[Narrowing]()
    for keyword, asked, given, why in schema.pop(MARK, []):
        if keyword == REFUSED:
            raise UnsupportedConstraint(why, path=path)
        found.append(Narrowing(path, keyword, asked, given, why))
    schema, dropped = without_refused(schema)
    found += (Narrowing(path, "anyOf", "all of its types", "the others", why) for why in dropped)

    def clean(inner: Any, step: str) -> Any:
        made, more = narrowings(inner, f"{path}/{step}")
        found.extend(more)
        return made

    return map_subschemas(schema, clean), tuple(found)


def without_refused(schema: Schema) -> tuple[Schema, list[str]]:
    """Return a schema without the alternatives that are refused, where others are left, and why each is."""
    ways = schema.get("anyOf", [])
    why = [mark[3] for way in ways for mark in way.get(MARK, []) if mark[0] == REFUSED]
    kept = [way for way in ways if all(mark[0] != REFUSED for mark in way.get(MARK, []))]
    return ({**schema, "anyOf": kept}, why) if why and kept else (schema, [])


def written(schema: Schema) -> Schema:
    """Return a copy of a schema in which the format of a type has become its texts."""
    name = schema.get("format")
    if name in KNOWN or not isinstance(name, str) or name not in TEXTS or schema.get("type") != "string":
        return dict(schema)
    texts, given, why = TEXTS[name]
    schema = texts(schema) if callable(texts) else schema | texts
    schema = {key: value for key, value in schema.items() if key != "format"}
    return differing(schema, "format", f"all texts of {name!r}", given, why) if given else schema
