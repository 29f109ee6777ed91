"""Calls as values, ``{"name": …, "arguments": {…}}``, and as text in the syntaxes of
:func:`tractile.constraints.function_calls`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tractile.constraints.calls.tool_types import Schema
from tractile.constraints.calls.tools import Tool

Call = dict[str, Any]


def write_calls(calls: Sequence[Call], tools: Mapping[str, Tool], syntax: str, *, as_list: bool) -> str:
    """Write calls with the spaces of ``json.dumps`` or ``ast.unparse``: ``{"name": "f", "arguments": {"a": 1}}`` or ``f(a=1)``.

    ``as_list`` puts them in square brackets. Arguments come in the declared order. ``tools`` must be read with tuples kept."""
    if syntax == "json":
        ordered = [
            {
                "name": call["name"],
                "arguments": in_declared_order(arguments_schema(tools, call), call["arguments"]),
            }
            for call in calls
        ]
        return json.dumps(ordered if as_list else ordered[0], ensure_ascii=False)
    texts = [python_call(call["name"], arguments_schema(tools, call), call["arguments"]) for call in calls]
    return f"[{', '.join(texts)}]" if as_list else texts[0]


def arguments_schema(tools: Mapping[str, Tool], call: Call) -> Schema:
    """Return the schema of a call's arguments; True (anything) for a function that is not among the tools."""
    return tools[call["name"]].schema() if call["name"] in tools else True


def in_declared_order(schema: Schema | None, value: Any) -> Any:
    """Return the value with the members of objects in declared order, undeclared members last."""
    known = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        properties = known.get("properties", {})
        names = [n for n in properties if n in value] + [n for n in value if n not in properties]
        return {n: in_declared_order(properties.get(n), value[n]) for n in names}
    if isinstance(value, list):
        return [in_declared_order(known.get("items"), item) for item in value]
    return value


def python_call(name: str, schema: Schema, arguments: Mapping[str, Any]) -> str:
    """Write a call in Python syntax: ``f(a=1, b="x")``."""
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    ordered = in_declared_order(schema, dict(arguments))
    return f"{name}({', '.join(f'{n}={python_literal(properties.get(n), v)}' for n, v in ordered.items())})"


def python_literal(schema: Schema | None, value: Any) -> str:
    """Write a JSON value as a Python literal, strings in double quotes; an array declared as a tuple becomes one."""
    known = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        properties = known.get("properties", {})
        return f"{{{', '.join(f'{json_string(n)}: {python_literal(properties.get(n), v)}' for n, v in value.items())}}}"
    if isinstance(value, list):
        items = [python_literal(known.get("items"), item) for item in value]
        if known.get("type") == "tuple":
            return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        return f"[{', '.join(items)}]"
    return json_string(value) if isinstance(value, str) else repr(value)


def json_string(text: str) -> str:
    """Write a string in double quotes, with escapes that JSON and Python share."""
    return json.dumps(text, ensure_ascii=False)


def canonical(calls: Sequence[Call]) -> str:
    """Return a text that is the same for equal calls: sorted, arguments sorted by name, whole numbers without a point."""

    def plain(value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return f"[{', '.join(sorted(json.dumps(plain(call), sort_keys=True) for call in calls))}]"


def read_calls(text: str, syntax: str) -> list[Call] | None:
    """Parse a call, or a list of calls; None for any other text. Tuples become lists."""
    try:
        return _json_calls(text) if syntax == "json" else _python_calls(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _json_calls(text: str) -> list[Call]:
    found = json.loads(text, object_pairs_hook=_members, parse_constant=_refuse)
    calls = found if isinstance(found, list) else [found]
    for call in calls:
        if not isinstance(call, dict) or call.keys() != {"name", "arguments"}:
            raise ValueError("a call has a name and arguments")
        if not isinstance(call["name"], str) or not isinstance(call["arguments"], dict):
            raise ValueError("a name is a text, arguments are an object")
    return calls


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member occurs twice")
    return members


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _python_calls(text: str) -> list[Call]:
    body = ast.parse(text.strip(), mode="eval").body
    calls = []
    for node in body.elts if isinstance(body, ast.List) else [body]:
        if not isinstance(node, ast.Call) or node.args:
            raise ValueError("a call names its arguments")
        arguments = {}
        for argument in node.keywords:
            if argument.arg is None:
                raise ValueError("a call names its arguments")
            arguments[argument.arg] = _json_value(ast.literal_eval(argument.value))
        calls.append({"name": _dotted(node.func), "arguments": arguments})
    return calls


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    if isinstance(node, ast.Name):
        return node.id
    raise ValueError("a function is called by its name")


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise ValueError("the keys of an object are texts")
        return {name: _json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"{type(value).__name__} has no place in a call")
