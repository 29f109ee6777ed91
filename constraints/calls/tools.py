"""Read tools in their usual formats as names and arguments with JSON Schemas.

Three formats are read, and told apart by their shape:

    OpenAI   {"type": "function", "function": {"name", "description", "parameters": a JSON Schema}}
    BFCL     {"name", "description", "parameters": a JSON Schema with types "dict", "float", "tuple", "any", …}
    xLAM     {"name", "description", "parameters": {argument: {"type": "List[int], optional", "description", …}}}

Python functions and classes are read by signature and docstring (``python_tools.py``).
``input_schema`` and ``inputSchema`` are accepted in place of ``parameters``. Types may have their names in Python, JSON
Schema or Java. Objects that declare properties are closed unless they say otherwise.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import EmptyLanguage, FormatError, UnsupportedConstraint
from ..json.closed_objects import close_schema
from .python_tools import described, is_tool
from .tool_types import Schema, normal

DEFINITIONS = ("$defs", "definitions")


@dataclass(frozen=True)
class Tool:
    """A function that may be called: its arguments by name in the declared order, and the required names.

    ``definitions`` are the schemas that the arguments refer to; ``rest`` are the assertions about all arguments together.
    ``plain``: integers are written without a point, as for Python functions and classes.
    """

    name: str
    arguments: dict[str, Schema]
    required: frozenset[str]
    definitions: dict[str, Any]
    rest: dict[str, Any]
    plain: bool = False

    def schema(self) -> dict[str, Any]:
        """Return one JSON Schema of the object of all arguments."""
        required = [name for name in self.arguments if name in self.required]
        closed = {} if "unevaluatedProperties" in self.rest else {"additionalProperties": False}
        return {
            "type": "object", "properties": self.arguments, "required": required, **closed,
            **self.definitions, **self.rest,
        }  # fmt: skip


def read_tools(tools: Any, *, tuples: bool) -> list[Tool]:
    """Read tools from a list of dicts, functions and classes, JSON text, or a JSON (or JSON Lines) file.

    Unless ``tuples``, tuple types are read as arrays.

    Raises ``FormatError`` for what is not a list of tools; ``UnsupportedConstraint`` with the path for a tool without a name,
    a name that occurs twice, an unknown type; ``EmptyLanguage`` for no tools.
    """
    found: list[Tool] = []
    names: set[str] = set()
    for index, tool in enumerate(load(tools)):
        spelled, path = described(tool) if is_tool(tool) else tool, f"tools[{index}]"
        found.append(replace(read_tool(spelled, path, tuples), plain=is_tool(tool)))
        if found[-1].name in names:
            raise UnsupportedConstraint(f"two tools are named {found[-1].name!r}", path=f"tools[{index}]")
        names.add(found[-1].name)
    if not found:
        raise EmptyLanguage("no tools, so nothing can be called; give at least one")
    return found


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
            json.dumps(written, allow_nan=False, ensure_ascii=False).encode()
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"the tools cannot be read as JSON: {error}") from None
    if not isinstance(tools, list | tuple):
        raise FormatError(f"tools are a list of objects, not {tools!r}")
    return list(tools)


def read_tool(tool: Any, path: str, tuples: bool) -> Tool:
    """Read one tool in any of the formats (OpenAI, BFCL, xLAM)."""
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
    schema = close_schema(schema)
    if not isinstance(schema, dict) or schema.pop("type", "object") != "object":
        raise UnsupportedConstraint("the parameters of a tool are an object", path=path)
    arguments, required = schema.pop("properties", {}), schema.pop("required", [])
    if unknown := [n for n in required if n not in arguments]:
        raise UnsupportedConstraint(f"the required arguments {unknown} are not declared", path=path)
    if not schema.get("additionalProperties"):
        schema.pop("additionalProperties", None)
    definitions = {k: schema.pop(k) for k in [*schema] if k in DEFINITIONS}
    arguments = {n: with_its_own(n, each, definitions) for n, each in arguments.items()}
    return Tool(name, arguments, frozenset(required), definitions, schema)


def is_schema(parameters: Mapping[str, Any]) -> bool:
    """Return whether the parameters are a JSON Schema rather than arguments by name."""
    if isinstance(parameters.get("type"), str | list):
        return True
    properties = parameters.get("properties")
    return isinstance(properties, Mapping) and all(isinstance(p, Mapping | bool) for p in properties.values())


def from_arguments(parameters: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the JSON Schema of arguments by name, each with a type such as ``"str, optional"``.

    An argument is required unless it has a default or is marked optional; a boolean ``required`` overrides that.
    """
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


def with_its_own(name: str, schema: Schema, definitions: Mapping[str, Any]) -> Schema:
    """Return the schema of an argument; one with definitions of its own is a resource, with those of the tool before them."""
    if isinstance(schema, bool) or not schema.keys() & set(DEFINITIONS):
        return schema
    both = {key: {**schema.get(key, {}), **definitions.get(key, {})} for key in DEFINITIONS}
    return {"$id": f"urn:argument:{name}", **schema, **{key: each for key, each in both.items() if each}}


def with_references(tool: Tool, pattern: str) -> Tool:
    """Allow strings that match the pattern in place of every argument, item and property of a tool."""
    reference = {"type": "string", "pattern": f"^(?:{pattern})$"}

    def wrapped(schema: Schema) -> Schema:
        if isinstance(schema, bool):
            return schema
        schema = dict(schema)
        if isinstance(schema.get("items"), dict):
            schema["items"] = wrapped(schema["items"])
        if isinstance(schema.get("properties"), dict):
            schema["properties"] = {name: wrapped(s) for name, s in schema["properties"].items()}
        return {"anyOf": [schema, reference]}

    arguments = {name: wrapped(schema) for name, schema in tool.arguments.items()}
    return replace(tool, arguments=arguments)


def json_text(text: str) -> bytes:
    """Encode a string as ``json.dumps`` does, without escapes for non-ASCII characters."""
    return json.dumps(text, ensure_ascii=False).encode()
