"""Tools as people write them → names and arguments with JSON Schemas.

Three spellings are read, and told apart by their shape:

    OpenAI   {"type": "function", "function": {"name", "description", "parameters": a JSON Schema}}
    BFCL     {"name", "description", "parameters": a JSON Schema with types "dict", "float", "tuple", "any", …}
    xLAM     {"name", "description", "parameters": {argument: {"type": "List[int], optional", "description", …}}}

``input_schema`` and ``inputSchema`` are read for ``parameters`` too. Types may be named in Python's, JSON Schema's or
Java's way. Objects that declare properties are closed unless they say otherwise.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import EmptyLanguage, FormatError, UnsupportedConstraint
from .given import short
from .json.closing import close_schema, close_types
from .json.vocabulary import FORMS, KEYWORDS

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
ANNOTATIONS = frozenset(
    [
        "description",
        "title",
        "default",
        "optional",
        "example",
        "examples",
        "$schema",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "unit",
    ]
)
"""Keys of a schema that say nothing about which values are allowed."""
ONE = (
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalProperties",
    "unevaluatedProperties",
)
SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
OTHER_FORMS = {
    "type": ("any",), "items": ("schema", "list"), "required": ("strings", "boolean"), "nullable": ("boolean",),
    "$defs": ("map",), "definitions": ("map",),
    **dict.fromkeys(SEVERAL, ("list",)),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), ("number", "boolean")),
}  # fmt: skip
"""The forms of values that JSON Schema's keywords have here, where they are others than ``FORMS`` has."""
OTHER_THAN_TYPE = frozenset(["enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "then", "else"])
"""Keywords that say of null, too, whether it is allowed."""


@dataclass(frozen=True)
class Tool:
    """A function that may be called: its arguments by name, in the order declared, and the names of those required.

    ``definitions`` are the schemas that the arguments refer to; ``rest`` are the assertions about all arguments together.
    """

    name: str
    arguments: dict[str, Schema]
    required: frozenset[str]
    definitions: dict[str, Any]
    rest: dict[str, Any]

    def schema(self) -> dict[str, Any]:
        """One JSON Schema of all arguments."""
        required = [name for name in self.arguments if name in self.required]
        closed = {} if "unevaluatedProperties" in self.rest else {"additionalProperties": False}
        return {
            "type": "object", "properties": self.arguments, "required": required, **closed,
            **self.definitions, **self.rest,
        }  # fmt: skip


def read_tools(tools: Any, *, tuples: bool) -> list[Tool]:
    """The tools, from a list of dicts, JSON text or a JSON (or JSON Lines) file; arrays stand for tuples if not ``tuples``.

    Raises ``FormatError`` for what is not a list of tools, ``UnsupportedConstraint`` with the place for a tool without
    a name, a name that occurs twice, an unknown type; ``EmptyLanguage`` for no tools.
    """
    found: list[Tool] = []
    names: set[str] = set()
    for index, tool in enumerate(load(tools)):
        found.append(read_tool(tool, f"tools[{index}]", tuples))
        if found[-1].name in names:
            raise UnsupportedConstraint(f"two tools are named {found[-1].name!r}", path=f"tools[{index}]")
        names.add(found[-1].name)
    if not found:
        raise EmptyLanguage("no tools, so nothing can be called; give at least one")
    return found


def load(tools: Any) -> list[Any]:
    """The list of tools as Python values."""
    try:
        if isinstance(tools, os.PathLike) or (isinstance(tools, str) and tools.endswith((".json", ".jsonl"))):
            tools = Path(tools).read_text(encoding="utf-8")
        if isinstance(tools, str):
            try:
                tools = json.loads(tools)
            except ValueError:
                tools = [json.loads(line) for line in tools.splitlines() if line.strip()]
        json.dumps(tools, allow_nan=False, ensure_ascii=False).encode()
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the tools cannot be read as JSON: {error}") from None
    tools = [tools] if isinstance(tools, Mapping) else tools
    if not isinstance(tools, list | tuple):
        raise FormatError(f"tools are a list of objects, not {tools!r}")
    return list(tools)


def read_tool(tool: Any, path: str, tuples: bool) -> Tool:
    """One tool, in any of the spellings."""
    if not isinstance(tool, Mapping):
        raise FormatError(f"{path} is {tool!r}; a tool is an object with a name and parameters")
    tool = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        raise UnsupportedConstraint("a tool needs a name", path=path)
    key = next((k for k in ("parameters", "input_schema", "inputSchema") if k in tool), "parameters")
    parameters, path = tool.get(key) or {}, f"{path}.{key}"
    if not isinstance(parameters, Mapping):
        raise FormatError(f"{path} of {name!r} is {parameters!r}; it should be an object")
    if parameters.get("nullable") is True:
        raise UnsupportedConstraint("the parameters of a tool are an object, not null", path=path)
    if is_schema(parameters):
        schema = normal(parameters, path, tuples)
    else:
        schema = normal(from_arguments(parameters, path), path, tuples)
    schema = close_types(schema) if tuples else close_schema(schema)  # Python's have no combinations
    if not isinstance(schema, dict) or schema.pop("type", "object") != "object":
        raise UnsupportedConstraint("the parameters of a tool are an object", path=path)
    arguments, required = schema.pop("properties", {}), schema.pop("required", [])
    if unknown := [n for n in required if n not in arguments]:
        raise UnsupportedConstraint(f"the required arguments {unknown} are not declared", path=path)
    if not schema.get("additionalProperties"):
        schema.pop("additionalProperties", None)
    definitions = {k: schema.pop(k) for k in [*schema] if k in ("$defs", "definitions")}
    return Tool(name, arguments, frozenset(required), definitions, schema)


def is_schema(parameters: Mapping[str, Any]) -> bool:
    """Whether the parameters are a JSON Schema, rather than arguments by name."""
    if isinstance(parameters.get("type"), str | list):
        return True
    properties = parameters.get("properties")
    return isinstance(properties, Mapping) and all(isinstance(p, Mapping | bool) for p in properties.values())


def from_arguments(parameters: Mapping[str, Any], path: str) -> dict[str, Any]:
    """The JSON Schema of arguments by name, each with a type such as ``"str, optional"``. Those without a default that
    are not called optional are required."""
    properties, required = {}, []
    for name, argument in parameters.items():
        if not isinstance(argument, Mapping):
            raise FormatError(f"{path}.{name} is {argument!r}; an argument is an object with a type")
        argument = dict(argument)
        needed = "default" not in argument and not argument.get("optional")
        if isinstance(said := argument.pop("required", None), bool):
            needed = said
        if isinstance(text := argument.get("type"), str):
            argument["type"], *more = re.split(r",\s*(?=optional|default)", text, maxsplit=1)
            needed = needed and not more
        properties[name] = argument
        required += [name] * needed
    return {"type": "object", "properties": properties, "required": required}


# ---------------------------------------------------------------- schemas in JSON Schema's own words


def normal(schema: Any, path: str, tuples: bool) -> Schema:
    """The schema with types by their JSON Schema names and annotations removed."""
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, Mapping):
        raise FormatError(f"{path} is {schema!r}; a schema is an object")
    result = {k: v for k, v in schema.items() if k not in ANNOTATIONS}
    for key, value in result.items():
        forms = OTHER_FORMS.get(key, KEYWORDS[key][:1] if key in KEYWORDS else ())
        if forms and not any(FORMS[form](value) for form in forms):
            raise FormatError(f"{path}.{key} is {short(value)}, which a schema cannot have there")
        if forms == ("count",):
            result[key] = int(value)  # 2.0 is 2
    for key in ONE:
        if isinstance(result.get(key), Mapping):
            result[key] = normal(result[key], f"{path}.{key}", tuples)
    more = result.pop("additionalItems", None)  # beside a list of schemas, and without one of no effect
    if isinstance(items := result.get("items"), list):
        result["prefixItems"] = items
        del result["items"]
        if more is not None:
            result["items"] = normal(more, f"{path}.additionalItems", tuples)
    elif items is not None:
        result["items"] = normal(items, f"{path}.items", tuples)
    for key in SEVERAL:
        if isinstance(result.get(key), list):
            result[key] = [normal(s, f"{path}.{key}[{i}]", tuples) for i, s in enumerate(result[key])]
    for key in NAMED:
        if isinstance(result.get(key), Mapping):
            inner = {n: normal(s, f"{path}.{key}.{n}", tuples) for n, s in result[key].items()}
            result[key] = inner
    if isinstance(result.get("required"), bool):
        del result["required"]  # said of the property itself: see with_required
    with_required(result, schema)
    if result.get("uniqueItems") is False:
        del result["uniqueItems"]
    nullable = result.pop("nullable", False)
    if "type" in result:
        own = of_types(result.pop("type"), path, tuples)
        if both := own.keys() & result.keys():  # List[int] beside items
            result["allOf"] = [*result.get("allOf", []), {key: own.pop(key) for key in both}]
        result.update(own)
    choices = result.get("enum")
    if result.get("type") in ("array", "tuple") and choices and not any(isinstance(c, list) for c in choices):
        # Said of the array, meant of its items: no array is among these values.
        items = result.get("items", {})
        result["items"] = {**(items if isinstance(items, dict) else {}), "enum": result.pop("enum")}
    return or_null(result) if nullable else result


def with_required(result: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Add the properties that say ``required: true`` themselves to those that the object requires."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    said = [n for n, s in properties.items() if isinstance(s, Mapping) and s.get("required") is True]
    if said:
        listed = result.get("required", [])
        result["required"] = [*listed, *(name for name in said if name not in listed)]


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of the same values, and null."""
    types = schema.get("type")
    if types is None or schema.keys() & OTHER_THAN_TYPE:
        return {"anyOf": [schema, {"type": "null"}]}
    types = [types] if isinstance(types, str) else types
    return {**schema, "type": [*types, *(["null"] if "null" not in types else [])]}


def of_types(types: Any, path: str, tuples: bool) -> dict[str, Any]:
    """The schema of a type, or of any of a list of types."""
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
        raise UnsupportedConstraint(f"unknown type {types!r}", path=path) from None
    return of_node(node, path, tuples)


def of_node(node: ast.expr, path: str, tuples: bool) -> dict[str, Any]:
    """The schema of a type written in Python: ``List[int]``, ``Dict[str, float]``, ``int | None``, ``Literal["a"]``."""

    def inner(part: ast.expr) -> dict[str, Any]:
        return of_node(part, path, tuples)

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
            raise UnsupportedConstraint(f"unknown type {ast.unparse(node)!r}", path=path)
        return {"type": "array" if kind == "tuple" and not tuples else kind}
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    fits = {"optional": (1, 1), "array": (1, 1), "object": (1, 2), "tuple": (0, math.inf)}
    least, most = fits.get(name if name in fits else kind or "", (1, math.inf))
    if not least <= len(parts) <= most:
        raise UnsupportedConstraint(f"{ast.unparse(node)!r} has {len(parts)} types within", path=path)
    if name == "union":
        return {"anyOf": [inner(part) for part in parts]}
    if name == "optional":
        return {"anyOf": [inner(parts[0]), {"type": "null"}]}
    if name == "literal":
        return {"enum": [constant(part, path) for part in parts]}
    if kind == "array":
        return {"type": "array", "items": inner(parts[0])}
    if kind == "object":
        if len(parts) == 2 and inner(parts[0]) not in ({"type": "string"}, {}):
            raise UnsupportedConstraint(
                f"{ast.unparse(node)!r} has keys that are no strings, which JSON's are", path=path
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
    raise UnsupportedConstraint(f"unknown type {ast.unparse(node)!r}", path=path)


def constant(node: ast.expr, path: str) -> Any:
    """A value of ``Literal[…]``. Raises ``UnsupportedConstraint`` for what JSON has not."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = ...
    if isinstance(value, str | int | float) or value is None:
        return value
    raise UnsupportedConstraint(f"{ast.unparse(node)!r} is no value of JSON", path=path)
