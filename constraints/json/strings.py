"""The automata of string shapes: insides of JSON strings, between the quotes."""

from __future__ import annotations

import json
from functools import lru_cache

import numpy as np

from .. import dfa, nfa, utf8
from ..nfa import Nfa, check_limit
from ..utf8 import EVERY
from .formats import formatted
from .patterns import BODY, matching
from .pieces import plain
from .text import spelled
from .values import Strings


def atom(kind: str, which: str, sign: bool) -> Nfa:
    """Strings with (or without) one property."""
    return matching(which, sign) if kind == "pattern" else formatted(which, sign)


def inside(text: str) -> bytes:
    """How a string is written between its quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def has(text: str, atoms: frozenset[tuple[str, str, bool]]) -> bool:
    """Whether a string has all of the properties."""
    return all(atom(*a).accepts(inside(text)) for a in atoms)


@lru_cache(maxsize=2048)
def body(shape: Strings) -> Nfa:
    """The insides of the strings of a shape: a minimal deterministic automaton. Raises ``TooManyStates``."""
    if shape.among is not None:
        return words(tuple(w for w in sorted(shape.among) if has(w, shape.atoms)))
    found = BODY
    for a in sorted(shape.atoms):
        found = atom(*a) if found is BODY else dfa.minimize(dfa.intersect(found, atom(*a)))
    if shape.least or shape.most is not None:
        sized = lengths(shape.least, shape.most)
        found = sized if found is BODY else dfa.minimize(dfa.intersect(found, sized))
    if shape.but:
        found = dfa.minimize(dfa.difference(found, words(tuple(sorted(shape.but)))))
    return found


@lru_cache(maxsize=64)
def lengths(least: int, most: int | None) -> Nfa:
    """The insides of strings of so many characters: copies of the automaton of one, in a row. Raises ``TooManyStates``."""
    letter = spelled(EVERY)
    inner = letter.num_states - 2  # besides its start and its end
    count = least if most is None else most
    check_limit(count * (inner + 1))
    number = np.empty(letter.num_states, np.int64)
    start, end = int(letter.start[0]), int(letter.accept[0])
    inside = np.setdiff1d(np.arange(letter.num_states), [start, end])
    number[start], number[inside], number[end] = 0, 1 + np.arange(inner), inner + 1
    edges = letter.edges.copy()
    edges[:, 0], edges[:, 3] = number[edges[:, 0]], number[edges[:, 3]]
    offset = (inner + 1) * np.arange(count)
    rows = np.repeat(offset, len(edges))[:, None] * [1, 0, 0, 1] + np.tile(edges, (count, 1))
    size, last = count * (inner + 1) + 1, count * (inner + 1)
    if most is None:  # one more letter, again and again
        loop = edges + np.array([last, 0, 0, last])
        loop[edges[:, 3] == inner + 1, 3] = last
        rows, size = np.concatenate([rows, loop]), size + inner
    accept = (inner + 1) * np.arange(least, count + 1)
    return plain(Nfa(size, rows, np.empty((0, 2), np.int64), np.array([0]), accept))


def empty(shape: Strings) -> bool:
    """Whether no string has the shape."""
    if shape.among is not None:
        return not any(has(word, shape.atoms) for word in shape.among)
    if len(shape.atoms) + bool(shape.least or shape.most is not None) + bool(shape.but) < 2:
        return False if not shape.atoms or shape.but else body(shape).is_empty
    return body(shape).is_empty


def member(shape: Strings, text: str) -> bool:
    """Whether a string has the shape."""
    if shape.among is not None and text not in shape.among:
        return False
    size = len(text)
    return (
        text not in shape.but
        and shape.least <= size
        and (shape.most is None or size <= shape.most)
        and has(text, shape.atoms)
    )


def words(texts: tuple[str, ...]) -> Nfa:
    """The insides of these strings: a deterministic automaton."""
    if not texts:
        return nfa.empty()
    if not all(map(is_simple, texts)):
        return dfa.minimize(nfa.union([utf8.string(text, spelled) for text in texts]))
    rows: list[tuple[int, int, int, int]] = []
    children: list[dict[int, int]] = [{}]
    accept = set()
    for text in texts:
        node = 0
        for byte in text.encode():
            if byte not in children[node]:
                children[node][byte] = len(children)
                rows.append((node, byte, byte, len(children)))
                children.append({})
            node = children[node][byte]
        accept.add(node)
    edges = np.array(rows, np.int64).reshape(-1, 4)
    return plain(
        Nfa(len(children), edges, np.empty((0, 2), np.int64), np.array([0]), np.array(sorted(accept)))
    )


def is_simple(name: str) -> bool:
    """Whether there is one way to write the name, character by character."""
    return all(" " <= c <= "~" and c not in '"\\/' for c in name)
