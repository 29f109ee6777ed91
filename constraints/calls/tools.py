"""Read tools as names and arguments with JSON Schemas.

``formats.py`` finds the parameters in what is written, ``python_tools.py`` reads functions and classes by signature and
docstring. Types may have their names in Python, JSON Schema or Java (``tool_types.py``). Objects that declare properties are
closed unless they say otherwise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import EmptyLanguage, FormatError, UnsupportedConstraint
from ..json.closed_objects import IN_PLACE, close_schema, map_subschemas
from ..json.python_types import is_type, type_name
from ..json.vocabulary import REFERENCES
from ..narrowing import Narrowing
from .formats import ToolDefinition, definition, entries
from .python_tools import is_tool
from .tool_types import Schema, normal

DEFINITIONS = ("$defs", "definitions")
COMBINED = (*REFERENCES, *IN_PLACE)
"""Keywords by which other schemas speak of the arguments, too."""
VALUES = ("properties", "patternProperties", "additionalProperties", "items", "prefixItems")
"""Keywords with the schemas of values within a value."""


@dataclass(frozen=True)
class Tool:
    """A function that may be called: its arguments by name in the declared order, and the required names.

    ``definitions`` are the schemas that the arguments refer to; ``rest`` are the assertions about all arguments together.
    ``path``: where its parameters are in what was given. ``plain``: integers are written without a point, as for Python functions
    and classes.
    ``narrowed``: where their types and these schemas differ.
    """

    name: str
    arguments: dict[str, Schema]
    required: frozenset[str]
    definitions: dict[str, Any]
    rest: dict[str, Any]
    path: str
    plain: bool = False
    narrowed: tuple[Narrowing, ...] = ()

    def schema(self) -> dict[str, Any]:
        """Return one JSON Schema of the object of all arguments."""
        required = [n for n in self.arguments if n in self.required] + sorted(
            self.required - self.arguments.keys()
        )
        return {
            "type": "object", "properties": self.arguments, "required": required, **self.definitions, **self.rest,
        }  # fmt: skip


def read_tools(tools: Any, *, tuples: bool) -> list[Tool]:
    """Read tools from a list of dicts, functions and classes, JSON text, or a JSON (or JSON Lines) file.

    Unless ``tuples``, tuple types are read as arrays.
    Raises ``FormatError`` for what is not a list of tools, and for what may hold parameters under a key that is not read;
    ``UnsupportedConstraint`` with the path for a tool without a name, a name that occurs twice, an unknown type;
    ``EmptyLanguage`` for no tools.
    """
    found: dict[str, Tool] = {}
    for tool, path in entries(load(tools)):
        read = read_tool(definition(tool, path), tuples)
        if read.name in found:
            raise UnsupportedConstraint(f"two tools are named {read.name!r}", path=path)
        found[read.name] = read
    if not found:
        raise EmptyLanguage("no tools, so nothing can be called; give at least one")
    return [*found.values()]


def load(tools: Any) -> list[Any]:
    """Load the list of tools as Python values."""
    try:
        if isinstance(tools, os.PathLike) or (isinstance(tools, str) and tools.endswith((".json", ".jsonl"))):
            tools = Path(tools).read_text(encoding="utf-8-sig")
        if isinstance(tools, str):
            tools = tools.removeprefix("\ufeff")
            try:
                tools = json.loads(tools)
            except ValueError:
                tools = [json.loads(line) for line in tools.splitlines() if line.strip()]
        tools = [tools] if isinstance(tools, Mapping) or is_tool(tools) else tools
        if isinstance(tools, list | tuple):
            written = [tool for tool in tools if not is_tool(tool)]
            json.dumps(written, allow_nan=False, ensure_ascii=False, default=name_of_class).encode()
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the tools cannot be read as JSON: {error}") from None
    if not isinstance(tools, list | tuple):
        raise FormatError(f"tools are a list of objects, not {tools!r}")
    return list(tools)


def name_of_class(value: Any) -> str:
    """Return the name of a class that stands for a schema. Raises ``TypeError`` for other values that JSON has not."""
    if not is_type(value):
        raise TypeError(f"{value!r} is no JSON")
    return type_name(value)


def read_tool(defined: ToolDefinition, tuples: bool) -> Tool:
    """Read the parameters of a tool."""
    name, parameters, path, plain, narrowed = defined
    if parameters.get("nullable") is True:
        raise UnsupportedConstraint("the parameters of a tool are an object, not null", path=path)
    schema = close_schema(normal(parameters, path, tuples))
    if not isinstance(schema, dict) or schema.pop("type", "object") != "object":
        raise UnsupportedConstraint("the parameters of a tool are an object", path=path)
    arguments, required = schema.pop("properties", {}), schema.pop("required", [])
    definitions = {k: schema.pop(k) for k in [*schema] if k in DEFINITIONS}
    if not schema.keys() & {*COMBINED, "additionalProperties", "unevaluatedProperties"}:
        schema["additionalProperties"] = False
    elif not schema.keys() & {"additionalProperties", "unevaluatedProperties"}:
        schema["unevaluatedProperties"] = False  # none of the schemas has properties; one may be a map
    if not schema.keys() & set(COMBINED) and (unknown := [n for n in required if n not in arguments]):
        raise UnsupportedConstraint(f"the required arguments {unknown} are not declared", path=path)
    arguments = {n: with_its_own(n, each, definitions) for n, each in arguments.items()}
    return Tool(name, arguments, frozenset(required), definitions, schema, path, plain, narrowed)


def with_its_own(name: str, schema: Schema, definitions: Mapping[str, Any]) -> Schema:
    """Return the schema of an argument; one with definitions of its own is a resource, with those of the tool before them."""
    if isinstance(schema, bool) or not schema.keys() & set(DEFINITIONS):
        return schema
    both = {key: {**schema.get(key, {}), **definitions.get(key, {})} for key in DEFINITIONS}
    return {"$id": f"urn:argument:{name}", **schema, **{key: each for key, each in both.items() if each}}


def with_references(tool: Tool, pattern: str) -> Tool:
    """Allow strings that match the pattern in place of every argument, item and property of a tool.

    Values that exactly one of several schemas allows (``oneOf``) stay as they are, but for the whole of an argument.
    Raises ``UnsupportedConstraint`` for ``oneOf`` of all arguments.
    """
    if "oneOf" in tool.rest:
        why = "references cannot stand in arguments of which one of several schemas holds; write anyOf in place of oneOf"
        raise UnsupportedConstraint(why, path=f"{tool.path}.oneOf")
    reference = {"type": "string", "pattern": f"^(?:{pattern})$"}

    def wrapped(schema: Any, step: str) -> Any:
        key = step.partition("/")[0]
        if not isinstance(schema, bool) and key not in ("oneOf", "not", "if", "propertyNames", "contains"):
            schema = map_subschemas(schema, wrapped)
            return {"anyOf": [schema, reference]} if key in VALUES else schema
        return schema

    whole = map_subschemas(tool.schema(), wrapped)
    definitions = {key: whole[key] for key in tool.definitions}
    rest = {key: whole[key] for key in tool.rest}
    return replace(tool, arguments=whole["properties"], definitions=definitions, rest=rest)


def json_text(text: str) -> bytes:
    """Encode a string as ``json.dumps`` does, without escapes for non-ASCII characters."""
    return json.dumps(text, ensure_ascii=False).encode()
