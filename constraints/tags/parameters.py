"""Call arguments as XML parameters, one after another: ``<parameter=city>Oslo</parameter>``.

A string is written without quotes or escapes, up to the first closing tag. Any other value is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ...errors import EmptyLanguage, FormatError, UnsupportedConstraint
from ..constraint import Constraint, any_of, literal
from ..json.constraint import json_schema
from ..narrowing import OnNarrowed
from ..regex.constraint import regex
from ..words.free_text import until_first
from .tags import choice

BOUNDS = ("minLength", "maxLength", "pattern", "format")
"""Keywords of strings that are not supported here, since strings are free text."""


SPACE = r"[ \n\r\t]*"


class Parameters(NamedTuple):
    """The format of an XML parameter: ``begin``, the value, ``end``.

    ``begin`` has ``{name}``, ``{type}``, and ``{between}`` for white space.
    """

    begin: str
    end: str
    between: str = r"\n?"  # before a parameter, and where its begin says so: a pattern
    around: str = r"\n?"  # around a value that is no string, a pattern
    types: Mapping[str, str] | None = (
        None  # what is written for each JSON type; None: the type is not written
    )
    after: str = ""  # after all parameters, a pattern
    whitespace: Literal["space", "flexible"] = "space"  # in values that are no strings

    def relaxed(self) -> Parameters:
        """Return this format with any white space between parameters and around values."""
        return self._replace(between=SPACE, around=SPACE, after=SPACE, whitespace="flexible")


JSON_TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")
QWEN = Parameters("<parameter={name}>", "</parameter>", after=r"\n?")
GLM = Parameters("<arg_key>{name}</arg_key>{between}<arg_value>", "</arg_value>", around="", after=r"\n?")
IS_STRING = dict.fromkeys(JSON_TYPES, "false") | {"string": "true"}
DSML = "｜DSML｜"
STYLES: dict[str, Parameters] = {
    "qwen_xml": QWEN.relaxed(),
    "minimax_xml": Parameters('<parameter name="{name}">', "</parameter>").relaxed(),
    "glm_xml": GLM.relaxed(),
    "deepseek_xml": Parameters(
        f'<{DSML}parameter name="{{name}}" string="{{type}}">', f"</{DSML}parameter>", types=IS_STRING
    ).relaxed(),
    "deepseek_v4_1_xml": Parameters(
        f'<{DSML} parameter name="{{name}}" string="{{type}}">', f"</{DSML} parameter>", types=IS_STRING
    ).relaxed(),
    "kimi_k3_xml": Parameters(
        '<|open|>argument key="{name}" type="{type}"<|sep|>',
        "<|close|>argument<|sep|>",
        types=dict(zip(JSON_TYPES, JSON_TYPES, strict=True)) | {"integer": "number"},
    ).relaxed(),
}
"""The values of ``style`` for ``json_schema`` formats in structural tags that write XML parameters."""


def parameters(
    schema: Mapping[str, Any], style: Parameters = QWEN, path: str = "", on_narrowed: OnNarrowed = "warn"
) -> Constraint:
    """Accept the arguments of a JSON Schema in declared order; optional ones may be left out.

    Raises ``UnsupportedConstraint`` for keywords about all members together (``minProperties``, ``anyOf`` at the root, …),
    and for strings with a pattern, a format or a length.
    """
    known = {"type", "properties", "required", "additionalProperties", "$defs", "definitions"}
    if extra := sorted(set(schema) - known - {"title", "description", "$schema", "strict"}):
        raise UnsupportedConstraint(
            f"{extra[0]!r} is not supported in XML parameters", path=f"{path}/{extra[0]}"
        )
    declared, names = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(declared, Mapping) or not (
        isinstance(names, list) and all(isinstance(n, str) for n in names)
    ):
        raise FormatError(f"{path}: 'properties' is an object and 'required' a list of names")
    required = set(names)
    if missing := sorted(required - set(declared)):
        raise UnsupportedConstraint(f"the required {missing} are not declared", path=f"{path}/required")
    definitions = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    whole = literal("")
    for name, inner in declared.items():
        if not isinstance(inner, Mapping):
            inner = {} if inner else {"not": {}}
        one = parameter(name, {**definitions, **inner}, style, f"{path}/properties/{name}", on_narrowed)
        one = regex(style.between) + one
        whole = whole + (one if name in required else one.repeat(0, 1))
    return whole + regex(style.after) if style.after else whole


def parameter(
    name: str, schema: Mapping[str, Any], style: Parameters, path: str, on_narrowed: OnNarrowed
) -> Constraint:
    """Return the constraint of one parameter.

    If the format writes no type, a value that may be a string or something else is free text.
    """
    if style.types is None:
        return written(name, schema, style, path, on_narrowed)
    return choice(
        [
            written(name, one, style, path, on_narrowed, style.types[kind])
            for kind, one in of_each_type(schema, path)
        ]
    )


def written(
    name: str,
    schema: Mapping[str, Any],
    style: Parameters,
    path: str,
    on_narrowed: OnNarrowed,
    kind: str = "",
) -> Constraint:
    """Return the constraint of one parameter, with ``kind`` written as its type."""
    before, *rest = style.begin.split("{between}")
    begin = literal(before.format(name=name, type=kind))
    for each in rest:
        begin = begin + regex(style.between) + literal(each)
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        texts = [v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
        value = any_of(*texts)
    elif is_string(schema):
        if bound := next((key for key in BOUNDS if key in schema), None):
            raise UnsupportedConstraint(
                f"{bound!r} of a string is not supported in XML parameters", path=f"{path}/{bound}"
            )
        return begin + until_first([style.end], [style.end])
    else:
        value = json_schema(
            dict(schema), whitespace=style.whitespace, numbers="plain", on_narrowed=on_narrowed
        )
    text = style.types is not None and json_type(schema.get("const")) == "string"  # no space around a string
    around = regex("" if text else style.around)
    return begin + around + value + around + literal(style.end)


def of_each_type(schema: Mapping[str, Any], path: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Split a schema by the JSON type of its values: (type, schema of these values)."""
    if "enum" in schema or "const" in schema:
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        found: list[tuple[str, Mapping[str, Any]]] = [
            (json_type(value), {"const": value}) for value in values
        ]
        if not found:
            raise EmptyLanguage(f"{path}: no value is allowed")
        return found
    if key := next((key for key in ("$ref", "anyOf", "oneOf", "allOf") if key in schema), None):
        raise UnsupportedConstraint(
            f"{key!r} is not supported in XML parameters that write a type", path=f"{path}/{key}"
        )
    kinds = schema.get("type", JSON_TYPES)
    listed = [kinds] if isinstance(kinds, str) else kinds
    if not isinstance(listed, Sequence) or not listed or not set(listed) <= set(JSON_TYPES):
        raise FormatError(f"{path}/type: {kinds!r:.60} is no type of JSON")
    return [(kind, {**schema, "type": kind}) for kind in listed]


def json_type(value: Any) -> str:
    """Return the name of the type of a JSON value."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case None:
            return "null"
        case _:
            return "array" if isinstance(value, list) else "object"


def is_string(schema: Mapping[str, Any]) -> bool:
    """Return whether a value may be a string; its text then does not tell its type."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return kinds == "string"
    if isinstance(kinds, Sequence):
        return "string" in kinds
    return not any(key in schema for key in ("$ref", "anyOf", "oneOf", "allOf", "properties", "items"))
