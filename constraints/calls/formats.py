"""Find tools, and the parameters of each, in what providers, frameworks and data sets write.

    lists        {"tools": […]} (MCP), {"toolConfig": {"tools": […]}} (Bedrock), {"functionDeclarations": […]} (Gemini)
    wrappers     {"type": "function", "function": tool} (OpenAI), {"toolSpec": tool} (Bedrock), {"spec": tool, "function": …}
                 (Home Assistant)
    tools        {"name": …, one key of PARAMETERS: …}

Parameters are a JSON Schema, arguments by name, or a list of arguments with names. What may hold parameters and is not read is
refused by its name: parameters that are dropped would let a model call without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ...errors import FormatError, UnsupportedConstraint
from ..json.python_types import is_type, typed
from ..json.vocabulary import ANNOTATIONS, KEYWORDS
from ..narrowing import Narrowing
from ..validation import short
from .python_tools import is_tool, named_arguments, tool_name, undecorated
from .tool_types import TYPE_NAMES, keyword_of

LISTS = ("tools", "functionDeclarations", "function_declarations", "functions", "toolConfig", "result")
"""Keys of an object that is no tool and holds tools."""
BESIDE_LISTS = {"jsonrpc", "id", "_meta", "nextCursor"}
"""What may stand beside them, and says nothing of tools."""
WRAPPERS = ("spec", "function", "toolSpec", "tool_spec")
"""Keys under which an object holds one tool."""
PARAMETERS = (
    "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "parameters_json_schema", "parameter_definitions",
    "args_schema", "args", "schema", "params", "input",
)  # fmt: skip
"""Keys of the parameters of a tool."""
OTHER = {
    "annotations", "_meta", "metadata", "icons", "execution", "cache_control", "examples", "example", "input_examples",
    "response", "responses", "responseJsonSchema", "response_json_schema", "return", "returns", "output", "outputs",
    "outputSchema", "output_schema", "output_parameters", "function_call",
}  # fmt: skip
"""Other keys of a tool that hold objects: results, examples, notes."""
WORDS = KEYWORDS.keys() | ANNOTATIONS
"""The keywords of a JSON Schema."""
BESIDE_KEYWORDS = {"example", "discriminator", "components", "externalDocs", "xml"}
"""What OpenAPI writes beside them; references lead to ``components``."""


class ToolDefinition(NamedTuple):
    """A tool as it is written: its name, the schema of its parameters (types not yet read), and the path of these.

    ``plain``: whether they are those of a function or class; ``narrowed``: where its types and the schema differ.
    """

    name: str
    parameters: Mapping[str, Any]
    path: str
    plain: bool = False
    narrowed: tuple[Narrowing, ...] = ()


def entries(given: Any, path: str = "tools") -> Iterator[tuple[Any, str]]:
    """Yield each tool of a list, or of an object that holds lists, with its path.

    Raises ``FormatError`` for what stands beside a list and is not read.
    """
    if isinstance(given, list | tuple):
        for number, each in enumerate(given):
            yield from entries(each, f"{path}[{number}]")
    elif isinstance(given, Mapping) and "name" not in given and given.keys() & set(LISTS):
        held = [key for key in LISTS if given.get(key) is not None]
        for key, value in given.items():
            if key not in {*held, *BESIDE_LISTS} and value is not None:
                why = f"is not read beside {held or [*LISTS]}; give the list of tools alone"
                raise FormatError(f"{path}.{key} {why}")
        for key in held:
            yield from entries(given[key], f"{path}.{key}")
    elif not (isinstance(given, Mapping) and given.keys() == {"cachePoint"}):  # Bedrock's mark, no tool
        yield given, path


def definition(tool: Any, path: str) -> ToolDefinition:
    """Read a tool in any of the formats. Raises ``FormatError`` and ``UnsupportedConstraint`` with the path."""
    if is_tool(tool):
        schema, differences = typed(undecorated(tool))
        name = tool_name(tool)
        return ToolDefinition(name, named_arguments(name, schema), f"{path}.parameters", True, differences)
    if not isinstance(tool, Mapping):
        raise FormatError(f"{path} is {short(tool)}; a tool is an object with a name and parameters")
    key = next((key for key in WRAPPERS if isinstance(tool.get(key), Mapping)), None)
    if key is not None:
        implementation = {"function"} if key == "spec" else set()
        beside = {k: v for k, v in tool.items() if k not in {key, *OTHER, *implementation}}
        refuse_others(beside, f"{path}.{key}", path)
        tool, path = tool[key], f"{path}.{key}"
    found = {key: tool[key] for key in PARAMETERS if tool.get(key) is not None}
    kind, itself = tool.get("type"), isinstance(tool.get("properties"), Mapping) and not found
    if kind not in (None, "function") and not found and not itself:
        raise FormatError(
            f"{path}.type is {short(kind)}, and nothing says what its arguments are: leave the tool out, or give a JSON Schema "
            "under 'parameters' (tt.constraints.grammar reads the grammar of a custom tool)"
        )
    name = tool.get("name", tool.get("title") if itself else None)
    if not isinstance(name, str) or not name:
        other = [each for each in tool if each not in PARAMETERS]
        raise UnsupportedConstraint(
            f"{f'the keys {short(other)} name no tool: ' if other else ''}a tool needs a name", path=path
        )
    if itself:  # a JSON Schema, with the name as its title or beside it
        schema = {k: v for k, v in tool.items() if k not in ("name", "strict")}
        return ToolDefinition(name, schema_of(schema, "parameters", name, path), path)
    key = next(iter(found), "parameters")
    if any(each != found[key] for each in found.values()):
        raise FormatError(f"{path} has its parameters under both {' and '.join(found)}; leave one")
    refuse_others({k: v for k, v in tool.items() if k not in {*found, *OTHER}}, f"{path}.{key}", path)
    if is_type(found.get(key)):
        schema, differences = typed(found[key])
        return ToolDefinition(name, named_arguments(name, schema), f"{path}.{key}", True, differences)
    return ToolDefinition(name, schema_of(found.get(key, {}), key, name, f"{path}.{key}"), f"{path}.{key}")


def schema_of(parameters: Any, key: str, name: str, path: str) -> Mapping[str, Any]:
    """Return the JSON Schema of the parameters under a key of a tool."""
    inner = next(iter(parameters)) if isinstance(parameters, Mapping) and len(parameters) == 1 else None
    if inner == "jsonSchema" or (inner == "json" and key == "inputSchema"):
        parameters, path = parameters[inner], f"{path}.{inner}"
    if isinstance(parameters, list):
        parameters, needed = named(parameters, path), False
    else:
        needed = key != "parameter_definitions"
    if not isinstance(parameters, Mapping):
        raise FormatError(f"{path} of {name!r} is {short(parameters)}; it should be an object, not its text")
    if key == "parameter_definitions" or not is_schema(parameters):
        return from_arguments(parameters, path, needed)
    others = {k: v for k, v in parameters.items() if keyword_of(k) not in WORDS | BESIDE_KEYWORDS}
    named_types = {key: {key: value} for key, value in others.items() if isinstance(value, str)}
    refuse_others(others | named_types, f"{path}.properties", path)  # {"city": "string"} is an argument
    return parameters


def refuse_others(others: Mapping[str, Any], where: str, path: str) -> None:
    """Raise ``FormatError`` for the first key whose value may hold parameters, which belong to ``where``."""
    for key, value in others.items():
        if may_hold(value) or (key in KEYWORDS and key != "type"):
            raise FormatError(
                f"{path}.{key} may hold parameters, and is not read: write them as {where}, or leave it out"
            )


def may_hold(value: Any) -> bool:
    """Return whether a value may be parameters: a schema, arguments by name or in a list, the JSON text of one, or a class."""
    if isinstance(value, Mapping):
        return is_schema(value) or any(
            isinstance(each, Mapping)
            or may_hold(each)
            or (isinstance(each, str) and each.lower() in TYPE_NAMES)
            for each in value.values()
        )
    if isinstance(value, list):
        return any(isinstance(each, Mapping) for each in value)
    return value.lstrip().startswith("{") if isinstance(value, str) else is_type(value)


def is_schema(parameters: Mapping[str, Any]) -> bool:
    """Return whether the parameters are a JSON Schema; otherwise they map the name of each argument to its description."""
    if any(keyword_of(key) in WORDS and not isinstance(value, Mapping) for key, value in parameters.items()):
        return True
    properties = parameters.get("properties")
    return isinstance(properties, Mapping) and all(isinstance(p, Mapping | bool) for p in properties.values())


def named(arguments: list[Any], path: str) -> dict[str, Any]:
    """Return by name the arguments of a list, each with its name."""
    found: dict[str, Any] = {}
    for number, argument in enumerate(arguments):
        name = argument.get("name") if isinstance(argument, Mapping) else None
        if not isinstance(name, str) or name in found:
            raise FormatError(
                f"{path}[{number}] is {short(argument)}; in a list an argument is an object with a name of its own"
            )
        found[name] = {k: v for k, v in argument.items() if k != "name"}
    return found


def from_arguments(parameters: Mapping[str, Any], path: str, needed: bool = True) -> dict[str, Any]:
    """Return the JSON Schema of arguments by name, each with a type such as ``"str, optional"``.

    An argument is required, if ``needed``, unless it has a default or is marked optional; a boolean ``required`` overrides that.
    Its schema may stand under ``schema``, as in OpenAPI.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, argument in parameters.items():
        if not isinstance(argument, Mapping):
            raise FormatError(f"{path}.{name} is {short(argument)}; an argument is an object with a type")
        argument = dict(argument)
        must = needed and "default" not in argument and not argument.get("optional")
        for key in ("required", "is_required"):
            if isinstance(argument.get(key), bool):
                must = argument.pop(key)
        own = argument.pop("schema", None) if "type" not in argument else None
        argument |= own if isinstance(own, Mapping) else {}
        others = {k: v for k, v in argument.items() if keyword_of(k) not in WORDS | BESIDE_KEYWORDS}
        refuse_others(others, f"{path}.{name}.type and other keywords", f"{path}.{name}")
        if isinstance(text := argument.get("type"), str):
            argument["type"], *more = re.split(r",\s*(?=optional|default)", text, maxsplit=1)
            must = must and not more
        properties[name] = argument
        required += [name] * must
    return {"type": "object", "properties": properties, "required": required}


def holds_tools(value: Any) -> bool:
    """Return whether a value is a dict with a name, or one that holds tools in a list or under a key of its own."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("name"), str)
        or any(isinstance(value.get(key), Mapping | list) for key in (*LISTS, *WRAPPERS))
    )


def is_tool_alone(value: Mapping[str, Any]) -> bool:
    """Return whether a dict is or holds tools, and is no JSON Schema: what has a name needs parameters, too."""
    asserts = (value.keys() & KEYWORDS.keys()) - {"type"}
    known = set(PARAMETERS) - {"schema"}  # OpenAI's response formats have a name and a schema
    return (
        holds_tools(value)
        and not asserts
        and value.get("type") in (None, "function", "custom")
        and ("name" not in value or bool(value.keys() & known))
    )
