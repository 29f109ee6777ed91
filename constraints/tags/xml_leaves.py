"""The regular parts of XML values as nodes: white space, marks, and strings up to the end of their element."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..automata import nfa
from ..automata.nfa import Nfa
from ..automata.work import metered
from ..json import strings
from ..json.numbers import Notation, number_automaton
from ..json.shapes import Numbers, Strings
from ..program import nodes, tables
from ..program.node import Node
from ..program.nodes import NOTHING
from ..regex.constraint import regex
from .xml_spelling import PLAIN


class Scalars(NamedTuple):
    """Words and numbers."""

    words: tuple[bytes, ...]
    numbers: tuple[Numbers, ...] = ()
    notation: Notation = Notation()


@lru_cache(64)
def pattern(text: str) -> Nfa:
    """Return the automaton of a pattern of white space."""
    return regex(text).nfa


@lru_cache(1024)
def regular(space: str, text: bytes = b"") -> Node:
    """Return the node of white space and a text."""
    return padded(space, nfa.literal(text)) if space else nodes.text(text)


def padded(pad: str, inner: Nfa, *after: Nfa) -> Node:
    """Return the node of some automata in a row behind white space."""
    return nodes.lex(tables.of_nfa(nfa.concat([*([pattern(pad)] if pad else []), inner, *after])))


def closed(inner: Nfa, pad: str, end: bytes) -> Node:
    """Return the node of the values of an automaton with the end of their element, and white space around them."""
    return padded(pad, inner, *([pattern(pad)] if pad else []), nfa.literal(end))


@metered(maxsize=1024)
def scalars(some: Scalars, pad: str, end: bytes) -> Node:
    """Return the node of words and numbers with the end of their element, and white space around them."""
    numbers = [number_automaton(shape, some.notation) for shape in some.numbers]
    return closed(nfa.union([*map(nfa.literal, some.words), *numbers]), pad, end)


@metered(maxsize=1024)
def string(shape: Strings, pad: str, end: bytes) -> Node:
    """Return the node of the strings of a shape with the end of their element, and white space around them."""
    if strings.empty(shape):
        return NOTHING
    if shape.among is not None or (not shape.least and shape.most is None):
        return closed(strings.body(shape, PLAIN), pad, end)
    return nodes.seq(regular(pad), characters(shape), regular(pad, end))


def characters(shape: Strings) -> Node:
    """Return the node of the strings of a shape that bounds their length."""
    found = strings.letters(shape.atoms, shape.but, PLAIN)
    text = found.nfa
    if text.is_empty:
        return NOTHING
    first = int(text.start[0])
    order = [first, *(state for state in range(text.num_states) if state != first)]
    place = np.argsort(order)
    edges = np.column_stack([place[text.edges[:, 0]], text.edges[:, 1:3], place[text.edges[:, 3]]])
    label, marks = np.full(len(order), -1), np.zeros(len(order), bool)
    label[place[text.accept]] = 0
    marks[place[np.flatnonzero(found.between)]] = True
    return nodes.count(tables.table(edges, label, marks), shape.least, shape.most)
