"""The nodes of the needs of a document."""

from __future__ import annotations

from functools import cached_property

from ...program import nodes
from ...program.node import Node
from ...program.nodes import EMPTY, NOTHING
from ..lazy.values import Machines
from ..shapes import NEVER, Need
from .arrays import array
from .leaves import NotWritten, blanks, number, string
from .objects import objects


def program(machines: Machines) -> Node | None:
    """Return the node of a document's texts, None if nodes do not write some part of it."""
    try:
        found = Writer(machines).root(machines.keywords.root())
    except NotWritten:
        return None
    return None if found is NOTHING else found


class Writer:
    """The nodes of the needs of a document at one depth. ``above``: the needs of which these are parts, where depths differ."""

    def __init__(self, machines: Machines, above: frozenset[Need] = frozenset()) -> None:
        self.machines, self.style, self.above = machines, machines.style, above
        self._known: dict[Need, Node] = {}
        self._open: dict[Need, Node | None] = {}
        if self.style.tuples or self.style.opened or len(self.style.spellings) > 1:
            raise NotWritten("a style")
        self.blank = blanks() if self.style.blank else EMPTY

    @cached_property
    def comma(self) -> Node:
        """What stands between items."""
        return nodes.seq(nodes.text(self.style.comma), self.blank)

    @property
    def below(self) -> Writer:
        """The writer of the values in arrays and objects."""
        if self.style.indent is None:
            return self
        return Writer(self.machines.below, self.above | self._open.keys())

    def root(self, need: Need) -> Node:
        """Return the node of a whole text."""
        return nodes.seq(self.blank, self.node(need), self.blank)

    def node(self, need: Need) -> Node:
        """Return the node of a need's texts; a need within itself becomes a rule. Raises ``NotWritten``."""
        found = self._known.get(need)
        if found is not None:
            return found
        if need == NEVER or self.machines.is_empty(need):
            return NOTHING
        if need in self.above:
            raise NotWritten("an indent of values within themselves")
        if need in self._open:
            rule = self._open[need]
            if rule is None:
                rule = self._open[need] = nodes.rule(self.key(need))
            return rule
        self._open[need] = None
        body = self.body(need)
        rule = self._open.pop(need)
        found = self._known[need] = body if rule is None else nodes.define(rule, body)
        return found

    def key(self, need: Need) -> object:
        """Return what is read by the rule of any value at all; None for another rule, which only this document has."""
        return None if need else ("json", id(self.style), self.machines.notation, self.machines.open_objects)

    def body(self, need: Need) -> Node:
        """Return the node of a need's texts, by the types of its values."""
        machines, value = self.machines, self.machines.value(need)
        options = [nodes.text(word) for word in machines.words(value)]
        options += [number(shape, machines.notation) for shape in value.number]
        options += [string(shape, self.style.spellings[0]) for shape in value.string]
        options += [array(self, machine) for machine in machines.arrays(need)]
        found = machines.objects(need)
        if found is not None:
            options += objects(self, found)
        return nodes.alt(*options)
