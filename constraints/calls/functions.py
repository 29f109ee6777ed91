"""Calls of functions: a list of tools → the texts that call one of them, or several.

    json      {"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}        parallel: [{…}, {…}]
    python    get_weather(city="Oslo", days=3)                                        parallel: [f(…), g(…)]

Arguments stand in the order declared, or in any order; those that are not required may be left out, and no others come
in. In Python syntax a value is a literal (``python_literals.py``).
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

from ...errors import UnsupportedConstraint
from .. import given
from ..automata.nfa import Nfa, check_limit, concat, literal, union
from ..automata.work import limited
from ..constraint import Constraint
from ..json.constraint import MAX_SCHEMA, inner_texts
from ..narrowing import Narrowing, OnNarrowed, check_choice, merged, report
from .python_literals import Literals
from .python_rows import STYLES, Style, brackets, in_any_order, in_order, row
from .tool_types import Schema
from .tools import Tool, read_tools

DEPTH = 2
MORE = 2_000  # units of work, for each tool
Write = Callable[[str, Any, str], Nfa]  # a name, its schema, its path -> the ways to write the argument


def function_calls(
    tools: Any,
    *,
    syntax: Literal["json", "python"] = "json",
    parallel: bool | tuple[int, int | None] = False,
    order: Literal["declared", "any"] = "declared",
    whitespace: Literal["none", "space", "flexible"] = "space",
    references: str | None = None,
    keys: tuple[str, str] = ("name", "arguments"),
    max_depth: int | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """The texts that call one of the tools, or with ``parallel`` a list of calls (``True``: one or more; or from, to).

    ``tools`` are dicts in the spelling of OpenAI, BFCL or xLAM (see ``constraints/tools.py``), JSON text, or the path of a
    JSON or JSON Lines file. ``order`` is that of the arguments within a call. ``whitespace`` is what stands between tokens:
    after each comma and colon a space, or nothing, or anything. ``references`` is a pattern for strings that may stand in
    place of every argument, item and property, such as ``r"\\$var\\d+\\$"`` for the results of earlier calls. ``keys``
    name the two members of a call in JSON syntax. ``max_depth`` (default: 2) bounds how deep values without a type nest, and
    how often a ``$ref`` lies within itself. In Python syntax numbers are written as JSON writes them (no ``1.``, ``+1``,
    ``1_000``), and strings of a format without escapes and quotes.

    ``narrowed`` of the constraint names each argument of which fewer values are accepted than its schema allows. With
    ``on_narrowed="warn"`` a warning is logged for the constraint (but for what a given ``max_depth`` cuts, and for how Python
    writes numbers), "error" raises ``UnsupportedConstraint``, "ignore" does nothing.

    Raises ``FormatError`` for what cannot be read, ``UnsupportedConstraint`` with the place of what is not supported (an
    unknown type, a name twice, a name that is not Python's), ``EmptyLanguage`` for no tools, ``TooManyStates``.
    """
    for value, name, choices in (
        (syntax, "syntax", ("json", "python")), (order, "order", ("declared", "any")), (whitespace, "whitespace", tuple(STYLES)),
    ):  # fmt: skip
        if value not in choices:
            raise UnsupportedConstraint(f"{name} is one of {list(choices)}, not {value!r}", path=name)
    check_choice(on_narrowed)
    chosen = ["type"] if max_depth is None else ["type", "max_depth"]
    max_depth = given.count(DEPTH if max_depth is None else max_depth, "max_depth", 0, given.MOST_DEPTH)
    if references is not None:
        given.text(references, "references")
    if not isinstance(keys, tuple | list) or len(keys) != 2:
        raise UnsupportedConstraint(f"keys are two names, not {given.short(keys)}", path="keys")
    keys = given.text(keys[0], "keys[0]"), given.text(keys[1], "keys[1]")
    style = STYLES[whitespace]
    cuts: list[Narrowing] = []
    json_text_of = partial(json_value, {}, cuts, whitespace, max_depth)
    calls, read = list[Nfa](), read_tools(tools, tuples=syntax == "python")
    with limited(MAX_SCHEMA + MORE * len(read)):
        for index, tool in enumerate(read):
            if references is not None:
                tool = with_references(tool, references)
            path = f"tools[{index}].parameters"
            if syntax == "json":
                calls.append(json_call(tool, style, json_text_of, order, keys, path))
            else:
                calls.append(python_call(tool, cuts, style, order, max_depth, path))
        call = union(calls)
    narrowed = merged(cuts)
    report(narrowed, on_narrowed, chosen)
    if parallel is False:
        return Constraint(call, narrowed)
    if parallel is not True and not (isinstance(parallel, tuple | list) and len(parallel) == 2):
        raise UnsupportedConstraint(
            f"parallel is True, False or (from, to), not {parallel!r}", path="parallel"
        )
    low, high = (1, None) if parallel is True else parallel
    low = given.count(low, "parallel[0]")
    high = None if high is None else given.count(high, "parallel[1]", max(low, 1))
    check_limit((high or low) * max(1, call.num_states))
    body = row(style, [call] * (high or 0), low, call if high is None else None)
    return Constraint(brackets(b"[", body, b"]", style), narrowed)


def json_value(
    known: dict[str, Constraint],
    cuts: list[Narrowing],
    whitespace: Any,
    max_depth: int,
    schema: Any,
    path: str,
) -> Nfa:
    """The JSON texts of a schema, of which those of many arguments are alike: each is made once. What they lack of the schema
    is added to ``cuts``."""
    text = json.dumps(schema)
    if text not in known:
        try:
            known[text] = inner_texts(schema, whitespace, max_depth)
        except UnsupportedConstraint as error:
            message = str(error).removesuffix(f" (at {error.path})")
            raise UnsupportedConstraint(message, path=f"{path} {error.path}".strip()) from None
    cuts += [
        each._replace(path=path + each.path) if each.loses_values else each for each in known[text].narrowed
    ]
    return known[text].nfa


def json_call(
    tool: Tool, style: Style, value: Callable[[Any, str], Nfa], order: str, keys: tuple[str, str], path: str
) -> Nfa:
    """``{"name": …, "arguments": {…}}``."""

    def write(name: str, schema: Any, path: str) -> Nfa:
        found = value(with_definitions(schema, tool.definitions), path)
        return concat([json_text(name), style.colon, found])

    together = [*sorted(tool.rest), *(ref for ref in references_of(tool.arguments) if not_a_definition(ref))]
    if together:
        if order == "any":
            raise UnsupportedConstraint(
                f"{together[0]!r} with the arguments in any order is not supported", path=path
            )
        arguments = value(tool.schema(), path)
    else:
        arguments = brackets(b"{", listed(tool, write, style, order, path), b"}", style)
    members = [
        concat([json_text(keys[0]), style.colon, json_text(tool.name)]),
        concat([json_text(keys[1]), style.colon, arguments]),
    ]
    return brackets(b"{", row(style, members, 2, None), b"}", style)


def python_call(
    tool: Tool, cuts: list[Narrowing], style: Style, order: str, max_depth: int, path: str
) -> Nfa:
    """``f(a=1, b="x")``."""
    for name in [*tool.name.split("."), *tool.arguments]:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise UnsupportedConstraint(f"{name!r} in {tool.name!r} is no name in Python", path=path)
    if tool.rest:
        raise UnsupportedConstraint(f"{sorted(tool.rest)[0]!r} is not supported in Python syntax", path=path)
    literals = Literals(tool.definitions, style, max_depth, cuts)

    def write(name: str, schema: Any, path: str) -> Nfa:
        return concat([literal(f"{name}=".encode()), literals.value(schema, path)])

    return brackets(tool.name.encode() + b"(", listed(tool, write, style, order, path), b")", style)


def listed(tool: Tool, write: Write, style: Style, order: str, path: str) -> Nfa:
    """The arguments of a tool, in the order declared or in any."""
    items = [(write(n, s, f"{path}.{n}"), n in tool.required) for n, s in tool.arguments.items()]
    if order == "any":
        return in_any_order(items, style.comma, style.padding)
    return in_order(items, style.comma, padding=style.padding)


def json_text(text: str) -> Nfa:
    """A string as ``json.dumps`` writes it."""
    return literal(json.dumps(text, ensure_ascii=False).encode())


def with_definitions(schema: Schema, definitions: dict[str, Any]) -> Schema:
    """The schema of an argument as a document of its own, with what the tool defines."""
    if isinstance(schema, bool) or not definitions:
        return schema
    return schema | {key: {**schema.get(key, {}), **inner} for key, inner in definitions.items()}


def references_of(value: Any) -> Iterator[str]:
    """The ``$ref`` of a schema and all within."""
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references_of(inner)


def not_a_definition(pointer: str) -> bool:
    """Whether a ``$ref`` leads to arguments, which only a schema of them all has in its place."""
    return not pointer.startswith(("#/$defs/", "#/definitions/"))


def with_references(tool: Tool, pattern: str) -> Tool:
    """The tool with strings of the pattern allowed in place of every argument and every item and property in it."""
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
    return Tool(tool.name, arguments, tool.required, tool.definitions, tool.rest)
