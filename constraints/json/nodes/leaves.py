"""Numbers, strings and white space as nodes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ....errors import TooManyStates
from ... import limits
from ...automata.epsilon import NO_EPSILONS, merge_ranges, minimal, plain
from ...automata.nfa import Nfa
from ...automata.work import metered
from ...program import nodes, tables
from ...program.node import Node
from ...program.nodes import EMPTY, NOTHING
from ...program.tables import Table
from .. import numbers, strings
from ..numbers import Notation
from ..shapes import Numbers, Strings
from ..text import Spelling

BLANKS = tuple(b" \t\n\r")


def lex(nfa: Nfa) -> Node:
    """Return the node of a byte automaton."""
    return nodes.lex(tables.of_nfa(nfa))


@metered(maxsize=128)
def blanks(most: float) -> Node:
    """Return the node of white space of at most ``most`` characters, which may be ``math.inf``."""
    return lex(blanks_nfa(most)) if most else EMPTY


def blanks_nfa(most: float) -> Nfa:
    """Return the automaton of white space of at most ``most`` characters."""
    edges, states = blanks_at(0, 1, most)
    rows = np.array(edges, np.int64).reshape(-1, 4)
    return Nfa(len(states), rows, NO_EPSILONS, np.array([0]), np.array(states))


def blanks_at(state: int, fresh: int, most: float) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """Return the edges of white space of at most ``most`` characters behind a state, and all states in which it may end: this
    one, and those numbered from ``fresh`` on."""
    if most == math.inf:
        return [(state, byte, byte, state) for byte in BLANKS], [state]
    states = [state, *range(fresh, fresh + int(most))]
    return [(a, byte, byte, b) for a, b in pairwise(states) for byte in BLANKS], states


@metered(maxsize=1024)
def number(shape: Numbers, notation: Notation) -> Node:
    """Return the node of the numbers of a shape."""
    return lex(numbers.number(shape, notation))


@metered(maxsize=1024)
def string(shape: Strings, spelling: Spelling) -> Node:
    """Return the node of the strings of a shape, with the bytes around them. Raises ``TooManyStates``."""
    if shape.least > limits.LENGTH:
        raise TooManyStates(f"strings of at least {shape.least} characters are too long", limit=limits.LENGTH)
    if shape.among is not None or (not shape.least and shape.most is None):
        return lex(around(strings.body(shape, spelling), spelling))
    text = characters(shape if shape.atoms or shape.but else Strings(), spelling)
    return NOTHING if text is None else nodes.count(text, shape.least, shape.most)


def around(inside: Nfa, spelling: Spelling) -> Nfa:
    """Return the automaton of the texts of a deterministic automaton with the bytes around a string.
    It is minimal where that one is: no text inside begins with what opens a string."""
    inside = inside.plain
    if inside.is_empty:
        return inside
    n, start, quote = inside.num_states, int(inside.start[0]), spelling.closing
    last = [(end, quote, quote, n) for end in inside.accept.tolist()]
    first = [(n + 1, byte, byte, start) for byte in spelling.opening[:1]]
    edges = merge_ranges(np.concatenate([inside.edges, np.array([*last, *first], np.int64)]))
    start += (n + 1 - start) * len(first)
    found = plain(Nfa(n + 1 + len(first), edges, NO_EPSILONS, np.array([start]), np.array([n])))
    return minimal(found) if inside.minimal else found


@metered(maxsize=1024)
def characters(shape: Strings, spelling: Spelling) -> Table | None:
    """Return the table of the strings of a shape but for its bounds, with the bytes around them, and where a character ends.
    None if there are none."""
    body = strings.letters(shape.atoms, shape.but, spelling)
    if body is None:
        return None
    # what opens a string leads to a copy of the first state, which it does not end a character by
    first = 1 + bool(spelling.opening)  # the states of the body are numbered from here on
    copy, end, quote = first - 1, first + body.num_states, spelling.closing
    edges = np.add(body.edges, (first, 0, 0, first))
    again = edges[edges[:, 0] == first]
    again[:, 0] = copy
    ends = first + np.flatnonzero(body.label >= 0)
    last = [(state, quote, quote, end) for state in [*ends.tolist(), *([copy] if body.label[0] >= 0 else [])]]
    opening = [(0, byte, byte, copy) for byte in spelling.opening[:1]]
    rows = np.concatenate([edges, again, np.array([*last, *opening], np.int64).reshape(-1, 4)])
    marks = np.concatenate([np.zeros(first, bool), body.between, [False]])
    return tables.table(rows, np.where(np.arange(end + 1) == end, 0, -1), marks)
