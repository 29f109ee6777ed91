"""XML values as nodes: strings as they are, arrays and objects as elements, other values as JSON.

    object  = (white space · begin(name, type) · value · end)* · white space        members in declared order, or any
    array   = white space · (white space · begin of an item(type) · value · end)* · white space

A string does not contain the end of its element. What follows a name, or the begin of an item, is an *element*: its type if the
style writes one, the rest of the begin, the value, the end. A style with a quote has brackets around arrays and objects, and
commas between their parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ...errors import UnsupportedConstraint
from ..automata import nfa
from ..automata.nfa import Nfa
from ..json import objects as members_of
from ..json import strings
from ..json.items import settled
from ..json.nodes import ValueWriter
from ..json.nodes.arrays import arrays, sequence
from ..json.nodes.leaves import lex, number_node
from ..json.nodes.objects import objects
from ..json.objects import Form
from ..json.shapes import NEVER, Arrays, Need, Numbers, Strings
from ..json.text import Style
from ..program import nodes
from ..program.labelled import labelled
from ..program.node import Node
from ..program.nodes import EMPTY, NOTHING
from ..program.prune import pruned
from .xml_leaves import lacking, names_in, pattern, regular, string_element
from .xml_styles import ParameterStyle


class XmlValues(NamedTuple):
    """Values of one written type. ``padded``: white space may stand around them."""

    type: str
    texts: Node | Strings
    padded: bool = True


class XmlWriter:
    """The nodes of the needs of a document as XML values. ``json``: the writer of those that are JSON."""

    def __init__(self, json: ValueWriter, style: ParameterStyle, any_order: bool) -> None:
        self.json, self.needs, self.style, self.any_order = json, json.needs, style, any_order
        self.comma = b"," if style.quote else b""
        self.separated = ValueWriter(json.needs, Style(self.comma, b"", 0), json.notation)
        ends = [mark for mark in (style.end, style.item_end) if mark and "{" not in mark]
        self.marks = lacking((*ends, *style.marks))
        self._known: dict[tuple[str, Need], Node] = {}
        self._open: dict[tuple[str, Need], Node | None] = {}

    def root(self, need: Need) -> Node:
        """Return the node of the arguments, ``NOTHING`` if there are none. Raises ``UnsupportedConstraint``."""
        return pruned(self.structure("object", need))

    # ------------------------------------------------------------ elements

    def element(self, need: Need, rest: str, end: str) -> Node:
        """Return the node of an element of which the begin goes on with ``rest`` after the type."""
        if need == NEVER:
            return NOTHING
        return nodes.alt(*(self.written(some, rest.encode(), end.encode()) for some in self.values(need)))

    def written(self, some: XmlValues, rest: bytes, end: bytes) -> Node:
        """Return the node of an element from its type on: ``rest`` of its begin tag, one of the values ``some``, ``end``."""
        begin, pad = nodes.text(some.type.encode() + rest), self.style.around if some.padded else ""
        if isinstance(some.texts, Strings):
            quote = self.style.quote.encode()
            return nodes.seq(begin, nodes.text(quote), string_element(some.texts, pad, quote + end))
        return nodes.seq(begin, regular(pad), some.texts, regular(pad, end))

    # ------------------------------------------------------------ values

    def values(self, need: Need) -> list[XmlValues]:
        """Return the values that satisfy a need, grouped by the type that is written beside them."""
        value, notation, style = self.json.value(need), self.json.notation, self.style
        if Strings() in value.string and style.types is None and style.item is None:
            return [self.string(Strings())]  # all others are such strings, too
        null, *booleans = map(nodes.text, self.json.style.words)
        of_kind = {
            "null": [null] * value.null,
            "boolean": [booleans[each] for each in sorted(value.boolean)],
            "number": [number_node(shape, notation) for shape in value.number],
        }
        if not need and "integer" in (style.types or ()):
            of_kind["integer"] = [number_node(Numbers(integer=True), notation)]
        if style.item is None:
            of_kind |= {"array": arrays(self.json, need), "object": objects(self.json, need, self.json.style)}
        else:
            of_kind |= {kind: [self.structure(kind, need)] for kind in ("array", "object")}
        found = [self.string(shape) for shape in value.string]
        for kind, some in of_kind.items():
            is_padded = style.item is None or kind not in ("array", "object")
            found.append(XmlValues(self.type(kind), nodes.alt(*some), is_padded))
        return found

    def type(self, kind: str) -> str:
        """Return what is written for a JSON type."""
        return "" if self.style.types is None else self.style.types[kind]

    def string(self, shape: Strings) -> XmlValues:
        """Return the strings of a shape."""
        met = shape.meet(self.marks) or Strings(among=frozenset())
        return XmlValues(self.type("string"), met, self.style.padded and shape != Strings())

    def structure(self, kind: str, need: Need) -> Node:
        """Return the node of the arrays or the objects of a need as XML; a need within itself becomes a rule."""
        key = kind, need
        if key in self._known:
            return self._known[key]
        if key in self._open:
            rule = self._open[key]
            if rule is None:
                rule = self._open[key] = nodes.rule()
            return rule
        self._open[key] = None
        value = self.json.value(need)
        body = nodes.alt(
            *(map(self.array, map(settled, value.array)) if kind == "array" else self.objects(need))
        )
        if self.style.quote:
            opening, closing = (b"[", b"]") if kind == "array" else (b"{", b"}")
            body = nodes.seq(nodes.text(opening), body, nodes.text(closing))
        rule = self._open.pop(key)
        found = self._known[key] = body if rule is None else nodes.define(rule, body)
        return found

    # ------------------------------------------------------------ arrays

    def array(self, shape: Arrays) -> Node:
        """Return the node of the arrays of a shape. Raises ``UnsupportedConstraint``."""
        if shape.unique is not None:
            raise UnsupportedConstraint(
                "'uniqueItems' is not supported where arrays are XML", path="/uniqueItems"
            )
        begin, _, rest = (self.style.item or "").partition("{type}")
        before = regular(self.style.between_items, begin.encode())

        def item(need: Need) -> Node:
            return nodes.seq(before, self.element(need, rest, self.style.item_end))

        def items(least: int) -> Node:
            return sequence(self.separated, replace(shape, least=least), item)

        return nodes.seq(regular(self.style.around), self.ended(items, shape.least))

    def ended(self, elements: Callable[[int], Node], least: int) -> Node:
        """Return at least ``least`` elements with the white space after the last, which some styles have only after one."""
        after = regular(self.style.after)
        if self.style.blank:
            return nodes.seq(elements(least), after)
        return nodes.alt(*([EMPTY] if not least else []), nodes.seq(elements(max(least, 1)), after))

    # ------------------------------------------------------------ objects

    def objects(self, need: Need) -> list[Node]:
        """Return the nodes of the objects that satisfy a need, one for each form. Raises ``UnsupportedConstraint``."""
        found = members_of.forms(self.needs, self.json.value(need).object)
        if any(form.some for form in found):
            why = "a member that must exist and is not declared is not supported in XML parameters"
            raise UnsupportedConstraint(why, path=self.needs.where(need))
        return [self.object(form) for form in found]

    def object(self, form: Form) -> Node:
        """Return the node of the objects of a form: members in declared order, those not declared last, or in any order."""
        order = form.orders[0] if form.orders else range(len(form.names))
        named = [i for i in order if i in form.required or form.needs[i] != NEVER]
        required = [k for k, i in enumerate(named) if i in form.required]
        begins, values = list[Nfa](), list[Node]()
        begin, _, rest = self.style.begin.partition("{type}")
        for i in named:
            written = "".join(self.style.entities.get(char, char) for char in form.names[i])
            begins.append(self.begin(begin, nfa.literal(written.encode())))
            values.append(self.element(form.needs[i], rest, self.style.end.replace("{name}", written)))
        others = [
            (self.begin(begin, name), self.element(need, rest, self.style.end))
            for name, need in self.undeclared(form)
        ]
        if self.any_order:
            begins += [begin for begin, _ in others]
            values += [value for _, value in others]
        comma = nfa.literal(self.comma)
        first = labelled(begins)
        later = labelled([nfa.concat([comma, each]) for each in begins]) if self.comma else first

        def members(least: int, most: int | None) -> Node:
            if first is None or later is None:
                return NOTHING if least else EMPTY
            return nodes.bag(first, later, values, len(named), required, least, most, not self.any_order)

        if self.any_order or not others:
            return self.ended(lambda least: members(least, form.most), max(form.least, bool(required)))
        other = nodes.alt(*(nodes.seq(lex(begin), value) for begin, value in others))
        return self.ended(lambda least: then_others(members, other, len(named), least, form.most), form.least)

    def begin(self, begin: str, name: Nfa) -> Nfa:
        """Return the begin of a member with its name, and the white space before it."""
        between, parts = pattern(self.style.between), list[Nfa]()
        for text in begin.split("{between}"):
            before, found, behind = text.partition("{name}")
            parts += [between, nfa.literal(before.encode())]
            parts += [name, nfa.literal(behind.encode())] if found else []
        return nfa.concat(parts)

    def undeclared(self, form: Form) -> list[tuple[Nfa, Need]]:
        """Return the names that are not declared, as automata, with the needs of their values."""
        found: list[tuple[Nfa, Need]] = []
        if form.most is not None and form.most <= len(form.required):
            return found
        for cell, need in form.others:
            if not self.style.names:
                why = "members that are not declared are not supported in this style"
                raise UnsupportedConstraint(why, path="/additionalProperties")
            free = Strings(atoms=frozenset([("pattern", self.style.names, True)]))
            met = cell if any(sign for _, _, sign in cell.atoms) else cell.meet(free)
            body = None if met is None else strings.body(met, names_in(tuple(self.style.entities.items())))
            if body is not None and not body.is_empty:
                found.append((body, need))
        return found


def then_others(
    members: Callable[[int, int | None], Node], other: Node, size: int, least: int, most: int | None
) -> Node:
    """Return ``least`` to ``most`` members: ``members(low, high)`` of the ``size`` declared ones, and then others."""
    options = []
    for count in range(min(least, size + 1) if most is None else min(size, most) + 1):
        left = None if most is None else most - count
        options.append(nodes.seq(members(count, count), nodes.repeat(other, max(0, least - count), left)))
    if most is None:
        options.append(nodes.seq(members(least, None), nodes.repeat(other)))
    return nodes.alt(*options)
