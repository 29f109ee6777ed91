"""The machines of a document whose texts have a line for each part, with an indent by depth.

Each depth has machines of its own, made when a text gets there. What does not depend on the depth is taken from the document's
machines with any white space: which needs are empty, their short texts, and the values without parts.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ...automata.machines import Choice
from ...automata.region import Machine
from ..shapes import Need
from ..text import Style
from .distinct import Distinct
from .objects import ObjectMachine
from .values import Machines


class IndentedMachines(Machines):
    """The needs of one document with their machines at one depth.
    ``plain``: the machines with any white space."""

    def __init__(self, plain: Machines, style: Style) -> None:
        self.__dict__.update(plain.__dict__)
        self.plain, self.style, self.distinct = plain, style, Distinct(self)
        self._machines, self._texts, self._meanings = {}, {}, {}
        self._objects, self._arrays = {}, {}

    @cached_property
    def below(self) -> Machines:
        """The machines one level deeper."""
        return IndentedMachines(self.plain, self.style.deeper)

    def machine(self, need: Need) -> Machine:
        plain, value = self.plain.machine(need), self.value(need)
        if not value.array and not value.object:
            return plain
        is_new = need not in self._machines
        found = super().machine(need)
        if is_new and isinstance(found, Choice):
            found.unindented = plain
        return found

    def structures(self, need: Need) -> list[Machine]:
        parts, plain = self.arrays(need), self.plain.arrays(need)
        look = self.plain.shortest
        found = [part for part, each in zip(parts, plain, strict=True) if each.shortest(look) is not None]
        objects, others = self.objects(need), self.plain.objects(need)
        if objects is not None and others is not None and others.shortest(look) is not None:
            found.append(objects)
        return found

    def arrays(self, need: Need) -> list[Any]:
        is_new = need not in self._arrays
        found = super().arrays(need)
        for part, plain in zip(found, self.plain.arrays(need), strict=True) if is_new else ():
            part.unindented = plain
            if hasattr(part, "plain"):
                part.plain.unindented = plain.plain
        return found

    def objects(self, need: Need) -> ObjectMachine | None:
        plain = self.plain.objects(need)
        if plain is not None and need not in self._objects:
            found = self._objects[need] = ObjectMachine(self.below, (), self.style)
            found.names, found.forms, found.classes, found.keys = (
                plain.names,
                plain.forms,
                plain.classes,
                plain.keys,
            )
            found.unindented = plain
        return self._objects.get(need)

    def is_empty(self, need: Need) -> bool:
        return self.plain.is_empty(need)

    def shortest(self, need: Need) -> bytes | None:
        if need not in self._texts:
            text = self.plain.shortest(need)
            self._texts[need] = None if text is None else indented(text, self.style)
        return self._texts[need]


def indented(text: bytes, style: Style) -> bytes:
    """Return a JSON text without white space in a style that has an indent."""
    out, at, outer = bytearray(), 0, list[Style]()
    while at < len(text):
        byte = text[at : at + 1]
        if byte == b'"':
            end = at + 1
            while text[end] != 34:
                end += 2 if text[end] == 92 else 1
            out += text[at : end + 1]
            at = end
        elif byte in b"[{":
            out += byte
            if text[at + 1] in b"]}":
                at += 1
                out += text[at : at + 1]
            else:
                out += style.lead
                outer.append(style)
                style = style.deeper
        elif byte in b"]}":
            style = outer.pop()
            out += style.trail + byte
        else:
            out += outer[-1].comma if byte == b"," else style.colon if byte == b":" else byte
        at += 1
    return bytes(out)
