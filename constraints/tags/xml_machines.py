"""Machines of XML values: strings as they are, arrays and objects as elements, other values as JSON.

    object  = (white space · begin(name, type) · value · end)* · white space        members in declared order, or any
    array   = (white space · begin of an item(type) · value · end)* · white space

A string does not contain the end of its element. The short texts of needs are a least fixed point, as in
``json/lazy/values.py``; ``None`` where no value can be written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa
from ..automata.machines import Choice, DfaMachine
from ..automata.nfa import Nfa
from ..automata.region import Machine
from ..json import objects as members_of
from ..json import strings
from ..json.finite import DEPTH
from ..json.lazy.settle import names_of
from ..json.lazy.texts import inside
from ..json.lazy.values import Machines
from ..json.numbers import number_automaton
from ..json.shapes import Arrays, Need, Numbers, Objects, Strings
from ..narrowing import Narrowing, merged
from ..regex.constraint import regex
from .around import glued
from .excluded import lacking
from .xml_elements import Items, Members
from .xml_spelling import PLAIN, names_in
from .xml_styles import Parameters

Look = Callable[[Need], Sequence[bytes | None]]
"""A function from a need to a short text of each of its forms."""


class Form(NamedTuple):
    """Values of a need of one written type, and a short text of them.

    ``padded``: white space may stand around them.
    """

    type: str
    padded: bool
    machine: Machine | Nfa
    short: Callable[[Look], bytes | None]


class XmlMachines:
    """The machines of the needs of a document as XML values."""

    def __init__(self, machines: Machines, style: Parameters, any_order: bool) -> None:
        self.machines, self.style, self.any_order = machines, style, any_order
        self.around = regex(style.around).nfa
        ends = [mark for mark in (style.end, style.item_end) if mark and "{" not in mark]
        self.marks = lacking((*ends, *style.marks))
        self.unordered: dict[str, None] = {}  # places of objects with too many orders for a finite automaton
        self.below: dict[Need, list[Need]] = {}  # the needs of the elements in a value
        self._forms: dict[Need, list[Form]] = {}
        self._texts: dict[Need, list[bytes | None]] = {}

    def root(self, need: Need) -> Machine | None:
        """Return the machine of the arguments; ``None`` if there are none."""
        objects = self.objects(need)
        for each in objects:
            each.shortest(self.look)
        self.settle()
        found = [each for each in objects if each.shortest(self.look) is not None]
        return Choice(found) if len(found) > 1 else found[0] if found else None

    def nested(self) -> tuple[Narrowing, ...]:
        """Return what a finite automaton lacks: XML within itself, any order of many members."""
        live = {
            need: [each for each in inner if any(text is not None for text in self._texts.get(each, ()))]
            for need, inner in self.below.items()
        }
        found = []
        for need in live:
            seen = list(live[need])
            for each in seen:
                seen += [inner for inner in live.get(each, ()) if inner not in seen]
            if need in seen:
                place = self.machines.where(need)
                found.append(Narrowing(place, "max_depth", "itself at any depth", "few levels", DEPTH))
        for place in self.unordered:
            why = "an automaton of every order would be large"
            found.append(Narrowing(place, "order", "members in any order", "in declared order", why))
        return merged(found)

    # ------------------------------------------------------------ short texts

    def texts(self, need: Need) -> list[bytes | None]:
        """Return a short text of each form of a need."""
        if need not in self._texts:
            self.look(need)
            self.settle()
        return self._texts[need]

    def settle(self) -> None:
        """Find a short text of each form of all needs that have been looked at, and of those below."""
        changed = True
        while changed:
            size, changed = len(self._texts), False
            for need, known in list(self._texts.items()):
                for i, form in enumerate(self.forms(need)):
                    text = form.short(self.look)
                    if text is not None and ((old := known[i]) is None or len(text) < len(old)):
                        known[i], changed = text, True
            changed |= len(self._texts) > size

    def look(self, need: Need) -> list[bytes | None]:
        """Return the short texts of a need that are known so far."""
        if need not in self._texts:
            self._texts[need] = [None] * len(self.forms(need))
        return self._texts[need]

    def short(self, need: Need, begin: Callable[[str], bytes], end: bytes, look: Look) -> bytes | None:
        """Return a short text of an element."""
        pairs = zip(self.forms(need), look(need), strict=True)
        found = [begin(form.type) + text + end for form, text in pairs if text is not None]
        return min(found, key=len, default=None)

    # ------------------------------------------------------------ elements

    def element(self, need: Need, begin: Callable[[str], Nfa], end: bytes) -> Machine:
        """Return the machine of an element, of which there must be a text."""
        found = []
        for form, text in zip(self.forms(need), self.texts(need), strict=True):
            if text is not None:
                pad = [self.around] if form.padded and self.style.around else []
                found.append(glued(begin(form.type), *pad, form.machine, *pad, nfa.literal(end)))
        return found[0] if len(found) == 1 else Choice(found)

    def escaped(self, name: str) -> str:
        """Return a declared name as it is written."""
        return "".join(self.style.entities.get(char, char) for char in name)

    # ------------------------------------------------------------ values

    def forms(self, need: Need) -> list[Form]:
        """Return the forms of the values of a need."""
        if need not in self._forms:
            self._forms[need] = self._of_need(need)
        return self._forms[need]

    def _of_need(self, need: Need) -> list[Form]:
        value, machines = self.machines.value(need), self.machines
        shapes = value.string
        if Strings() in shapes and self.style.types is None and self.style.item is None:
            return [form for form in [self.string(Strings())] if form]  # all others are such strings, too
        found = [form for shape in shapes if (form := self.string(shape)) is not None]
        words = {
            "null": [nfa.literal(each) for each in machines.words(value._replace(boolean=frozenset()))],
            "boolean": [nfa.literal(each) for each in machines.words(value._replace(null=False))],
            "number": [
                number_automaton(shape, machines.notation)
                for shape in value.number
                if machines.shortest_number(shape) is not None
            ],
        }
        if not need and "integer" in (self.style.types or ()):
            words["integer"] = [number_automaton(Numbers(integer=True), machines.notation)]
        by_type: dict[str, list[Nfa]] = {}
        for kind, some in words.items():
            by_type.setdefault(self.type(kind), []).extend(some)
        found += [self.form(kind, dfa.minimize(nfa.union(some))) for kind, some in by_type.items() if some]
        return found + (self.json(need) if self.style.item is None else self.structures(need))

    def type(self, kind: str) -> str:
        """Return what is written for a JSON type."""
        return "" if self.style.types is None else self.style.types[kind]

    def form(self, written_type: str, machine: Machine | Nfa, padded: bool = True) -> Form:
        """Return the form of values that hold no needs."""
        reader = DfaMachine(machine) if isinstance(machine, Nfa) else machine
        text = reader.completion(reader.start())
        return Form(written_type, padded, machine, lambda look: text)

    def string(self, shape: Strings) -> Form | None:
        """Return the form of the strings of a shape; ``None`` if there are none."""
        met = shape.meet(self.marks)
        if met is None or strings.empty(met):
            return None
        listed = met.among is not None
        machine = strings.body(met, PLAIN) if listed else inside(met, PLAIN)
        padded = self.style.padded and shape != Strings()
        return self.form(self.type("string"), machine, padded)

    def json(self, need: Need) -> list[Form]:
        """Return the forms of arrays and objects as JSON."""
        parts: list[tuple[str, Any]] = [("array", each) for each in self.machines.arrays(need)]
        parts += [("object", each) for each in [self.machines.objects(need)] if each is not None]
        look = self.machines.shortest
        return [self.form(self.type(kind), each) for kind, each in parts if each.shortest(look) is not None]

    def structures(self, need: Need) -> list[Form]:
        """Return the forms of arrays and objects as XML."""
        found = []
        for items in map(self.items, self.machines.value(need).array):
            found.append(Form(self.type("array"), False, glued(self.around, items), items.shortest))
            self.below.setdefault(need, []).extend(items.needs)
        for members in self.objects(need):
            self.below.setdefault(need, []).extend(inner for _, inner in (*members.named, *members.others))
            found.append(Form(self.type("object"), False, members, members.shortest))
        return found

    def items(self, shape: Arrays) -> Items:
        """Return the machine of the items of an array."""
        if shape.contains or shape.unique is not None:
            what = "contains" if shape.contains else "uniqueItems"
            raise UnsupportedConstraint(f"{what!r} is not supported where arrays are XML", path=f"/{what}")
        return Items(self, shape)

    def objects(self, need: Need) -> list[Members]:
        """Return the machines of the members of objects, one for each shape."""
        shapes = self.machines.value(need).object
        names = names_of(self.machines, shapes)
        found = []
        for shape in shapes:
            cases = members_of.narrowings(shape, shape.some, names, self.machines.names)
            if any(witness for _, witness in cases):
                why = "a member that must exist and is not declared is not supported in XML parameters"
                raise UnsupportedConstraint(why, path=self.machines.where(need))
            found += [Members(self, case, names) for case, _ in cases]
        if any(each.is_many for each in found):
            self.unordered[self.machines.where(need)] = None
        return found

    def undeclared(self, shape: Objects, names: Sequence[str]) -> list[tuple[Nfa, Need]]:
        """Return the names that are not declared, as automata, with the needs of their values."""
        found: list[tuple[Nfa, Need]] = []
        if shape.most is not None and shape.most <= len(shape.required):
            return found
        for cell, need in members_of.kinds(shape, frozenset(names), self.machines.names):
            if not self.style.names:
                why = "members that are not declared are not supported in this style"
                raise UnsupportedConstraint(why, path="/additionalProperties")
            free = Strings(atoms=frozenset([("pattern", self.style.names, True)]))
            met = cell if any(sign for _, _, sign in cell.atoms) else cell.meet(free)
            body = None if met is None else strings.body(met, names_in(tuple(self.style.entities.items())))
            if body is not None and not body.is_empty:
                found.append((body, need))
        return found
