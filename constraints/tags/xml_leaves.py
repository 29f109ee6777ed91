"""The regular parts of XML values as nodes: white space, marks, and strings up to the end of their element."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..automata import nfa
from ..automata.nfa import Nfa
from ..automata.work import metered
from ..json import strings
from ..json.numbers import Notation, number
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
    numbers = [number(shape, some.notation) for shape in some.numbers]
    return closed(nfa.union([*map(nfa.literal, some.words), *numbers]), pad, end)


@metered(maxsize=1024)
def string(shape: Strings, pad: str, end: bytes) -> Node:
    """Return the node of the strings of a shape with the end of their element, and white space around them."""
    if strings.empty(shape):
        return NOTHING
    if shape.among is not None or (not shape.least and shape.most is None):
        return closed(strings.body(shape, PLAIN), pad, end)
    return nodes.seq(regular(pad), strings.counted(shape, PLAIN), regular(pad, end))
