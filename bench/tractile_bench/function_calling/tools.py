"""The tools of one question: validation of calls, and their signatures for a prompt."""

from __future__ import annotations

import json
import keyword
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tractile.constraints.calls.tool_types import Schema
from tractile.constraints.calls.tools import Tool, read_tools
from tractile.errors import TractileError

from .matching import first
from .syntax import Call


class Tools:
    """Tools by name: ``schemas`` with tuples as arrays, ``python`` with tuples kept. Raises what ``read_tools`` raises."""

    def __init__(self, given: list[Any]) -> None:
        self.given = given
        self.schemas = {tool.name: tool for tool in read_tools(given, tuples=False)}
        self.python = {tool.name: tool for tool in read_tools(given, tuples=True)}
        self.validators: dict[str, Any] = {}

    def misfit(self, call: Call) -> str:
        """Return the keyword of its JSON Schema that a call violates, or that there is no such function; "" if valid."""
        name = call["name"]
        if name not in self.schemas:
            return "no such function"
        if name not in self.validators:
            self.validators[name] = validator(self.schemas[name].schema())
        error = next(self.validators[name].iter_errors(call["arguments"]), None)
        return f"{error.validator}" if error is not None else ""

    def signatures(self) -> list[dict[str, Any]]:
        """Return the tools as a prompt needs them: name, description, and one JSON Schema of the arguments."""
        descriptions = [tool.get("function", tool) for tool in self.given]
        return [
            {"name": tool.name, "description": said.get("description") or "", "parameters": tool.schema()}
            for tool, said in zip(self.schemas.values(), descriptions, strict=True)
        ]

    def in_python(self) -> bool:
        """Return whether all names of tools and arguments are valid in Python."""
        names = [part for t in self.schemas.values() for part in (*t.name.split("."), *t.arguments)]
        return all(name.isidentifier() and not keyword.iskeyword(name) for name in names)

    def plain(self, name: str, accepted: Mapping[str, list[Any]]) -> Call:
        """Make a call with the first accepted value of each argument that its schema allows, without optional arguments."""
        tool = self.schemas[name]
        arguments = {}
        for argument, options in accepted.items():
            if "" in options and argument not in tool.required:
                continue
            values = [first(option) for option in options if option != ""] or [""]
            schema = tool.arguments.get(argument, True)
            fits = (value for value in values if allows(tool, schema, value))
            arguments[argument] = next(fits, values[0])
        return {"name": name, "arguments": arguments}


def allows(tool: Tool, schema: Schema, value: Any) -> bool:
    """Return whether the schema of one of the tool's arguments allows the value."""
    if isinstance(schema, bool):
        return schema
    return bool(validator({**tool.definitions, **schema}).is_valid(value))


def validator(schema: dict[str, Any]) -> Any:
    """Make a validator of the ``jsonschema`` package, which is independent of Tractile's constraints."""
    try:
        import jsonschema
    except ImportError:
        raise TractileError("calls are judged with jsonschema: pip install jsonschema") from None
    return jsonschema.Draft202012Validator(schema)


@lru_cache(256)
def tools_of(text: str) -> Tools:
    """Read the tools of a JSON text; cached."""
    return Tools(json.loads(text))
