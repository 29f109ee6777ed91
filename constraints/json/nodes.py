"""Values as nodes: the texts of a schema's values, written as a program.

a number, a word, a string        a table, or a table with so many characters
an array                          its items one after another; with a count of some, a rule for each state
an object                         a bag of members
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..automata.nfa import Nfa
from ..program import nodes, tables
from ..program.nodes import EMPTY, NOTHING, Node
from ..program.tables import Table
from . import strings
from .formats import FEWER_AND_MORE
from .lazy.array_items import Items
from .lazy.arrays import ArrayMachine
from .lazy.counted import CountedPattern
from .lazy.members import Form
from .lazy.settle import forms
from .lazy.texts import in_quotes, shortest_string
from .lazy.values import Machines
from .numbers import Notation, number_automaton
from .patterns import any_text
from .shapes import NEVER, Need, Numbers, Objects, Strings
from .text import Spelling, Style

MOST_ITEMS = 2000  # states of an array whose items are told apart
MOST_NAMES = 1 << 16  # states of a table of names
BLANKS = tuple(b" \t\n\r")


class NotWritten(Exception):
    """A part of a schema that nodes do not write."""


def program(machines: Machines) -> Node | None:
    """Return the node of a document's texts, None if nodes do not write some part of it."""
    try:
        found = Writer(machines).root(machines.keywords.root())
    except NotWritten:
        return None
    return None if found is NOTHING else found


class Writer:
    """The nodes of the needs of a document."""

    def __init__(self, machines: Machines) -> None:
        self.machines, self.style = machines, machines.style
        self._known: dict[Need, Node] = {}
        self._open: dict[Need, Node | None] = {}
        style = self.style
        if style.indent is not None or style.tuples or style.opened or len(style.spellings) > 1:
            raise NotWritten("a style")
        self.blank = lex(blanks()) if style.blank else EMPTY

    def root(self, need: Need) -> Node:
        """Return the node of a whole text."""
        return nodes.seq(self.blank, self.node(need), self.blank)

    def node(self, need: Need) -> Node:
        """Return the node of a need's texts; a need within itself becomes a rule."""
        found = self._known.get(need)
        if found is not None:
            return found
        if need == NEVER or self.machines.is_empty(need):
            return NOTHING
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
        machines, value, style = self.machines, self.machines.value(need), self.style
        options = [nodes.text(word) for word in machines.words(value)]
        options += [number(shape, machines.notation) for shape in value.number]
        options += [string(shape, style.spellings[0]) for shape in value.string]
        for machine in machines.arrays(need):
            if type(machine) is not ArrayMachine:
                raise NotWritten("items that must differ")
            options.append(self.array(machine.items))
        if value.object:
            options += self.objects(value.object)
        return nodes.alt(*options)

    # ------------------------------------------------------------ arrays

    def array(self, items: Items) -> Node:
        """Return the node of one shape of arrays."""
        return nodes.seq(nodes.text(b"["), self.blank, self.items(items), nodes.text(b"]"))

    def items(self, items: Items) -> Node:
        shape, comma = items.shape, self.comma
        if not shape.prefix and not shape.contains:
            item = nodes.seq(self.node(shape.rest), self.blank)
            return nodes.repeat(item, shape.least, shape.most, comma)
        start = (0, items.start)
        if shape.contains:
            return self.states(items, start)
        # the first positions one by one, the rest as many
        size = len(shape.prefix)
        if size > MOST_ITEMS:
            raise NotWritten("many positions")
        rest = nodes.seq(comma, self.node(shape.rest), self.blank)
        most = None if shape.most is None else max(0, shape.most - size)
        tail = nodes.repeat(rest, max(0, shape.least - size), most)
        for n in range(size - 1, -1, -1):
            before = EMPTY if n == 0 else comma
            one = nodes.seq(before, self.node(shape.prefix[n]), self.blank, tail)
            if shape.most is not None and n >= shape.most:
                one = NOTHING
            tail = nodes.alt(*([EMPTY] if n >= shape.least else []), one)
        return tail

    def states(self, items: Items, start: tuple[int, tuple[int, ...]]) -> Node:
        """Return the node of an array that counts some of its items: a rule for each state, and the first item before."""
        rules: dict[tuple[int, tuple[int, ...]], Node] = {}
        todo: list[tuple[int, tuple[int, ...]]] = []

        def options(n: int, counts: tuple[int, ...], before: Node) -> Node:
            found = [EMPTY] if items.done(n, counts) else []
            for need, after in items.live(n, counts):
                there = (items.after(n), after)
                if there not in rules:
                    rules[there] = nodes.rule()
                    todo.append(there)
                found.append(nodes.seq(before, self.node(need), self.blank, rules[there]))
            return nodes.alt(*found)

        first = options(*start, EMPTY)
        for state in todo:
            nodes.define(rules[state], options(*state, self.comma))
            if len(rules) > MOST_ITEMS:
                raise NotWritten("many counts")
        return first

    @property
    def comma(self) -> Node:
        return nodes.seq(nodes.text(self.style.comma), self.blank)

    # ------------------------------------------------------------ objects

    def objects(self, shapes: Sequence[Objects]) -> list[Node]:
        """Return the nodes of the objects of some shapes."""
        names, found, classes = forms(self.machines, shapes)
        kinds = sorted(classes, key=classes.__getitem__)
        return [self.object(form, names, kinds) for form in found]

    def object(self, form: Form, names: tuple[str, ...], kinds: Sequence[Strings]) -> Node:
        """Return the node of one shape of objects."""
        if form.must or form.orders:
            raise NotWritten("an order, or members of which one must be there")
        others = [each for each in form.others if not self.machines.is_empty(each.need)]
        if others and form.least > max(1, form.required.bit_count()):
            raise NotWritten("names that must differ")
        live = [i for i in range(len(names)) if form.live >> i & 1]
        if any(form.required >> i & 1 and i not in live for i in range(len(names))):
            return NOTHING
        values = [self.node(form.needs[i]) for i in live] + [self.node(each.need) for each in others]
        values = [nodes.seq(self.blank, value, self.blank) for value in values]
        classes = tuple(kinds[each.bit - len(names)] for each in others)
        style = self.style
        first, later = (
            names_table(tuple(names[i] for i in live), names, classes, before, style)
            for before in (b"", style.comma)
        )
        braces = [nodes.text(brace) for brace in style.braces]
        if first is None or later is None:  # no name can be read
            return NOTHING if form.least or form.required else nodes.seq(braces[0], self.blank, braces[1])
        required = [k for k, i in enumerate(live) if form.required >> i & 1]
        least = form.least if form.counts else 0
        inside = nodes.bag(first.table, later.table, values, len(live), required, least, form.most)
        return nodes.seq(braces[0], self.blank, inside, braces[1])


