"""Arrays as nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from ...automata.nfa import Nfa, literal
from ...program import nodes, tables
from ...program.node import Node
from ...program.nodes import EMPTY, NOTHING
from ...program.tables import Table
from .. import strings
from ..exact import Number
from ..lazy.array_items import Items
from ..lazy.arrays import ArrayMachine
from ..lazy.listed import ListedArrayMachine
from ..lazy.texts import in_quotes
from ..numbers import number_automaton
from ..shapes import Need, Numbers
from .leaves import BLANKS, NotWritten
from .names import chain, rows_of

if TYPE_CHECKING:
    from .values import Writer

MOST_ITEMS = 2000
"""The most states of an array whose items are told apart."""
Inner = Callable[[Need], Node]


def array(writer: Writer, machine: Any) -> Node:
    """Return the node of the arrays of a machine. Raises ``NotWritten``."""
    if type(machine) is ListedArrayMachine:
        return in_brackets(writer, machine.shape.least, apart(writer, machine))
    if type(machine) is not ArrayMachine:
        raise NotWritten("items that must differ")
    shape = machine.items.shape
    if writer.style.indent is None:
        return in_brackets(writer, shape.least, items(writer, machine.items, shape.least))
    return in_brackets(writer, shape.least, items(writer, machine.items, max(1, shape.least)))


def in_brackets(writer: Writer, least: int, some: Node) -> Node:
    """Return the node of an array of these items; with an indent there is at least one of them, or ``least`` is 0."""
    style, left, right = writer.style, nodes.text(b"["), nodes.text(b"]")
    if style.indent is None:
        return nodes.seq(left, writer.blank, some, right)
    some = nodes.seq(nodes.text(style.lead), some, nodes.text(style.trail))
    return nodes.seq(left, nodes.alt(*([EMPTY] if not least else []), some), right)


def items(writer: Writer, found: Items, least: int) -> Node:
    """Return the node of at least ``least`` items with what is between them."""
    shape, comma, inner = found.shape, writer.comma, writer.below.node
    if not shape.prefix and not shape.contains:
        item = nodes.seq(inner(shape.rest), writer.blank)
        return nodes.repeat(item, least, shape.most, comma)
    if shape.contains:
        return states(writer, found, least > shape.least)
    # the first positions one by one, the rest as many
    size = len(shape.prefix)
    if size > MOST_ITEMS:
        raise NotWritten("many positions")
    rest = nodes.seq(comma, inner(shape.rest), writer.blank)
    most = None if shape.most is None else max(0, shape.most - size)
    tail = nodes.repeat(rest, max(0, least - size), most)
    for n in range(size - 1, -1, -1):
        before = EMPTY if n == 0 else comma
        one = nodes.seq(before, inner(shape.prefix[n]), writer.blank, tail)
        if shape.most is not None and n >= shape.most:
            one = NOTHING
        tail = nodes.alt(*([EMPTY] if n >= least else []), one)
    return tail


def states(writer: Writer, found: Items, some: bool) -> Node:
    """Return the node of an array that counts some of its items: a rule for each state, and the first item before.
    ``some``: whether there is a first item."""
    rules: dict[tuple[int, tuple[int, ...]], Node] = {}
    todo: list[tuple[int, tuple[int, ...]]] = []

    def items_from(n: int, counts: tuple[int, ...], before: Node) -> list[Node]:
        options = []
        for need, after in found.live(n, counts):
            there = (found.after(n), after)
            if there not in rules:
                rules[there] = nodes.rule()
                todo.append(there)
            options.append(nodes.seq(before, writer.below.node(need), writer.blank, rules[there]))
        return options

    first = items_from(0, found.start, EMPTY)
    for n, counts in todo:
        end = [EMPTY] if found.done(n, counts) else []
        nodes.define(rules[n, counts], nodes.alt(*end, *items_from(n, counts, writer.comma)))
        if len(rules) > MOST_ITEMS:
            raise NotWritten("many counts")
    return nodes.alt(*([EMPTY] if not some and found.done(0, found.start) else []), *first)


# ---------------------------------------------------------------- items that are listed and differ


def apart(writer: Writer, machine: ListedArrayMachine) -> Node:
    """Return the node of the items of an array whose items are listed and must differ: a bag of their texts."""
    shape, values = machine.shape, machine.values
    if len(set(machine.allowed)) != 1:
        raise NotWritten("items that must differ, listed otherwise by position")
    some = [i for i in range(len(values.texts)) if machine.allowed[0] >> i & 1]
    value_of = {number: value for value, number in values.number.items()}
    found = [text_of(writer, value_of[i], values.texts[i]) for i in some]
    first, later = listed(writer, found, b""), listed(writer, found, writer.style.comma)
    least = max(shape.least, writer.style.indent is not None)
    return nodes.bag(first, later, [writer.blank] * len(found), len(found), (), least, shape.most)


def text_of(writer: Writer, value: Any, text: bytes) -> Nfa:
    """Return the automaton of the texts of one value."""
    if isinstance(value, str):
        spelling = writer.style.spellings[0]
        return in_quotes(strings.words([value], spelling), spelling)
    if isinstance(value, Number):
        among = frozenset([Decimal(text.decode())])
        return number_automaton(Numbers(among=among), writer.machines.notation)
    return literal(text)


def listed(writer: Writer, values: list[Nfa], before: bytes) -> Table:
    """Return the table of the texts of some values behind a text, by their number.

    A state in which a value ends has no moves: where a longer text goes on, the last byte leads to two states.
    """
    size = len(before) + 1
    edges = chain(before, 0, writer.style, False)
    if writer.style.blank and before:
        edges += [(size - 1, byte, byte, size - 1) for byte in BLANKS]
    rows = [rows_of(value) for value in values]
    ends = [frozenset(value.accept.tolist()) for value in values]
    label = [-1] * size
    leaves: dict[int, int] = {}
    start = frozenset((i, int(value.start[0])) for i, value in enumerate(values))
    place, todo = {start: size - 1}, [start]
    for at in todo:
        moves = [(low, high, (i, to)) for i, q in at for low, high, to in rows[i][q]]
        cuts = sorted({low for low, _, _ in moves} | {high + 1 for _, high, _ in moves})
        for low, past in itertools.pairwise(cuts):
            target = frozenset(to for a, b, to in moves if a <= low <= b)
            for i, q in target:
                if q in ends[i]:
                    if i not in leaves:
                        leaves[i] = len(label)
                        label.append(i)
                    edges.append((place[at], low, past - 1, leaves[i]))
            if any(rows[i][q] for i, q in target):
                if target not in place:
                    place[target] = len(label)
                    label.append(-1)
                    todo.append(target)
                edges.append((place[at], low, past - 1, place[target]))
    return tables.table(np.array(edges), label)
