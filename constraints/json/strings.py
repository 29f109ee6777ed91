"""The automata of string shapes: they read what is between the quotes, in a given spelling."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..._core import words as trie_of
from .. import limits
from ..automata import dfa, nfa
from ..automata.nfa import Nfa, check_limit
from ..automata.work import metered, spend
from ..program import nodes, tables
from ..program.counting import alive, written_out
from ..program.node import Node
from ..program.tables import Table
from .formats import formatted
from .patterns import any_text, matching
from .shapes import Strings
from .text import JSON, Spelling, is_text, plain

FEW = 16
"""The most strings of a shape that :func:`few` lists."""

Atom = tuple[str, str, bool]
"""A property of strings: "pattern" or "format", its text, and whether strings have or lack it."""


def atom(kind: str, which: str, sign: bool, spelling: Spelling = JSON) -> Nfa:
    """Return the automaton of the contents of all strings that have (or lack) one property."""
    return (matching if kind == "pattern" else formatted)(which, sign, spelling.alphabet)


def has(text: str, atoms: frozenset[Atom]) -> bool:
    """Return whether a string has all of the properties."""
    return all(atom(*a).accepts(plain(text)) for a in atoms)


@metered(maxsize=512)
def every(atoms: frozenset[Atom], but: frozenset[str], spelling: Spelling) -> Nfa:
    """Return a DFA of the contents of all strings with these properties that are not in ``but``.
    Their length is not bounded. Raises ``TooManyStates``."""
    if but:
        found = every(atoms, frozenset(), spelling)
        return dfa.minimize(dfa.difference(found, words(sorted(but), spelling)))
    if len(atoms) < 2:
        return atom(*next(iter(atoms)), spelling) if atoms else any_text(spelling.alphabet)
    last = max(atoms)
    others = every(atoms - {last}, but, spelling)
    return dfa.minimize(dfa.intersect(others, atom(*last, spelling), limit=limits.PART_STATES))


@metered(maxsize=256)
def letters(atoms: frozenset[Atom], but: frozenset[str], spelling: Spelling) -> Table | None:
    """Return the table of :func:`every`, which knows where a character ends; None if there are no strings."""
    return tables.letters(every(atoms, but, spelling), any_text(spelling.alphabet))


def contents(shape: Strings, spelling: Spelling) -> Node:
    """Return the node of the contents of the strings of a shape without a list."""
    return nodes.count(letters(shape.atoms, shape.but, spelling), shape.least, shape.most)


def body(shape: Strings, spelling: Spelling) -> Nfa:
    """Return a DFA of the contents of the strings of a shape. Raises ``TooManyStates``."""
    if shape.among is not None:
        return words((w for w in sorted(shape.among) if has(w, shape.atoms)), spelling)
    if not shape.least and shape.most is None:
        return every(shape.atoms, shape.but, spelling)
    node = contents(shape, spelling)
    if node is nodes.NOTHING:
        return nfa.empty()
    check_limit(alive(node).num_states)
    return tables.to_nfa(written_out(node)).plain


def empty(shape: Strings) -> bool:
    """Return whether no string has the shape, or none that can be written: lone surrogates cannot."""
    if shape.among is not None:
        return not any(is_text(word) and has(word, shape.atoms) for word in shape.among)
    if not shape.atoms and (shape.most is None or not shape.but):
        return False
    found = every(shape.atoms, frozenset(), JSON)
    spend(50)
    if found.is_empty:
        return True
    if shape.least or shape.most is not None:
        beyond = max(map(len, shape.but), default=-1) + 1  # strings so long are not left out
        longer = Strings(max(shape.least, beyond), shape.most, shape.atoms)
        return contents(longer, JSON) is nodes.NOTHING and contents(shape, JSON) is nodes.NOTHING
    return bool(shape.but) and not found.is_endless and every(shape.atoms, shape.but, JSON).is_empty


def without_names(shape: Strings, names: frozenset[str]) -> Strings | None:
    """Return the strings of a shape, which has some, that are not among the names; None if there are none."""
    found = shape.meet(Strings(but=frozenset([name for name in names if member(shape, name)])))
    return None if found is None or (found != shape and empty(found)) else found


def member(shape: Strings, text: str) -> bool:
    """Return whether a string has the shape."""
    if text in shape.but or (shape.among is not None and text not in shape.among):
        return False
    size = len(text)
    return size >= shape.least and (shape.most is None or size <= shape.most) and has(text, shape.atoms)


def few(shape: Strings) -> list[str]:
    """Return the strings of a shape if they are few and quick to find, else an empty list."""
    if shape.among is not None:
        return sorted(shape.among) if len(shape.among) <= FEW else []
    if not shape.atoms or shape.least or shape.most is not None:
        return []
    if every(shape.atoms, frozenset(), JSON).is_endless:
        return []
    found = every(shape.atoms, shape.but, JSON)
    ends, texts = set(found.accept.tolist()), set[str]()
    stack = [(state, b"") for state in found.start.tolist()]
    while stack:
        state, text = stack.pop()
        spend(1)
        if state in ends:
            texts.add(json.loads(b'"' + text + b'"'))
        for low, high, target in found.moves(state):
            stack += [(target, text + bytes([byte])) for byte in range(low, high + 1)]
        if len(texts) > FEW or len(stack) > 256 or len(text) > 64:
            return []
    return sorted(texts)


def words(texts: Iterable[str], spelling: Spelling = JSON) -> Nfa:
    """Return the minimal DFA of the contents of these strings. Strings with a surrogate are left out."""
    return trie_of(texts, spelling.letters)