# ---------------------------------------------------------------- leaves


def lex(nfa: Nfa) -> Node:
    """Return the node of a byte automaton."""
    return nodes.lex(tables.of_nfa(nfa))


@lru_cache(maxsize=1)
def blanks() -> Nfa:
    """Return the automaton of any white space."""
    edges = [(0, byte, byte, 0) for byte in BLANKS]
    zero = np.zeros(1, np.int64)
    return Nfa(1, np.array(edges, np.int64), np.empty((0, 2), np.int64), zero, zero)


@lru_cache(maxsize=1024)
def number(shape: Numbers, notation: Notation) -> Node:
    """Return the node of the numbers of a shape."""
    return lex(number_automaton(shape, notation))


@lru_cache(maxsize=1024)
def string(shape: Strings, spelling: Spelling) -> Node:
    """Return the node of the strings of a shape, with their quotes."""
    if any(which in FEWER_AND_MORE for _, which, _ in shape.atoms):
        raise NotWritten("a format with leap seconds")
    if shortest_string(shape, spelling) is None:
        return NOTHING
    if shape.among is not None or (not shape.least and shape.most is None):
        return lex(in_quotes(strings.body(shape, spelling), spelling))
    text = CountedPattern(shape, spelling).text if shape.atoms or shape.but else None
    body = any_text(spelling.alphabet) if text is None else text.nfa
    start = int(body.start[0])
    between = {start} if text is None else text.between
    size, quote = body.num_states, spelling.closing
    # the opening quote leads to a copy of the first state, which it does not end a character by
    edges = body.edges.tolist()
    edges += [[size, low, high, target] for source, low, high, target in edges if source == start]
    edges += [[state, quote, quote, size + 1] for state in body.accept.tolist()]
    if start in body.accept:
        edges.append([size, quote, quote, size + 1])
    edges.append([size + 2, quote, quote, size])
    order = [size + 2, *range(size + 2)]
    place = {state: i for i, state in enumerate(order)}
    label = [0 if state == size + 1 else -1 for state in order]
    marks = [state in between for state in order]
    made = tables.table([(place[a], low, high, place[b]) for a, low, high, b in edges], label, marks)
    return nodes.count(made, shape.least, shape.most)


class Names(NamedTuple):
    """A table of names, and its states by what they have read: see :func:`names_table`."""

    table: Table
    states: dict[Hashable, int]


