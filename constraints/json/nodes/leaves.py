"""Numbers, strings and white space as nodes."""

from __future__ import annotations

import numpy as np

from ...automata.nfa import Nfa
from ...automata.work import metered
from ...program import nodes, tables
from ...program.node import Node
from ...program.nodes import NOTHING
from ...program.tables import Table
from .. import strings
from ..formats import TIMES
from ..lazy.counted import CountedPattern
from ..lazy.texts import in_quotes, inside, machine_format, shortest_string
from ..numbers import Notation, number_automaton
from ..patterns import any_text
from ..shapes import Numbers, Strings
from ..text import Spelling

BLANKS = tuple(b" \t\n\r")


class NotWritten(Exception):
    """A part of a schema that nodes do not write."""


def lex(nfa: Nfa) -> Node:
    """Return the node of a byte automaton."""
    return nodes.lex(tables.of_nfa(nfa))


@metered(maxsize=1)
def blanks() -> Node:
    """Return the node of any white space."""
    return nodes.lex(tables.table([(0, byte, byte, 0) for byte in BLANKS], [0]))


@metered(maxsize=1024)
def number(shape: Numbers, notation: Notation) -> Node:
    """Return the node of the numbers of a shape."""
    return lex(number_automaton(shape, notation))


@metered(maxsize=1024)
def string(shape: Strings, spelling: Spelling) -> Node:
    """Return the node of the strings of a shape, with the bytes around them."""
    if machine_format(shape) not in (None, *TIMES):
        raise NotWritten("the format regex")
    if shortest_string(shape, spelling) is None:
        return NOTHING
    if shape.among is not None or (not shape.least and shape.most is None) or machine_format(shape):
        return lex(in_quotes(strings.body(shape, spelling), spelling))
    text = characters(shape if shape.atoms or shape.but else Strings(), spelling)
    return nodes.count(text, shape.least, shape.most)


@metered(maxsize=1024)
def characters(shape: Strings, spelling: Spelling) -> Table:
    """Return the table of the strings of a shape but for its bounds, with the bytes around them, and where a character ends."""
    body = any_text(spelling.alphabet)
    start = int(body.start[0])
    between = frozenset([start])
    if shape.atoms or shape.but:
        found = inside(shape, spelling)
        assert isinstance(found, CountedPattern)
        body, between = found.text.nfa, found.text.between
        start = int(body.start[0])
    size, quote = body.num_states, spelling.closing
    # the opening quote leads to a copy of the first state, which it does not end a character by
    edges = body.edges.tolist()
    edges += [[size, low, high, target] for source, low, high, target in edges if source == start]
    edges += [[state, quote, quote, size + 1] for state in body.accept.tolist()]
    if start in body.accept:
        edges.append([size, quote, quote, size + 1])
    edges.append([size + 2, quote, quote, size])
    place = np.array([*range(1, size + 3), 0])  # the start first
    rows = np.array(edges, np.int64)
    rows[:, 0], rows[:, 3] = place[rows[:, 0]], place[rows[:, 3]]
    label = np.full(size + 3, -1)
    label[place[size + 1]] = 0
    marks = np.zeros(size + 3, bool)
    marks[place[list(between)]] = True
    return tables.table(rows, label, marks)
