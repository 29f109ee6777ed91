"""Python functions and classes as tools, by signature and docstring, and calls that can be executed.

The arguments of a function are its parameters with the annotated types; those with defaults may be left out. The arguments
of a class are its fields. Pydantic reads both.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...errors import FormatError
from ..json.python_types import is_type, reader, type_schema


def is_tool(value: Any) -> bool:
    """Return whether a value is a function or a class that can be a tool."""
    return callable(value) or is_type(value)


def tool_schemas(tools: Any) -> list[dict[str, Any]]:
    """Describe tools as OpenAI's API and chat templates do.

    Parameters
    ----------
    tools
        Functions, classes (Pydantic models, dataclasses, ``TypedDict``) and dicts, in a list; or one function or class. Dicts are
        left as they are.

    Returns
    -------
    list of dict
        ``{"type": "function", "function": {"name", "description", "parameters"}}`` of each. The description is the docstring.

    Raises
    ------
    FormatError
        Pydantic cannot describe a type (the message names it), or is not installed.

    Examples
    --------
    >>> import tractile as tt
    >>> def get_weather(city: str, days: int = 1) -> str:
    ...     "The weather of a city."
    >>> schema = tt.constraints.tool_schemas(get_weather)[0]["function"]
    >>> schema["name"], schema["description"], list(schema["parameters"]["properties"])
    ('get_weather', 'The weather of a city.', ['city', 'days'])
    """
    some = tools if isinstance(tools, list | tuple) else [tools]
    return [described(tool) if is_tool(tool) else tool for tool in some]


def described(tool: Any) -> dict[str, Any]:
    """Describe one function or class in OpenAI's format, for a reader."""
    parameters = named_arguments(tool_name(tool), type_schema(undecorated(tool), exact=False))
    documentation = inspect.getdoc(tool)
    text = {"description": documentation} if documentation else {}
    return {"type": "function", "function": {"name": tool_name(tool), **text, "parameters": parameters}}


def undecorated(tool: Any) -> Any:
    """Return a function with the signature of a tool that ``functools.cache`` and the like have wrapped; others as they are."""
    is_plain = is_type(tool) or inspect.isfunction(tool) or inspect.ismethod(tool)
    return tool if is_plain or not hasattr(tool, "__wrapped__") else recorder(tool)


def named_arguments(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments of a function or class. Raises ``FormatError`` if they have no names."""
    if "$ref" in parameters:  # a class that has itself as a field
        parameters = {
            "$defs": parameters["$defs"],
            **parameters["$defs"][parameters["$ref"].rpartition("/")[2]],
        }
    if parameters.get("type") != "object" or "properties" not in parameters:
        raise FormatError(f"{name} has no named arguments; a tool is a function or a class with named ones")
    return parameters


def tool_name(tool: Any) -> str:
    """Return the name of a function or class. Raises ``FormatError`` if it has none, as a ``lambda``."""
    name = getattr(tool, "__name__", "")
    if not name.isidentifier():
        raise FormatError(f"{tool!r} has no name; a tool is a function made by `def`, or a class")
    return str(name)


@dataclass(frozen=True)
class Call:
    """A call of a tool.

    Calling this object runs the function, or returns the instance of the class.

    ``arguments`` of a function have their annotated types, defaults included. Those of a class or a dict are JSON values.

    Examples
    --------
    >>> import tractile as tt
    >>> call = tt.constraints.Call("add", {"a": 1, "b": 2}, lambda: 1 + 2)
    >>> call.name, call()
    ('add', 3)
    """

    name: str
    arguments: Mapping[str, Any]
    _run: Callable[[], Any] | None = field(default=None, repr=False, compare=False)

    def __call__(self) -> Any:
        """Return the result of the function, or the instance.

        Raise ``FormatError`` for a tool that is a dict.
        """
        if self._run is None:
            raise FormatError(f"{self.name} was described by a dict; give the Python function to call it")
        return self._run()


def call_maker(tools: Any) -> Callable[[str, Mapping[str, Any]], Call]:
    """Return a function from the name of a tool and its arguments as JSON values to a :class:`Call`.

    ``tools``: one or a list; functions and classes among them can be called. It raises ``FormatError`` for arguments that a type
    refuses.
    """
    some = tools if isinstance(tools, list | tuple) else [tools]
    known = {tool_name(tool): (tool, reader(recorder(tool))) for tool in some if is_tool(tool)}

    def make(name: str, arguments: Mapping[str, Any]) -> Call:
        if name not in known:
            return Call(name, arguments)
        tool, value_of = known[name]
        value = value_of(json.dumps(arguments))
        if is_type(tool):
            return Call(name, arguments, lambda: value)
        return Call(name, value, functools.partial(tool, **value))

    return make


def call_reader(tools: Any) -> Callable[[str], Call]:
    """Return a parser from the JSON text of a call of ``function_calls`` to a :class:`Call`."""
    make = call_maker(tools)

    def read(text: str) -> Call:
        written = json.loads(text)
        return make(written["name"], written["arguments"])

    return read


def recorder(tool: Any) -> Any:
    """Return a function with the tool's signature that returns its arguments by name.

    A type is returned as it is.
    """
    if is_type(tool):
        return tool
    signature = inspect.signature(tool)
    rest = {name for name, each in signature.parameters.items() if each.kind is each.VAR_KEYWORD}

    @functools.wraps(tool)
    def record(*args: Any, **kwargs: Any) -> dict[str, Any]:
        given = signature.bind(*args, **kwargs).arguments
        return {k: v for k, v in given.items() if k not in rest} | {
            k: v for r in rest for k, v in given.get(r, {}).items()
        }

    return record
