"""Read call arguments that are written as XML parameters: the way back from ``xml_nodes.py``.

    <parameter=city>\\nOslo\\n</parameter>  →  {"city": "Oslo"}

A style without types leaves open whether ``3`` is a number or a text: it is the number if the parameter's schema allows that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...errors import FormatError
from ..json.constraint import json_schema
from .xml_styles import SPACE, ParameterStyle

KINDS = {
    "true": "string",
    "raw": "string",
    "list": "array",
    "dict": "object",
    "array": "array",
    "object": "object",
}
"""What the types that styles write say of the way a value is written: as it is, in elements, or else as JSON."""


class XmlReader:
    """A reader of arguments in a style; ``root``: the schema of all arguments, to which references lead."""

    def __init__(self, style: ParameterStyle, root: Mapping[str, Any]) -> None:
        self.style, self.root = style, root
        self.entities = {written: char for char, written in style.entities.items()}
        name = "(?P<name>(?!/).+?)"
        self.begin = self.pattern(style.begin, name)
        self.item = None if style.item is None else self.pattern(style.item, "")

    def pattern(self, begin: str, name: str) -> re.Pattern[str]:
        """Return the regular expression of white space and what opens an element.

        ``begin``: as a style has it, with {name}, {type} and {between} in it; ``name``: the expression for its name.
        """
        found = re.escape(begin)
        for key, each in (("name", name), ("type", "(?P<type>[a-z]*)"), ("between", f"{SPACE}*")):
            found = found.replace(re.escape(f"{{{key}}}"), each)
        return re.compile(f"{SPACE}*{found}", re.DOTALL)

    # ------------------------------------------------------------ elements

    def members(self, text: str, at: int, schema: Any) -> tuple[dict[str, Any], int]:
        """Return the members of an object that stand from a position on, and where they end."""
        if self.style.quote:
            return self.quoted(text, at)
        found: dict[str, Any] = {}
        while (begun := self.begin.match(text, at)) is not None and not self.is_item(text, at):
            name = begun["name"]
            for written, char in self.entities.items():
                name = name.replace(written, char) if char != "&" else name
            name = name.replace(self.style.entities.get("&", "&"), "&")
            end = self.style.end.replace("{name}", begun["name"])
            found[name], at = self.value(text, begun, end, self.inner(schema, name))
        return found, at

    def quoted(self, text: str, at: int) -> tuple[Any, int]:
        """Return the value that stands at a position in a style with a quote, and where it ends."""
        quote, sign = self.style.quote, text[at : at + 1]
        if text.startswith(quote, at):
            start = at + len(quote)
            stop = text.find(quote, start)
            if stop < 0:
                raise FormatError(f"{text[at:][:60]!r} does not end in {quote!r}")
            return text[start:stop], stop + len(quote)
        if sign not in ("{", "["):
            return json.JSONDecoder().raw_decode(text, at)
        members, items, at = dict[str, Any](), list[Any](), at + 1
        while text[at : at + 1] not in ("}", "]"):
            at += text.startswith(",", at)
            if sign == "[":
                item, at = self.quoted(text, at)
                items.append(item)
                continue
            name, _, _ = text[at:].partition(":")
            members[name], at = self.quoted(text, at + len(name) + 1)
        return (items if sign == "[" else members), at + 1

    def is_item(self, text: str, at: int) -> bool:
        """Return whether an item of an array begins at a position, which in some styles looks like a member."""
        return (
            self.item is not None
            and "type" not in self.item.groupindex
            and self.item.match(text, at) is not None
        )

    def items(self, text: str, at: int, schema: Any) -> tuple[list[Any], int]:
        """Return the items of an array that stand from a position on, and where they end."""
        found: list[Any] = []
        while self.item is not None and (begun := self.item.match(text, at)) is not None:
            value, at = self.value(text, begun, self.style.item_end, self.inner(schema, len(found)))
            found.append(value)
        return found, at

    def value(self, text: str, begun: re.Match[str], end: str, schema: Any) -> tuple[Any, int]:
        """Return the value of an element that has begun, and where the element ends."""
        written = begun.groupdict().get("type")
        kind, start = KINDS.get(written or "", "" if written is None else "json"), begun.end()
        if self.style.item is not None and kind in ("array", "object", ""):
            read = (self.items, self.members) if kind != "object" else (self.members,)
            for each in read[: 1 if kind == "array" else None]:
                value, at = each(text, start, schema)
                closed = re.compile(f"{SPACE}*{re.escape(end)}").match(text, at)
                if closed is not None and (value or kind):
                    return value, closed.end()
        stop = text.find(end, start)
        if stop < 0:
            raise FormatError(f"{text[start:][:60]!r} does not end in {end!r}")
        return self.leaf(text[start:stop], kind, schema), stop + len(end)

    def leaf(self, text: str, kind: str, schema: Any) -> Any:
        """Return the value of a text without elements."""
        if kind == "string":
            return text
        if kind:
            return json.loads(text)
        trimmed = re.sub(r"\A\n|\n\Z", "", text) if self.style.padded and self.style.around else text
        options: list[Any] = [trimmed, text] if trimmed != text else [text]
        if self.style.item is not None and not text:
            options += [{}, []]
        try:
            value = json.loads(text)
            options = options if isinstance(value, str) else [value, *options]
        except ValueError:
            pass
        return next((each for each in options[:-1] if self.allows(schema, each)), options[-1])

    # ------------------------------------------------------------ schemas

    def allows(self, schema: Any, value: Any) -> bool:
        """Return whether a schema allows a value."""
        definitions = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        whole = {**definitions, **schema} if isinstance(schema, Mapping) else schema
        return json_schema(whole, on_narrowed="ignore").accepts(json.dumps(value))

    def inner(self, schema: Any, step: str | int) -> Any:
        """Return the schema of a member or item, True if it is not found."""
        schema = self.target(schema)
        if not isinstance(schema, Mapping):
            return True
        if isinstance(step, str):
            return schema.get("properties", {}).get(step, schema.get("additionalProperties", True))
        listed = schema.get("prefixItems", ())
        return listed[step] if step < len(listed) else schema.get("items", True)

    def target(self, schema: Any) -> Any:
        """Return the schema to which references within the document lead."""
        for _ in range(100):
            if not isinstance(schema, Mapping) or not str(schema.get("$ref", "")).startswith("#/"):
                break
            found: Any = self.root
            for step in schema["$ref"][2:].split("/"):
                found = (
                    found.get(step.replace("~1", "/").replace("~0", "~"), True)
                    if isinstance(found, Mapping)
                    else True
                )
            schema = found
        return schema
