"""Normalize the schemas of tools to JSON Schema: names of types, annotations, loose keywords."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Mapping
from typing import Any

from ...errors import FormatError, UnsupportedConstraint
from ..json.vocabulary import APPLIED, FORMS, KEYWORDS, SILENT
from ..validation import short

Schema = dict[str, Any] | bool

TYPE_NAMES = {
    "string": "string", "str": "string", "char": "string",
    "integer": "integer", "int": "integer", "long": "integer", "short": "integer",
    "number": "number", "float": "number", "double": "number",
    "boolean": "boolean", "bool": "boolean",
    "null": "null", "none": "null", "nonetype": "null",
    "array": "array", "list": "array", "arraylist": "array", "sequence": "array", "iterable": "array",
    "tuple": "tuple",
    "object": "object", "dict": "object", "map": "object", "hashmap": "object", "mapping": "object", "dictionary": "object",
}  # fmt: skip
"""Names of types, in lower case, and the JSON Schema type they stand for; ``tuple`` stays apart for Python syntax."""
ANNOTATIONS = {
    *SILENT, "$schema", "optional", "example", "contentEncoding", "contentMediaType", "contentSchema", "unit",
}  # fmt: skip
"""Keywords that do not restrict the values allowed."""
OTHER_FORMS = {
    "type": ("any",), "items": ("schema", "list"), "required": ("strings", "boolean"), "nullable": ("boolean",),
    "$defs": ("map",), "definitions": ("map",),
    **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), ("list",)),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), ("number", "boolean")),
}  # fmt: skip
"""Forms that a keyword's value may have in tool schemas, where ``FORMS`` has others."""
OTHER_THAN_TYPE = frozenset(["enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"])
"""Keywords beside ``type`` that may exclude null."""
SPELLINGS = {
    **{re.sub("([A-Z])", r"_\1", key).lower(): key for key in KEYWORDS if key.isalpha() and not key.islower()},
    "type_": "type", "format_": "format", "defs": "$defs", "property_ordering": "propertyOrdering", "param_type": "type",
}  # fmt: skip
"""Keywords as Google's schemas and Llama Stack's spell them."""


def normal(schema: Any, path: str, tuples: bool) -> Schema:
    """Return the schema with JSON Schema's names of types and without annotations.

    Raises ``FormatError`` with the path.
    """
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping):
        raise FormatError(f"{path} is {schema!r}; a schema is an object")
    schema = {k: v for k, v in schema.items() if v is not None or k not in KEYWORDS or k == "const"}
    result = {keyword_of(k): v for k, v in schema.items() if k not in ANNOTATIONS}
    if len(result) < len(schema.keys() - ANNOTATIONS):
        raise FormatError(f"{path} has a keyword in two spellings, as anyOf and any_of; leave one")
    named = [
        k for k, v in result.items() if k not in KEYWORDS and isinstance(v, str) and v.lower() in TYPE_NAMES
    ]
    if named and "type" not in result:
        raise FormatError(f"{path}.{named[0]} may name a type, and is not read: write it as {path}.type")
    googled(result)
    for key, value in result.items():
        forms = OTHER_FORMS.get(key, KEYWORDS[key][:1] if key in KEYWORDS else ())
        if forms and not any(FORMS[form](value) for form in forms):
            raise FormatError(f"{path}.{key} is {short(value)}, which a schema cannot have there")
        if forms == ("count",):
            result[key] = int(value)  # 2.0 is 2
    more = result.pop("additionalItems", None)  # has an effect only beside a list of schemas in "items"
    if isinstance(items := result.get("items"), list):
        result["prefixItems"] = items
        del result["items"]
        if more is not None:
            result["items"] = normal(more, f"{path}.additionalItems", tuples)
    elif items is not None:
        result["items"] = normal(items, f"{path}.items", tuples)
    for key, form in APPLIED.items():
        inner, place = result.get(key), f"{path}.{key}"
        if form == "map" and inner is not None:
            result[key] = {name: normal(each, f"{place}.{name}", tuples) for name, each in inner.items()}
        elif form == "schemas" and inner is not None:
            result[key] = [normal(each, f"{place}[{i}]", tuples) for i, each in enumerate(inner)]
        elif form == "schema" and inner is not None:
            result[key] = normal(inner, place, tuples)
    if isinstance(result.get("required"), bool):
        del result["required"]  # a boolean belongs to the property: see with_required
    with_required(result, schema)
    nullable = result.pop("nullable", False)
    if "type" in result:
        own = of_types(result.pop("type"), path, tuples)
        if both := own.keys() & result.keys():  # List[int] beside items
            result["allOf"] = [*result.get("allOf", []), {key: own.pop(key) for key in both}]
        result.update(own)
    choices = result.get("enum")
    if result.get("type") in ("array", "tuple") and choices and not any(isinstance(c, list) for c in choices):
        # No value of the enum is an array, so the enum is meant for the items.
        items = result.get("items", {})
        result["items"] = {**(items if isinstance(items, dict) else {}), "enum": result.pop("enum")}
    return or_null(result) if nullable else result


def keyword_of(key: str) -> str:
    """Return the keyword of JSON Schema for a key, such as ``anyOf`` for ``any_of``."""
    return SPELLINGS.get(key, key)


