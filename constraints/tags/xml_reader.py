"""Read call arguments that are written as XML parameters: the way back from ``xml_nodes.py``.

    <parameter=city>\\nOslo\\n</parameter>  →  {"city": "Oslo"}

A style without types leaves open whether ``3`` is a number or a text: it is the number if the parameter's schema allows that.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...errors import FormatError
from ..json.closed_objects import pointed
from ..json.constraint import json_schema
from .xml_styles import SPACE, ParameterStyle

KINDS = {"true": "string", "raw": "string", "list": "array", "dict": "object"}
KINDS |= {kind: kind for kind in ("array", "object")}
"""What the types that styles write say of the way a value is written: as it is, in elements, or else as JSON."""

INFINITE = re.compile(r'("(?:\\.|[^"\\])*")|Infinity')
"""Strings of JSON, and what stands for numbers beyond the largest float."""


def in_json(text: str, at: int, schema: Any) -> tuple[Any, int]:
    """Return the JSON value that stands from a position on, and where it ends; a text without quotes if there is none."""
    at = len(text) - len(text[at:].lstrip(" \n\r\t"))
    try:
        return json.JSONDecoder(parse_constant=int).raw_decode(text, at)  # which refuses NaN and Infinity
    except (ValueError, RecursionError):
        return "", len(text) + 1


class XmlReader:
    """A reader of arguments in a style; ``root``: the schema of all arguments, to which references lead."""

    def __init__(self, style: ParameterStyle, root: Mapping[str, Any]) -> None:
        self.style, self.root = style, root
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
            return self.quoted(text, at, schema)
        found, entities = dict[str, Any](), self.style.entities
        declared = {
            "".join(entities.get(char, char) for char in name): name for name in self.declared(schema)
        }
        names = "|".join([*map(re.escape, declared), "(?!/).+?"])
        begin = self.pattern(self.style.begin, f"(?P<name>{names})")
        while (begun := begin.match(text, at)) is not None:
            name = declared.get(begun["name"])
            if name is None:
                if self.item is not None and self.item.match(text, at):  # which looks like a member
                    break
                name = html.unescape(begun["name"]) if entities else begun["name"]
            end = self.style.end.replace("{name}", begun["name"])
            found[name], at = self.value(text, begun, end, self.inner(schema, name))
        return found, at

    def declared(self, schema: Any) -> list[str]:
        """Return the names of the members that a schema declares, the longest first: one may begin with another."""
        schema = self.target(schema)
        names = schema.get("properties", ()) if isinstance(schema, Mapping) else ()
        return sorted(names, key=len, reverse=True)

    def quoted(self, text: str, at: int, schema: Any) -> tuple[Any, int]:
        """Return the value that stands at a position in a style with a quote, and where it ends."""
        quote, sign = self.style.quote, text[at : at + 1]
        if text.startswith(quote, at):
            found, closed, _ = text[at + len(quote) :].partition(quote)
            if not closed:
                raise FormatError(f"{text[at:][:60]!r} does not end in {quote!r}")
            return found, at + len(quote + found + quote)
        if sign not in ("{", "["):
            return json.JSONDecoder().raw_decode(text, at)
        members, items, at, declared = dict[str, Any](), list[Any](), at + 1, self.declared(schema)
        while text[at : at + 1] not in ("}", "]"):
            at += text.startswith(",", at) if members or items else 0
            if sign == "[":
                item, at = self.quoted(text, at, self.inner(schema, len(items)))
                items.append(item)
                continue
            known = (name for name in declared if text.startswith(f"{name}:", at))
            name = next(known, None) or text[at:].partition(":")[0]
            members[name], at = self.quoted(text, at + len(name) + 1, self.inner(schema, name))
        return (items if sign == "[" else members), at + 1

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
        if kind != "string":
            found = self.values(text, start, end, kind, schema)
            known = next((each for each in found if kind or self.allows(schema, each[0])), None)
            if known is not None:
                return known
            if kind:
                raise FormatError(f"{text[start:][:60]!r} is no {written} that ends in {end!r}")
        stop = text.find(end, start)
        if stop < 0:
            raise FormatError(f"{text[start:][:60]!r} does not end in {end!r}")
        return self.plain(text[start:stop], kind, schema), stop + len(end)

    def values(self, text: str, start: int, end: str, kind: str, schema: Any) -> Iterator[tuple[Any, int]]:
        """Yield the values but for strings that a text may stand for up to the end of its element, and where this is."""
        read: list[Callable[[str, int, Any], tuple[Any, int]]] = []
        if self.style.item is not None and kind in ("array", "object", ""):
            read += [self.items] * (kind != "object") + [self.members] * (kind != "array")
        if kind in ("", "json"):  # which may have the end in its strings
            read.append(in_json)
        closing = re.compile(f"{SPACE}*{re.escape(end)}")
        for each in read:
            value, at = each(text, start, schema)
            closed = closing.match(text, at)
            is_text = isinstance(value, str) or (value in ([], {}) and self.allows(schema, ""))
            if closed is not None and (kind or not is_text):
                yield value, closed.end()

    def plain(self, text: str, kind: str, schema: Any) -> str:
        """Return a string, without the line breaks around it if its type is not written or the schema asks for that."""
        if not (self.style.padded and self.style.around):
            return text
        options = [re.sub(each, "", text) for each in (r"\A\n|\n\Z", r"\A\n", r"\n\Z")]
        options = [text, *options] if kind else [*options, text]
        return next((each for each in options if self.allows(schema, each)), text)

    # ------------------------------------------------------------ schemas

    def allows(self, schema: Any, value: Any) -> bool:
        """Return whether a schema allows a value."""
        definitions = {key: self.root[key] for key in ("$defs", "definitions") if key in self.root}
        whole = {**definitions, **schema} if isinstance(schema, Mapping) else schema
        written = INFINITE.sub(lambda found: found[1] or "1e999", json.dumps(value))
        return json_schema(whole, on_narrowed="ignore").accepts(written)

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
        """Return the schema to which references within the document lead, True if it is not found."""
        for _ in range(100):
            if not isinstance(schema, Mapping) or not str(schema.get("$ref", "")).startswith("#/"):
                break
            found = pointed(self.root, schema["$ref"])
            schema = True if found is None else found
        return schema
