"""Numbers, strings and white space as nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from ....errors import TooManyStates
from ... import limits
from ...automata.nfa import Nfa
from ...automata.work import metered
from ...program import nodes, tables
from ...program.node import Node
from ...program.nodes import EMPTY, NOTHING
from .. import numbers, strings
from ..numbers import Notation
from ..shapes import Numbers, Strings
from ..text import Spelling, Style

BLANKS = tuple(b" \t\n\r")


def lex(nfa: Nfa) -> Node:
    """Return the node of a byte automaton."""
    return nodes.lex(tables.of_nfa(nfa))


@lru_cache(maxsize=128)
def blanks(most: float) -> Node:
    """Return the node of white space of at most ``most`` characters, which may be ``math.inf``."""
    return lex(blanks_nfa(most)) if most else EMPTY


def blanks_nfa(most: float) -> Nfa:
    """Return the automaton of white space of at most ``most`` characters."""
    edges, states = blanks_at(0, 1, most)
    return Nfa(len(states), edges, (), [0], states)


def blanks_at(state: int, fresh: int, most: float) -> tuple[list[tuple[int, int, int, int]], list[int]]:
    """Return the edges of white space of at most ``most`` characters behind a state, and all states in which it may end: this
    one, and those numbered from ``fresh`` on."""
    if most == math.inf:
        return [(state, byte, byte, state) for byte in BLANKS], [state]
    states = [state, *range(fresh, fresh + int(most))]
    return [(a, byte, byte, b) for a, b in pairwise(states) for byte in BLANKS], states


def enclosed(
    brackets: tuple[bytes, bytes], some: Callable[[int], Node], least: int, style: Style, lead: bytes = b""
) -> Node:
    """Return the node of items or members in brackets. ``some(n)``: the node of n of them or more, with commas between them.
    With an indent a newline follows the last; without items or members nothing stands between the brackets.
    ``lead``: the text before the first."""
    left, right = nodes.text(brackets[0]), nodes.text(brackets[1])
    if style.indent is None:
        return nodes.seq(left, blanks(style.blank), some(least), right)
    full = nodes.seq(nodes.text(lead), some(max(1, least)), nodes.text(style.trail))
    return nodes.seq(left, nodes.alt(*([EMPTY] if not least else []), full), right)


@metered(maxsize=1024)
def number_node(shape: Numbers, notation: Notation) -> Node:
    """Return the node of the numbers of a shape."""
    return lex(numbers.number_dfa(shape, notation))


@metered(maxsize=1024)
def string_node(shape: Strings, spelling: Spelling) -> Node:
    """Return the node of the strings of a shape, with ``spelling``'s opening and closing bytes. Raises ``TooManyStates``."""
    if shape.least > limits.LENGTH:
        raise TooManyStates(f"strings of at least {shape.least} characters are too long", limit=limits.LENGTH)
    if spelling.free is not None and shape.among is None and not shape.atoms | shape.but:
        spelling = spelling.free
    if shape.among is not None and len(shape.among) == 1 and not shape.atoms:
        (word,) = shape.among
        ways = list(map(spelling.ways, word))
        if all(len(way) == 1 == len(way[0]) for way in ways):  # each character is one byte
            return nodes.text(
                spelling.opening + bytes([way[0][0][0] for way in ways]) + bytes([spelling.closing])
            )
    if shape.among is not None or (not shape.least and shape.most is None):
        inside = tables.of_nfa(strings.body(shape, spelling))
    else:
        inside = strings.letters(shape.atoms, shape.but, spelling)
    if inside is None:
        return NOTHING
    return nodes.count(tables.around(inside, spelling.opening, spelling.closing), shape.least, shape.most)