def googled(schema: dict[str, Any]) -> None:
    """Rewrite in place what Google's schemas spell their own way: counts as text beside types in capitals,
    ``propertyOrdering``, references to ``#/defs/``, and numbers of an enum as text.
    """
    kind = schema.get("type")
    if isinstance(kind, str) and kind.isupper():
        for key, value in schema.items():
            if KEYWORDS.get(key, ("",))[0] == "count" and isinstance(value, str) and value.isdecimal():
                schema[key] = int(value)  # so JSON writes their integers of 64 bits
    if isinstance(ref := schema.get("ref"), str) and ref.startswith("#/defs/"):
        schema["$ref"] = f"#/$defs/{ref.removeprefix('#/defs/')}"
    order, properties = schema.pop("propertyOrdering", None), schema.get("properties")
    if isinstance(order, list) and isinstance(properties, Mapping):
        first = [name for name in order if isinstance(name, str) and name in properties]
        schema["properties"] = {name: properties[name] for name in dict.fromkeys([*first, *properties])}
    listed = schema.get("format") == "enum" and isinstance(schema.get("enum"), list)
    if listed and isinstance(kind, str) and TYPE_NAMES.get(kind.lower()) in ("integer", "number"):
        schema["enum"] = [json.loads(each) if is_numeral(each) else each for each in schema["enum"]]


def is_numeral(value: Any) -> bool:
    """Return whether a value is the text of a JSON number."""
    return isinstance(value, str) and re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", value, re.ASCII) is not None


def with_required(result: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Add the properties with ``required: true`` of their own to the required ones of the object."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    said = [n for n, s in properties.items() if isinstance(s, Mapping) and s.get("required") is True]
    if said:
        listed = result.get("required", [])
        result["required"] = [*listed, *(name for name in said if name not in listed)]


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema that also allows null."""
    types = schema.get("type")
    if types is None or schema.keys() & OTHER_THAN_TYPE:
        return {"anyOf": [schema, {"type": "null"}]}
    types = [types] if isinstance(types, str) else types
    return {**schema, "type": [*types, *(["null"] if "null" not in types else [])]}


def of_types(types: Any, path: str, tuples: bool) -> dict[str, Any]:
    """Return the schema of a type name, or of any of a list of type names."""
    if isinstance(types, list):
        parts = [of_types(one, path, tuples) for one in types]
        if all(part.keys() == {"type"} and isinstance(part["type"], str) for part in parts):
            return {"type": [part["type"] for part in parts]}
        return {"anyOf": parts}
    if not isinstance(types, str):
        raise UnsupportedConstraint(f"a type is named by a text, not {types!r}", path=path)
    try:
        node = ast.parse(types.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        raise UnsupportedConstraint(unknown(types), path=path) from None
    return of_node(node, types.strip(), path, tuples)


def of_node(node: ast.expr, text: str, path: str, tuples: bool) -> dict[str, Any]:
    """Return the schema of a Python type such as ``List[int]``, ``int | None``, ``Literal["a"]``, which is a part of ``text``."""
    spelled = ast.get_source_segment(text, node)

    def inner(part: ast.expr) -> dict[str, Any]:
        return of_node(part, text, path, tuples)

    if isinstance(node, ast.Constant) and node.value is None:
        return {"type": "null"}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return {"anyOf": [inner(node.left), inner(node.right)]}
    outer = node.value if isinstance(node, ast.Subscript) else node
    name = (outer.attr if isinstance(outer, ast.Attribute) else getattr(outer, "id", "")).lower()
    kind = TYPE_NAMES.get(name)
    if not isinstance(node, ast.Subscript):
        if name == "any":
            return {}
        if kind is None:
            raise UnsupportedConstraint(unknown(spelled), path=path)
        return {"type": "array" if kind == "tuple" and not tuples else kind}
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    fits = {"optional": (1, 1), "array": (1, 1), "object": (1, 2), "tuple": (0, math.inf)}
    least, most = fits.get(name if name in fits else kind or "", (1, math.inf))
    if not least <= len(parts) <= most:
        raise UnsupportedConstraint(f"{spelled!r} has {len(parts)} types within", path=path)
    if name == "union":
        return {"anyOf": [inner(part) for part in parts]}
    if name == "optional":
        return {"anyOf": [inner(parts[0]), {"type": "null"}]}
    if name == "literal":
        return {"enum": [constant(part, text, path) for part in parts]}
    if kind == "array":
        return {"type": "array", "items": inner(parts[0])}
    if kind == "object":
        if len(parts) == 2 and inner(parts[0]) not in ({"type": "string"}, {}):
            raise UnsupportedConstraint(
                f"{spelled!r} has keys that are no strings, which JSON's are", path=path
            )
        return {"type": "object", "additionalProperties": inner(parts[-1])}
    if kind == "tuple":
        own = {"type": "tuple" if tuples else "array"}
        if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is Ellipsis:
            return {**own, "items": inner(parts[0])}
        if not parts:
            return {**own, "maxItems": 0}
        size = len(parts)
        return {**own, "prefixItems": [inner(part) for part in parts], "minItems": size, "maxItems": size}
    raise UnsupportedConstraint(unknown(spelled), path=path)


def unknown(spelled: str | None) -> str:
    """Return the message for the name of a type that is none."""
    return (
        "types have their names in JSON Schema, Python or Java, and a format such as date-time stands beside type 'string': "
        f"unknown type {spelled!r}"
    )


def constant(node: ast.expr, text: str, path: str) -> Any:
    """Return a value of ``Literal[…]``. Raises ``UnsupportedConstraint`` if JSON has no such value."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = ...
    if isinstance(value, str | int | float) or value is None:
        return value
    raise UnsupportedConstraint(f"{ast.get_source_segment(text, node)!r} is no value of JSON", path=path)
