"""A JSON Schema document: its form as Python values, its nodes, the targets of its references.

A *node* is a schema at a place of the document. Schemas of equal content within one resource share one node, so that a result for
one holds for all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from ...errors import FormatError, UnsupportedConstraint
from .. import limits
from .drafts import IN_DRAFT_3, LATEST, draft_of, published
from .python_types import is_type, type_schema
from .vocabulary import (
    ANNOTATIONS,
    EVER,
    FORMS,
    KEYWORDS,
    REFERENCES,
    SILENT,
    all_are,
    is_number,
    is_schema,
    pointer,
    subschemas,
)

Schema = dict[str, Any] | bool
STRUCTURES = (dict, list, tuple)
SCALARS = {str, int, float, bool, type(None)}


def read_schema(schema: Any) -> Schema:
    """Return a schema as Python values, given as a dict, a boolean, JSON text, a path or a type.
    Raises ``FormatError``."""
    if is_type(schema):
        return type_schema(schema)
    try:
        if isinstance(schema, os.PathLike) or (isinstance(schema, str) and schema.endswith(".json")):
            schema = Path(schema).read_text(encoding="utf-8-sig")
        check_length(schema)
        if isinstance(schema, str):
            schema = json.loads(schema.removeprefix("\ufeff"))
            json.dumps(schema, allow_nan=False)  # a number that is no JSON, or too large
        else:
            schema = json.loads(json.dumps(schema, allow_nan=False))
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the schema cannot be read as JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise FormatError(f"a JSON Schema is an object or a boolean, not {schema!r}")
    return schema


def check_length(value: Any) -> None:
    """Raise ``ValueError`` if a structure has more than ``limits.LENGTH`` values as JSON text, shared parts written out."""
    todo, count = [value], 1
    for each in todo:
        if isinstance(each, STRUCTURES):
            count += len(each)
            if count > limits.LENGTH:
                why = f"it is more than {limits.LENGTH:,} values long where parts that are shared are written out"
                raise ValueError(why)
            inner = each.values() if isinstance(each, dict) else each
            todo += [part for part in inner if type(part) not in SCALARS]


def located(base: str, reference: str, path: str) -> tuple[str, str]:
    """Split a reference into its absolute URI and its fragment.
    The URI is empty if only a fragment is given."""
    try:
        uri, fragment = urldefrag(reference)
        return uri and urljoin(base, uri), fragment
    except ValueError as error:
        raise UnsupportedConstraint(f"{reference!r} is no URI: {error}", path=path) from None


@dataclass(eq=False)
class Resource:
    """A schema with a URI of its own, and its anchors by name: (schema, path, whether dynamic)."""

    uri: str
    root: Schema
    path: str
    anchors: dict[str, tuple[Any, str, bool]] = field(default_factory=dict)

    def is_dynamic(self, anchor: str) -> bool:
        """Return whether it has a dynamic anchor of this name; the empty text: ``$recursiveAnchor``."""
        if not anchor:
            return isinstance(self.root, dict) and self.root.get("$recursiveAnchor") is True
        return self.anchors.get(anchor, (None, "", False))[2]


@dataclass(eq=False)
class Subschema:
    """A schema object, its path in the document, and the resource that its references start from.
    ``number``: its index in ``Document.nodes``."""

    schema: dict[str, Any]
    resource: Resource
    path: str
    number: int


def knows(draft: int, since: int, until: int = EVER) -> bool:
    """Return whether a draft has what drafts ``since`` to ``until`` have; 0 has all."""
    return draft == 0 or since <= draft <= until


@lru_cache
def read_in(draft: int) -> dict[str, Callable[[Any], bool]]:
    """Return the keywords that assert something in a draft: by keyword whether it may have a value."""

    def exclusive(value: Any) -> bool:
        return (knows(draft, 4, 4) and isinstance(value, bool)) or (knows(draft, 6) and is_number(value))

    def items(value: Any) -> bool:
        return is_schema(value) or (knows(draft, 4, 2019) and all_are(value, is_schema))

    fits = FORMS | {"exclusive": exclusive, "items": items}
    return {key: fits[form] for key, (form, *drafts) in KEYWORDS.items() if knows(draft, *drafts)}


class Document:
    """One schema document: its resources, anchors and nodes. ``strict`` refuses unknown keywords."""

    def __init__(self, root: Schema, strict: bool = False) -> None:
        self.strict = strict
        named = draft_of(str(root.get("$schema", "")) if isinstance(root, dict) else "")
        self.draft = 4 if named == 3 else named
        self.read = read_in(self.draft)
        self.refused = IN_DRAFT_3 if named in (LATEST, 3) else {}
        self.nodes: list[Subschema] = []
        self.known: dict[tuple[int, int], Subschema] = {}  # the nodes by fingerprint and resource
        self.prints: dict[Any, int] = {}
        self.print_of: dict[int, tuple[int, Any]] = {}  # by id of a schema, its fingerprint and itself
        self.inner: dict[int, list[tuple[str, Any]]] = {}  # by id of a scanned schema, its subschemas
        self.owner: dict[int, Resource] = {}
        self.resources: dict[str, Resource] = {}
        self.targets: dict[tuple[str, str, int], tuple[Any, Resource, str]] = {}
        self.root = Resource("", root, "")
        self.resources[""] = self.root
        self.scan(root, self.root, "")

    def scan(self, schema: Any, resource: Resource, path: str) -> None:
        """Register the resources and anchors at and below a schema."""
        stack = [(schema, resource, path)] if isinstance(schema, dict) else []
        while stack:
            schema, resource, path = stack.pop()
            hidden = 4 <= self.draft <= 7 and "$ref" in schema  # drafts 4 to 7 ignore its siblings
            name = None if hidden else schema.get("id" if self.draft == 4 else "$id")
            if isinstance(name, str):
                uri, anchor = located(resource.uri, name, path)
                if uri:
                    resource = Resource(uri, schema, path)
                    self.resources[resource.uri] = resource
                    self.owner[id(schema)] = resource
                    if not path:
                        self.root = self.resources[""] = resource
                if anchor and 4 <= self.draft <= 7:
                    resource.anchors[anchor] = (schema, path, False)
            for key in ("$anchor", "$dynamicAnchor"):
                anchor = schema.get(key, "")
                if isinstance(anchor, str) and anchor and self.knows(2019 if key == "$anchor" else 2020):
                    resource.anchors[anchor] = (schema, path, key == "$dynamicAnchor")
            found = self.inner[id(schema)] = subschemas(schema)
            stack += [(s, resource, f"{path}/{step}") for step, s in found[::-1] if isinstance(s, dict)]

    def below(self, schema: dict[str, Any]) -> list[tuple[str, Any]]:
        """Return the subschemas of a schema, as :func:`.subschemas`."""
        found = self.inner.get(id(schema))
        return subschemas(schema) if found is None else found

    def knows(self, since: int, until: int = EVER) -> bool:
        """Return whether the document's draft has what drafts ``since`` to ``until`` have."""
        return knows(self.draft, since, until)

    def reads(self, key: str) -> bool:
        """Return whether a keyword asserts something in the document's draft."""
        return key in self.read

    # ------------------------------------------------------------ nodes

    def node(self, schema: dict[str, Any], resource: Resource, path: str) -> Subschema:
        """Return the node of a schema; schemas of equal content in one resource share it."""
        resource = self.owner.get(id(schema), resource)
        key = self.fingerprint(schema), id(resource)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Subschema(schema, resource, path, len(self.nodes))
            self.nodes.append(found)
        return found

    def fingerprint(self, schema: Any) -> int:
        """Return a number that schemas with equal content share.
        Annotations such as titles are ignored; the order of members counts."""
        known = self.print_of.get(id(schema))
        if known is not None:
            return known[0]
        if not isinstance(schema, dict):
            return self.prints.setdefault(repr(schema), len(self.prints))
        inner = [(step, self.fingerprint(each)) for step, each in self.below(schema)]
        left_out = SILENT.union([step.partition("/")[0] for step, _ in inner]) if inner else SILENT
        own = repr([item for item in schema.items() if item[0] not in left_out])
        number = self.prints.setdefault((own, *inner) if inner else own, len(self.prints))
        self.print_of[id(schema)] = number, schema  # kept alive, so that no other schema gets its id
        return number

    def check(self, schema: dict[str, Any], path: str) -> None:
        """Raise ``UnsupportedConstraint`` if a keyword's value has the wrong form.
        If strict, also if no draft defines a keyword."""
        if "$ref" in schema and 4 <= self.draft <= 7:
            schema = {"$ref": schema["$ref"]}
        for key, value in schema.items():
            if (fits := self.read.get(key)) is not None:
                if not fits(value):
                    raise UnsupportedConstraint(self.unfit(key, value), path=f"{path}/{pointer(key)}")
            elif key in self.refused:
                why = f"{key!r} is a keyword of draft 3, which is not read; since draft 4 it is {self.refused[key]!r}"
                raise UnsupportedConstraint(why, path=f"{path}/{key}")
            elif self.strict and key not in KEYWORDS and key not in ANNOTATIONS:
                raise UnsupportedConstraint(f"no draft has a keyword {key!r}", path=f"{path}/{pointer(key)}")

    @staticmethod
    def unfit(key: str, value: Any) -> str:
        """Return the message for a value that a keyword may not have."""
        if key == "required" and isinstance(value, bool):
            why = f"'required': {str(value).lower()} is of draft 3, which is not read; since draft 4 it is a list of names"
            return f"{why} beside 'properties'"
        return f"{key!r} has a value of the wrong kind: {str(value)[:80]}"

    # ------------------------------------------------------------ references

    def resolve(self, node: Subschema, keyword: str) -> tuple[Any, Resource, str]:
        """Return the target of a node's reference within the document: (schema, its resource, its path).
        Raises ``UnsupportedConstraint``."""
        key = (keyword, node.schema[keyword], id(node.resource))
        if key not in self.targets:
            self.targets[key] = self.target(node, keyword)
        return self.targets[key]

    def target(self, node: Subschema, keyword: str) -> tuple[Any, Resource, str]:
        """Return the schema that a reference (``$ref``, …) of a node points to, its resource, and its path there."""
        ref, where = node.schema[keyword], f"{node.path}/{keyword}"
        uri, fragment = located(node.resource.uri, ref, where)
        target = self.resource(uri, where) if uri else node.resource
        if target is not None and keyword != "$ref" and target.is_dynamic(fragment):
            entries = self.entries(fragment)
            if len(entries) != 1:
                raise UnsupportedConstraint(f"{keyword} {ref!r} depends on what refers to it", path=where)
            (target,) = entries
        if target is None:
            raise UnsupportedConstraint(
                f"{ref!r} leads out of the document; give the other one in documents={{{uri!r}: schema}}",
                path=where,
            )
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            if fragment not in target.anchors:
                raise UnsupportedConstraint(f"{ref!r} points to nothing", path=where)
            schema, path, _ = target.anchors[fragment]
            return schema, target, path
        schema, path = target.root, target.path
        for step in fragment.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, dict) and step in schema:
                schema = schema[step]
            elif isinstance(schema, list) and step.isdecimal() and len(step) < 9 and int(step) < len(schema):
                schema = schema[int(step)]
            else:
                raise UnsupportedConstraint(f"{ref!r} points to nothing", path=where)
            target = self.owner.get(id(schema), target)
            path += f"/{pointer(step)}"
        if not is_schema(schema):
            raise UnsupportedConstraint(f"{ref!r} points to no schema", path=where)
        return schema, target, path

    def resource(self, uri: str, path: str) -> Resource | None:
        """Return the resource of a URI: one of the document, or one of json-schema.org."""
        if uri not in self.resources and (found := published(uri, self.draft, path)) is not None:
            self.owner[id(found)] = Resource(uri, found, uri)
            self.scan(found, self.owner[id(found)], uri)
            self.resources[uri] = self.owner[id(found)]  # that of its own identifier, if it has one
        return self.resources.get(uri)

    def entries(self, anchor: str) -> list[Resource]:
        """Return the resources with a dynamic anchor to which others without it lead, or the document begins with.

        ``anchor``: a ``$dynamicAnchor``, or the empty text for ``$recursiveAnchor``. One of these resources is the outermost
        that has the anchor wherever a dynamic reference is read; a single one is thus its target.
        """
        found, seen = dict[int, Resource](), set[int]()
        stack: list[tuple[Any, Resource, str]] = [(self.root.root, self.root, "")]
        while stack:
            schema, resource, path = stack.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            resource = self.owner.get(id(schema), resource)
            if resource.is_dynamic(anchor):
                found[id(resource)] = resource
                continue
            for key in REFERENCES:
                if key in schema and self.reads(key):
                    _uri, fragment = located(resource.uri, schema[key], path)
                    if key != "$ref" and fragment != anchor:
                        dynamic = [each for each in self.resources.values() if each.is_dynamic(fragment)]
                        stack += [(each.root, each, each.path) for each in dynamic]
                    stack.append(self.target(Subschema({"$ref": schema[key]}, resource, path, -1), "$ref"))
            for step, inner in subschemas(schema):
                if self.reads(step.partition("/")[0]):
                    stack.append((inner, resource, f"{path}/{step}"))
        return list(found.values())
