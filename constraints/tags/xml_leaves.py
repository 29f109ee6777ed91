"""The regular parts of XML values: white space, marks, and strings and names without quotes.

A string is written as it is, up to the end of its element. A character of a name stands for itself or for an entity.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..automata.utf8 import CodePoints
from ..automata.work import metered
from ..calls.python_syntax import unquoted
from ..json import strings
from ..json.nodes.leaves import lex
from ..json.shapes import Strings
from ..json.text import Spelling
from ..program import nodes
from ..program.node import Node
from ..program.nodes import NOTHING
from ..regex.constraint import regex

PLAIN = unquoted(lru_cache(512)(utf8.utf8))
"""Strings as they are."""


def containing(words: Sequence[str]) -> str:
    """Return the pattern of the strings that contain one of the words."""
    return "|".join("".join(f"\\u{{{ord(char):x}}}" for char in word) for word in words)


def lacking(words: Sequence[str]) -> Strings:
    """Return the shape of the strings that contain none of the words."""
    pattern = containing(words)
    return Strings(atoms=frozenset([("pattern", pattern, False)] if pattern else []))


@lru_cache(64)
def pattern(text: str) -> Nfa:
    """Return the automaton of a pattern of white space."""
    return regex(text).nfa


@lru_cache(1024)
def regular(space: str, text: bytes = b"") -> Node:
    """Return the node of white space and a text."""
    return lex(nfa.concat([pattern(space), nfa.literal(text)])) if space else nodes.text(text)


@metered(maxsize=1024)
def string_element(shape: Strings, pad: str, end: bytes) -> Node:
    """Return the node of the strings of a shape with the end of their element, and white space around them."""
    if strings.empty(shape):
        return NOTHING
    if shape.among is not None or (not shape.least and shape.most is None):
        around = [pattern(pad)] if pad else []
        return lex(nfa.concat([*around, strings.body(shape, PLAIN), *around, nfa.literal(end)]))
    return nodes.seq(regular(pad), strings.contents(shape, PLAIN), regular(pad, end))


@lru_cache(32)
def names_in(entities: tuple[tuple[str, str], ...]) -> Spelling:
    """Return the spelling of names that no schema declares: marks are entities, or do not occur."""
    marks = {ord(char): text for char, text in entities} or dict.fromkeys(map(ord, '"<>'), "")

    @lru_cache(512)
    def alphabet(points: CodePoints) -> Nfa:
        plain = utf8.within(points, utf8.negate(tuple((code, code) for code in sorted(marks))))
        coded = [
            nfa.literal(text.encode())
            for code, text in marks.items()
            if text and utf8.within(points, ((code, code),))
        ]
        return dfa.minimize(nfa.union([utf8.utf8(plain), *coded]))

    return unquoted(alphabet)
