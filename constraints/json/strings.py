"""The automata of string shapes: they read what is between the quotes, in a given spelling."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np

from .. import limits
from ..automata import dfa, nfa
from ..automata.epsilon import merged
from ..automata.nfa import Nfa, check_limit
from ..automata.work import metered, spend
from ..program import nodes, tables
from ..program.counting import alive, written_out
from ..program.node import Node
from ..program.tables import Table
from .formats import formatted
from .patterns import any_text, matching
from .shapes import Strings
from .text import JSON, Spelling, plain

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
    text = any_text(spelling.alphabet)
    found = dfa.intersect(every(atoms, but, spelling), text)
    if found.is_empty:
        return None
    number = {int(found.start[0]): 0}  # the start first
    place = text.start.tolist()  # of each state, that of the automaton of all strings
    edges = []
    for state in (todo := list(number)):
        for low, high, target in found.rows[state]:
            if target not in number:
                number[target] = len(place)
                place.append(text.after(place[number[state]], low))
                todo.append(target)
            edges.append((number[state], low, high, number[target]))
    accept = set(found.accept.tolist())
    label = [0 if state in accept else -1 for state in todo]
    return tables.table(edges, label, [each == text.start[0] for each in place])


def counted(shape: Strings, spelling: Spelling) -> Node:
    """Return the node of the contents of the strings of a shape without a list."""
    return nodes.count(letters(shape.atoms, shape.but, spelling), shape.least, shape.most)


@metered(maxsize=128)
def body(shape: Strings, spelling: Spelling) -> Nfa:
    """Return a DFA of the contents of the strings of a shape. Raises ``TooManyStates``."""
    if shape.among is not None:
        return words((w for w in sorted(shape.among) if has(w, shape.atoms)), spelling)
    if not shape.least and shape.most is None:
        return every(shape.atoms, shape.but, spelling)
    node = counted(shape, spelling)
    if node is nodes.NOTHING:
        return nfa.empty()
    check_limit(alive(node).num_states)
    return tables.to_nfa(written_out(node)).plain


def empty(shape: Strings) -> bool:
    """Return whether no string has the shape, or none that can be written: lone surrogates cannot."""
    if shape.among is not None:
        return not any(all(map(JSON.ways, word)) and has(word, shape.atoms) for word in shape.among)
    if not shape.atoms and (shape.most is None or not shape.but):
        return False
    found = every(shape.atoms, frozenset(), JSON)
    spend(300)
    if found.is_empty:
        return True
    if shape.least or shape.most is not None:
        return counted(shape, JSON) is nodes.NOTHING
    return bool(shape.but) and not endless(found) and every(shape.atoms, shape.but, JSON).is_empty


def endless(found: Nfa) -> bool:
    """Return whether an automaton accepts texts of any length: its states lead in circles."""
    pairs, before = found.plain.edges[:, [0, 3]], -1
    while before != (before := len(pairs)):
        pairs = pairs[np.isin(pairs[:, 0], pairs[:, 1])]  # what leads on from a state that something leads to
    return bool(len(pairs))


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
    found = every(shape.atoms, shape.but, JSON)
    ends, texts = set(found.accept.tolist()), set[str]()
    stack = [(state, b"") for state in found.start.tolist()]
    while stack:
        state, text = stack.pop()
        spend(1)
        if state in ends:
            texts.add(json.loads(b'"' + text + b'"'))
        for low, high, target in found.rows[state]:
            stack += [(target, text + bytes([byte])) for byte in range(low, high + 1)]
        if len(texts) > FEW or len(stack) > 256 or len(text) > 64:
            return []
    return sorted(texts)


def words(texts: Iterable[str], spelling: Spelling = JSON) -> Nfa:
    """Return the minimal DFA of the contents of these strings. Strings with a surrogate are left out."""
    children, ends = trie(texts, spelling)
    spend(50)
    if not ends:
        return nfa.empty()
    states: dict[tuple[bool, tuple[tuple[int, int], ...]], int] = {}  # by what is read from here on
    place = [0] * len(children)
    for node in reversed(range(len(children))):
        onward = tuple((byte, place[to]) for byte, to in sorted(children[node].items()))
        place[node] = states.setdefault((node in ends, onward), len(states))
    rows = [merged([(byte, byte, to) for byte, to in onward]) for _, onward in states]
    accept = [state for (is_end, _), state in states.items() if is_end]
    return nfa.of_rows(rows, [place[0]], accept, minimal=True)


def trie(texts: Iterable[str], spelling: Spelling) -> tuple[list[dict[int, int]], dict[int, str]]:
    """Return the trie of some texts in all their spellings: by node the next ones by byte, and the text that ends there.
    Each node is before those that follow it. Strings with a surrogate are left out."""
    children: list[dict[int, int]] = [{}]
    after: dict[tuple[int, str], int] = {}  # the node after a character, in any of its encodings
    ends: dict[int, str] = {}

    def step(node: int, choices: Sequence[int]) -> int:
        if choices[0] not in children[node]:
            children[node].update(dict.fromkeys(choices, len(children)))
            children.append({})
        return children[node][choices[0]]

    for text in texts:
        spend((1 if text.isascii() else 20) * len(text))
        spelled = [spelling.ways(char) for char in text]
        if not all(spelled):
            continue
        node = 0
        for char, found in zip(text, spelled, strict=True):
            if len(found) == 1 == len(found[0]):
                byte, onward = found[0][0][0], children[node]
                node = onward.get(byte, 0)  # nothing leads to the root
                if not node:
                    node = onward[byte] = len(children)
                    children.append({})
                continue
            if (node, char) not in after:
                last = []
                for way in found:
                    here = node
                    for choices in way[:-1]:
                        here = step(here, choices)
                    last.append((here, way[-1]))
                after[node, char] = end = len(children)
                children.append({})
                for here, choices in last:
                    children[here].update(dict.fromkeys(choices, end))
            node = after[node, char]
        ends[node] = text
    return children, ends
