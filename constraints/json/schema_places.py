"""The schemas that speak of the place at which an unfinished JSON text ends.

place in the text  →  by the steps that lead there  →  places in the schema, as JSON pointers
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ..automata.utf8 import utf8
from ..automata.work import limited
from ..engine.bytes import Bytes
from ..engine.tokens import NO_STATE
from ..program.prune import pruned, without_budgets
from .document import Document, Resource, Schema
from .document import Subschema as SchemaNode
from .nodes import Reading, ValueWriter
from .patterns import matching
from .place import Level, place
from .text import Style
from .vocabulary import ANNOTATIONS, REFERENCES, pointer

BRANCHES = ("anyOf", "oneOf")
"""Keywords of which one schema may hold and another may not."""

LONGEST = 1_000
"""The most white space before a name."""


class Part(NamedTuple):
    """A schema in a document: its resource, and its place as a JSON pointer."""

    schema: Any
    resource: Resource
    path: str


def schema_places(
    root: Schema, reading: Reading, style: Style, text: str, goes_on: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return the places of the schemas that say what may stand where a text stops, as JSON pointers.

    Where a name may stand they are those of the members that may come; where a value has ended, those of what is around it.
    Schemas of ``anyOf`` and ``oneOf`` that cannot read the value so far are left out.

    ``text``: the beginning of an accepted text. ``goes_on``: whether it may go on with another one.
    """
    with limited():
        found = Places(root, reading, style, text, goes_on).wanted()
    return tuple(dict.fromkeys(part.path for part in found))


class Places:
    """The schemas of one document along the values that an unfinished text has begun."""

    def __init__(
        self, root: Schema, reading: Reading, style: Style, text: str, goes_on: Callable[[str], bool]
    ) -> None:
        self.text, self.place, self.goes_on = text, place(text), goes_on
        # a branch alone is open to the members that the schemas beside it declare
        self.writer = ValueWriter.of(root, style, replace(reading, open_objects=True))
        self.document: Document = self.writer.needs.document

    def wanted(self) -> list[Part]:
        """Return the schemas of the place at which the text stops."""
        root = self.document.root
        found = [Part(root.root, root, "")]
        if self.place is None:
            return self.saying(self.applied(found, 0))
        found = self.applied(found, self.place.start)
        for level in self.place.levels:
            if self.place.name is not None and level is self.place.levels[-1]:
                return self.named(found, level, self.place.name) or self.saying(found)
            if level.step is None or level.ended:
                return self.saying(found)
            begins = len(self.text) if level.start is None else level.start
            found = self.applied(self.below(found, level.step), begins)
        return self.saying(found)

    def saying(self, parts: Iterable[Part]) -> list[Part]:
        """Return the schemas that say something of the value themselves; if all only refer to others or annotate, all of them."""
        silent = {*ANNOTATIONS, *REFERENCES, "allOf", *BRANCHES}
        some = list(parts)
        kept = [
            part
            for part in some
            if part.schema is False or (part.schema is not True and part.schema.keys() - silent)
        ]
        return kept or some

    def named(self, parts: Iterable[Part], level: Level, begun: str) -> list[Part]:
        """Return the members that may come whose names go on with what is there."""
        found: list[tuple[str, Part]] = []
        for part in parts:
            members = part.schema.get("properties", {}) if isinstance(part.schema, dict) else {}
            for name, schema in members.items():
                if name.startswith(begun) and name not in level.names and schema is not False:
                    path = f"{part.path}/properties/{pointer(name)}"
                    found.append((name[len(begun) :], part._replace(schema=schema, path=path)))
        if self.place is not None and self.place.named:
            return [part for rest, part in found if not rest]
        lead = self.lead()
        fitting = [
            part
            for rest, part in found
            if self.goes_on(f'{lead}{json.dumps(rest, ensure_ascii=False)[1:-1]}"')
        ]
        return fitting or [part for _, part in found]

    def lead(self) -> str:
        """Return the white space and the quote that stand before a name, the empty text if it has begun."""
        assert self.place is not None
        if self.place.name or self.text.rstrip().endswith('"'):
            return ""
        lead = ""
        while not self.goes_on(f'{lead}"') and len(lead) < LONGEST:
            lead += next((space for space in " \n\t\r" if self.goes_on(lead + space)), '"')
        return f'{lead}"'

    # ------------------------------------------------------------ schemas of one value, and of those in it

    def applied(self, parts: Iterable[Part], start: int) -> list[Part]:
        """Return schemas with all that they combine and refer to, but for branches that cannot read the text from a start."""
        found: dict[tuple[int, str], Part] = {}
        stack = list(parts)[::-1]
        while stack:
            part = stack.pop()
            if (id(part.schema), part.path) in found:
                continue
            found[id(part.schema), part.path] = part
            stack += list(self.beside(part, start))[::-1]
        return list(found.values())

    def beside(self, part: Part, start: int) -> Iterator[Part]:
        """Yield the schemas that a schema applies to the same value."""
        schema, resource, path = part
        if not isinstance(schema, dict):
            return
        resource = self.document.owner.get(id(schema), resource)
        for key in REFERENCES:
            if key in schema and self.document.reads(key):
                yield Part(*self.document.resolve(SchemaNode(schema, resource, path, -1), key))
        for i, inner in enumerate(schema.get("allOf", ())):
            yield Part(inner, resource, f"{path}/allOf/{i}")
        conditional = [
            Part(schema[key], resource, f"{path}/{key}")
            for key in ("then", "else")
            if key in schema and "if" in schema
        ]
        for group in (
            *(
                [Part(each, resource, f"{path}/{key}/{i}") for i, each in enumerate(schema.get(key, ()))]
                for key in BRANCHES
            ),
            conditional,
        ):
            yield from [each for each in group if self.reads(each, start)] or group

    def reads(self, part: Part, start: int) -> bool:
        """Return whether a value of a schema may begin as the text does from a start; True where that is not known."""
        if not isinstance(part.schema, dict) or self.writer.style.indent is not None:
            return part.schema is not False
        need = self.writer.needs.keywords.need_of(self.document.node(part.schema, part.resource, part.path))
        node = pruned(self.writer.written(lambda: self.writer.node(need)))
        return Bytes(without_budgets(node)).read(self.text[start:].encode()) != NO_STATE

    def below(self, parts: Iterable[Part], step: str | int) -> list[Part]:
        """Return the schemas of a member or item of a value."""
        return [each for part in parts if isinstance(part.schema, dict) for each in self.members(part, step)]

    def members(self, part: Part, step: str | int) -> Iterator[Part]:
        """Yield what one schema says of a member or item."""
        schema, path = part.schema, part.path
        resource = self.document.owner.get(id(schema), part.resource)

        def at(key: str, *steps: str | int) -> Part:
            value = schema[key]
            for each in steps:
                value = value[each]
            return Part(value, resource, "/".join([path, key, *(pointer(str(each)) for each in steps)]))

        if isinstance(step, int):
            listed = "items" if isinstance(schema.get("items"), list) else ""
            listed = "prefixItems" if "prefixItems" in schema else listed
            rest = "additionalItems" if listed == "items" else "items"
            if listed and step < len(schema[listed]):
                yield at(listed, step)
            elif rest in schema:
                yield at(rest)
            return
        patterns = schema.get("patternProperties", {})
        found = [each for each in patterns if matching(each, True, utf8).accepts(step.encode())]
        if step in schema.get("properties", {}):
            yield at("properties", step)
        for pattern in found:
            yield at("patternProperties", pattern)
        if not found and step not in schema.get("properties", {}) and "additionalProperties" in schema:
            yield at("additionalProperties")