@lru_cache(maxsize=1024)
def names_table(
    live: tuple[str, ...],
    declared: tuple[str, ...],
    classes: tuple[Strings, ...],
    before: bytes,
    style: Style,
) -> Names | None:
    """Return the table of an object's names, from the separator before one to the colon after it.

    Labels are those of the ``live`` names, then of the ``classes`` of others, to which no name of ``declared`` belongs. A state
    is a state of the words declared and one of each class, or a place in the punctuation.
    """
    if any(kind.least or kind.most is not None for kind in classes):
        raise NotWritten("names of some length")
    spelling = style.spellings[0]
    written = [name for name in declared if all(map(spelling.ways, name))]
    base = names_table((), (), classes, before, style) if declared and classes else None
    trie = strings.words(written, spelling)
    parts = [trie, *(strings.every(kind.atoms, frozenset(), spelling) for kind in classes)]
    steps = list(map(rows_of, parts))
    ends = [frozenset(part.accept.tolist()) for part in parts]
    number = {name: i for i, name in enumerate(live)}
    which = {run(trie, steps[0], spelling.plain(name)): number.get(name) for name in written}
    states: dict[Hashable, int] = {}
    edges: list[tuple[int, int, int, int]] = []

    def state(key: Hashable) -> int:
        if len(states) > MOST_NAMES:
            raise NotWritten("many names")
        return states.setdefault(key, len(states))

    def chain(key: str, text: bytes, found: int | None = None) -> int:
        """Add a separator, with white space on both sides where that may be; return the state after it."""
        here = state((key, found, 0))
        for i, byte in enumerate(text):
            if style.blank and (i or found is not None):
                edges.extend((here, blank, blank, here) for blank in BLANKS)
            there = state((key, found, i + 1))
            edges.append((here, byte, byte, there))
            here = there
        return here

    here = chain("before", before)
    if style.blank and before:
        edges.extend((here, blank, blank, here) for blank in BLANKS)
    first = tuple(int(part.start[0]) if part.num_states else -1 for part in parts)
    edges.append((here, spelling.opening[0], spelling.opening[0], state(first)))
    label: dict[int, int] = {}
    todo = [first]
    for at in todo:
        source = states[at]
        rows = [steps[i].get(q, ()) for i, q in enumerate(at) if q >= 0]
        cuts = sorted({cut for row in rows for low, high, _ in row for cut in (low, high + 1)})
        for low, past in itertools.pairwise(cuts):
            target = tuple(after(steps[i], q, low) for i, q in enumerate(at))
            if max(target) < 0:
                continue
            if target not in states:
                todo.append(target)
            edges.append((source, low, past - 1, state(target)))
        if at[0] in ends[0]:
            found = which[at[0]]
        else:
            found = next((len(live) + i for i, q in enumerate(at[1:]) if q in ends[i + 1]), None)
        if found is not None:
            kind = ("name", found) if found < len(live) else ("class", found - len(live))
            edges.append((source, spelling.closing, spelling.closing, state((*kind, 0))))
            label[chain(kind[0], style.colon, kind[1])] = found
    order = [label.get(i, -1) for i in range(len(states))]
    shared = None
    if base is not None:
        there = [-1] * len(states)
        apart = [True] * len(states)
        for key, i in states.items():
            same = key if isinstance(key[0], str) else (-1, *key[1:])
            there[i] = base.states.get(same, -1)
            apart[i] = key[0] in ("before", "name") or (key[0] != "class" and key[0] >= 0) or there[i] < 0
        shared = (base.table, there, apart)
    found_table = tables.trimmed(list(dict.fromkeys(edges)), order, shared)
    if found_table is None:
        return None
    made, place = found_table
    return Names(made, {key: place[i] for key, i in states.items() if i in place})


def after(rows: dict[int, list[tuple[int, int, int]]], state: int, byte: int) -> int:
    """Return the state after a byte, −1 if there is none."""
    return next((to for low, high, to in rows.get(state, ()) if low <= byte <= high), -1)


def rows_of(nfa: Nfa) -> dict[int, list[tuple[int, int, int]]]:
    """Return the moves (lowest byte, highest byte, target) of each state."""
    rows: dict[int, list[tuple[int, int, int]]] = {}
    for source, low, high, target in nfa.edges.tolist():
        rows.setdefault(source, []).append((low, high, target))
    return rows


def run(nfa: Nfa, rows: dict[int, list[tuple[int, int, int]]], text: bytes) -> int:
    """Return the state after a text."""
    state = int(nfa.start[0])
    for byte in text:
        state = after(rows, state, byte)
    return state
