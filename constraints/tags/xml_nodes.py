"""XML values as nodes: strings as they are, arrays and objects as elements, other values as JSON.

    object  = (white space · begin(name, type) · value · end)* · white space        members in declared order, or any
    array   = white space · (white space · begin of an item(type) · value · end)* · white space

A string does not contain the end of its element. What follows a name, or the begin of an item, is an *element*: its type if the
style writes one, the rest of the begin, the value, the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import UnsupportedConstraint
from ..automata import nfa
from ..automata.nfa import Nfa
from ..json import objects as members_of
from ..json import strings
from ..json.nodes import Writer
from ..json.nodes.arrays import arrays
from ..json.nodes.objects import objects
from ..json.shapes import NEVER, Arrays, Need, Numbers, Objects, Strings
from ..program import nodes
from ..program.labelled import labelled
from ..program.node import Node
from ..program.nodes import EMPTY, NOTHING
from ..program.prune import pruned
from ..program.tables import of_nfa
from .excluded import lacking
from .xml_leaves import Scalars, pattern, regular, scalars, string
from .xml_spelling import names_in
from .xml_styles import Parameters


class Form(NamedTuple):
    """Values of one written type. ``padded``: white space may stand around them."""

    type: str
    values: Node | Scalars | Strings
    padded: bool = True


class XmlWriter:
    """The nodes of the needs of a document as XML values. ``json``: the writer of those that are JSON."""

    def __init__(self, json: Writer, style: Parameters, any_order: bool) -> None:
        self.json, self.needs, self.style, self.any_order = json, json.needs, style, any_order
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
        found = [self.written(form, rest.encode(), end.encode()) for form in self.forms(need)]
        return nodes.alt(*found)

    def written(self, form: Form, rest: bytes, end: bytes) -> Node:
        """Return the node of the elements whose value is of a form."""
        begin, pad = nodes.text(form.type.encode() + rest), self.style.around if form.padded else ""
        if isinstance(form.values, Node):
            return nodes.seq(begin, regular(pad), form.values, regular(pad, end))
        if isinstance(form.values, Strings):
            return nodes.seq(begin, string(form.values, pad, end))
        return nodes.seq(begin, scalars(form.values, pad, end))

    # ------------------------------------------------------------ values

    def forms(self, need: Need) -> list[Form]:
        """Return the forms of the values of a need."""
        value, notation = self.json.value(need), self.json.notation
        if Strings() in value.string and self.style.types is None and self.style.item is None:
            return [self.string(Strings())]  # all others are such strings, too
        found = [self.string(shape) for shape in value.string]
        null, *booleans = self.json.style.words
        of_kind = {
            "null": Scalars((null,) * value.null),
            "boolean": Scalars(tuple(booleans[each] for each in sorted(value.boolean))),
            "number": Scalars((), tuple(value.number), notation),
        }
        if not need and "integer" in (self.style.types or ()):
            of_kind["integer"] = Scalars((), (Numbers(integer=True),), notation)
        found += [Form(self.type(kind), some) for kind, some in of_kind.items() if some.words or some.numbers]
        if self.style.item is None:
            parts = nodes.alt(*arrays(self.json, need)), nodes.alt(*objects(self.json, need, self.json.style))
        else:
            parts = self.structure("array", need), self.structure("object", need)
        kinds, padded = ("array", "object"), self.style.item is None
        return [
            *found,
            *(Form(self.type(kind), part, padded) for kind, part in zip(kinds, parts, strict=True)),
        ]

    def type(self, kind: str) -> str:
        """Return what is written for a JSON type."""
        return "" if self.style.types is None else self.style.types[kind]

    def string(self, shape: Strings) -> Form:
        """Return the form of the strings of a shape."""
        met = shape.meet(self.marks) or Strings(among=frozenset())
        return Form(self.type("string"), met, self.style.padded and shape != Strings())

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
        body = nodes.alt(*(map(self.array, value.array) if kind == "array" else self.objects(need)))
        rule = self._open.pop(key)
        found = self._known[key] = body if rule is None else nodes.define(rule, body)
        return found

    # ------------------------------------------------------------ arrays

    def array(self, shape: Arrays) -> Node:
        """Return the node of the arrays of a shape. Raises ``UnsupportedConstraint``."""
        if shape.contains or shape.unique is not None:
            what = "contains" if shape.contains else "uniqueItems"
            raise UnsupportedConstraint(f"{what!r} is not supported where arrays are XML", path=f"/{what}")
        size, (begin, _, rest) = len(shape.prefix), (self.style.item or "").partition("{type}")
        before = regular(self.style.between_items, begin.encode())

        def item(n: int) -> Node:
            return nodes.seq(before, self.element(shape.at(n), rest, self.style.item_end))

        def items(least: int) -> Node:
            most = None if shape.most is None else max(0, shape.most - size)
            some = nodes.repeat(item(size), max(0, least - size), most)
            for n in range(size - 1, -1, -1):
                one = nodes.seq(item(n), some) if shape.most is None or n < shape.most else NOTHING
                some = nodes.alt(*([EMPTY] if n >= least else []), one)
            return some

        return nodes.seq(regular(self.style.around), self.ended(items, shape.least))

    def ended(self, elements: Callable[[int], Node], least: int) -> Node:
        """Return at least ``least`` elements with the white space after the last, which some styles have only after one."""
        after = regular(self.style.after)
        if self.style.blank:
            return nodes.seq(elements(least), after)
        return nodes.alt(*([EMPTY] if not least else []), nodes.seq(elements(max(least, 1)), after))

    # ------------------------------------------------------------ objects

    def objects(self, need: Need) -> list[Node]:
        """Return the nodes of the objects of a need, one for each shape. Raises ``UnsupportedConstraint``."""
        shapes = self.json.value(need).object
        names, found = members_of.names_of(self.needs, shapes), []
        for shape in shapes:
            cases = members_of.narrowings(shape, shape.some, names, self.needs.names)
            if any(witness for _, witness in cases):
                why = "a member that must exist and is not declared is not supported in XML parameters"
                raise UnsupportedConstraint(why, path=self.needs.where(need))
            found += [self.object(case, names) for case, _ in cases]
        return found

    def object(self, shape: Objects, names: Sequence[str]) -> Node:
        """Return the node of the objects of a shape: members in declared order, those not declared last, or in any order."""
        order, namer = members_of.orders(list(names), shape)[0], self.needs.names
        found = [(names[i], members_of.need_of(shape, names[i], namer)) for i in order]
        named = [(name, need) for name, need in found if name in shape.required or need != NEVER]
        required = [i for i, (name, _) in enumerate(named) if name in shape.required]
        begins, values = list[Nfa](), list[Node]()
        for name, need in named:
            written = "".join(self.style.entities.get(char, char) for char in name)
            begins.append(self.begin(nfa.literal(written.encode())))
            values.append(self.element(need, self.rest, self.style.end.replace("{name}", written)))
        others = [
            (self.begin(name), self.element(need, self.rest, self.style.end))
            for name, need in self.undeclared(shape, names)
        ]
        if self.any_order:
            begins += [begin for begin, _ in others]
            values += [value for _, value in others]
        table = labelled(begins)

        def members(least: int, most: int | None) -> Node:
            if table is None:
                return NOTHING if least else EMPTY
            return nodes.bag(table, table, values, len(named), required, least, most, not self.any_order)

        if self.any_order or not others:
            return self.ended(lambda least: members(least, shape.most), max(shape.least, bool(required)))
        other = nodes.alt(*(nodes.seq(nodes.lex(of_nfa(begin)), value) for begin, value in others))
        return self.ended(
            lambda least: then_others(members, other, len(named), least, shape.most), shape.least
        )

    @property
    def rest(self) -> str:
        """What follows the type in the begin of a member."""
        return self.style.begin.partition("{type}")[2]

    def begin(self, name: Nfa) -> Nfa:
        """Return the begin of a member up to its type, with the white space before it."""
        between, parts = pattern(self.style.between), list[Nfa]()
        for text in self.style.begin.partition("{type}")[0].split("{between}"):
            before, found, behind = text.partition("{name}")
            parts += [
                between,
                nfa.literal(before.encode()),
                *([name, nfa.literal(behind.encode())] if found else []),
            ]
        return nfa.concat(parts)

    def undeclared(self, shape: Objects, names: Sequence[str]) -> list[tuple[Nfa, Need]]:
        """Return the names that are not declared, as automata, with the needs of their values."""
        found: list[tuple[Nfa, Need]] = []
        if shape.most is not None and shape.most <= len(shape.required):
            return found
        for cell, need in members_of.kinds(shape, frozenset(names), self.needs.names):
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
    """Return the node of members and then others, ``least`` to ``most`` in all. ``members``: so many of ``size``."""
    options = []
    for count in range(min(least, size + 1) if most is None else min(size, most) + 1):
        left = None if most is None else most - count
        options.append(nodes.seq(members(count, count), nodes.repeat(other, max(0, least - count), left)))
    if most is None:
        options.append(nodes.seq(members(least, None), nodes.repeat(other)))
    return nodes.alt(*options)
