"""A JSON Schema together with the other documents to which it refers, as one document (JSON Schema 2020-12, 9.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import FormatError
from .document import Document, Schema, located, read_schema
from .vocabulary import REFERENCES, subschemas


def bundle(schema: Schema, documents: Mapping[str, Any]) -> Schema:
    """Return ``schema`` with the documents that it needs below ``$defs``, each with its URI as ``$id``.

    ``documents`` maps URIs to schemas; a ``referencing.Registry`` is such a mapping. A document is found by its key or by its own
    ``$id``, and is read in the draft of ``schema``. What is not found is left: its reference is refused where it is needed.
    """
    if not isinstance(documents, Mapping):
        raise FormatError(f"documents is a mapping of URIs to schemas, not {type(documents).__name__}")
    if not isinstance(schema, dict):
        return schema
    draft = Document(schema).draft
    name, place = "id" if draft == 4 else "$id", "definitions" if 4 <= draft <= 7 else "$defs"
    known, added, own = set[str](), dict[str, Schema](), dict[str, Any]()
    wanted = list(_references(schema, "", name, known))
    while wanted:
        uri = wanted.pop()
        if uri in known:
            continue
        known.add(uri)
        found = documents.get(uri, documents.get(f"{uri}#"))
        if found is None:
            own = own or _identified(documents)
            if (found := own.get(uri)) is None:
                continue
        found = read_schema(getattr(found, "contents", found))  # the values of a registry are resources
        if isinstance(found, dict):
            found = _named(found, uri, name, draft)
            wanted += _references(found, uri, name, known)
        added[uri] = found if isinstance(found, dict) else {name: uri, **({} if found else {"not": {}})}
    return schema | {place: schema.get(place, {}) | added} if added else schema


def _identified(documents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the documents by their own identifiers."""
    found = dict[str, Any]()
    for uri, document in documents.items():
        schema = read_schema(getattr(document, "contents", document))
        name = schema.get("$id", schema.get("id")) if isinstance(schema, dict) else None
        if isinstance(name, str):
            found[located(uri, name, "")[0] or uri] = schema
    return found


def _named(document: dict[str, Any], uri: str, name: str, draft: int) -> dict[str, Any]:
    """Return a document with the URI as its identifier, which drafts 4 to 7 would not read beside ``$ref``."""
    rest = {key: value for key, value in document.items() if key not in ("id", "$id", "$schema")}
    if "$ref" in rest and 4 <= draft <= 7:
        rest = {key: rest[key] for key in ("definitions", "$defs") if key in rest} | {
            "allOf": [{"$ref": rest["$ref"]}]
        }
    return {name: uri, **rest}


def _references(schema: dict[str, Any], base: str, name: str, known: set[str]) -> list[str]:
    """Return the URIs of the documents to which a schema refers; those of its own resources are added to ``known``."""
    found, stack = list[str](), [(schema, base)]
    while stack:
        schema, base = stack.pop()
        if isinstance(schema.get(name), str):
            base = located(base, schema[name], "")[0] or base
            known.add(base)
        for key in REFERENCES:
            if isinstance(schema.get(key), str) and (uri := located(base, schema[key], "")[0]):
                found.append(uri)
        stack += [(inner, base) for _, inner in subschemas(schema) if isinstance(inner, dict)]
    return found
