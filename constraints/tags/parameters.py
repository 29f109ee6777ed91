"""The arguments of a call as XML parameters: ``<parameter=city>Oslo</parameter>``, one after another.

A string stands for itself, up to the first closing tag. Any other value is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import FormatError, UnsupportedConstraint
from ..constraint import Constraint, any_of, literal
from ..json.constraint import json_schema
from ..narrowing import OnNarrowed
from ..regex.constraint import regex
from ..words.free_text import until_first

BOUNDS = ("minLength", "maxLength", "pattern", "format")
"""Keywords of strings that free text cannot have."""


class Parameters(NamedTuple):
    """How a parameter is written: ``begin`` (with ``{name}`` in it), the value, ``end``; ``between`` comes before it."""

    begin: str
    end: str
    between: str = r"\n?"  # a pattern
    around: str = r"\n?"  # around a value, a pattern


QWEN = Parameters("<parameter={name}>", "</parameter>")
GLM = Parameters("<arg_key>{name}</arg_key>\n<arg_value>", "</arg_value>", "\n?", "")


def parameters(
    schema: Mapping[str, Any], style: Parameters = QWEN, path: str = "", on_narrowed: OnNarrowed = "warn"
) -> Constraint:
    """The arguments that a JSON Schema of an object allows, in the order that it declares, optional ones left out or not.

    Raises ``UnsupportedConstraint`` for what is said of all members together (``minProperties``, ``anyOf`` at the root, …), and
    for strings with a pattern, a format or a length.
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
    return whole


def parameter(
    name: str, schema: Mapping[str, Any], style: Parameters, path: str, on_narrowed: OnNarrowed
) -> Constraint:
    """One parameter. A value that may be a string or something else is free text."""
    begin = literal(style.begin.format(name=name))
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
        value = json_schema(dict(schema), numbers="plain", on_narrowed=on_narrowed)
    around = regex(style.around)
    return begin + around + value + around + literal(style.end)


def is_string(schema: Mapping[str, Any]) -> bool:
    """Whether a value may be a string: then its text says nothing of its type."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return kinds == "string"
    if isinstance(kinds, Sequence):
        return "string" in kinds
    return not any(key in schema for key in ("$ref", "anyOf", "oneOf", "allOf", "properties", "items"))
