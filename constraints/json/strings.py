"""The automata of string shapes: insides of JSON strings, between the quotes."""

from __future__ import annotations

import json
from functools import lru_cache

from .. import dfa, nfa, utf8
from ..nfa import Nfa
from ..utf8 import EVERY
from .formats import formatted
from .patterns import BODY, matching
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
        words = [utf8.string(w, spelled) for w in sorted(shape.among) if has(w, shape.atoms)]
        return dfa.minimize(nfa.union(words)) if words else nfa.empty()
    found = BODY
    for a in sorted(shape.atoms):
        found = atom(*a) if found is BODY else dfa.minimize(dfa.intersect(found, atom(*a)))
    if shape.least or shape.most is not None:
        sized = lengths(shape.least, shape.most)
        found = sized if found is BODY else dfa.minimize(dfa.intersect(found, sized))
    if shape.but:
        words = [utf8.string(w, spelled) for w in sorted(shape.but)]
        found = dfa.minimize(dfa.difference(found, nfa.union(words)))
    return found


@lru_cache(maxsize=64)
def lengths(least: int, most: int | None) -> Nfa:
    """The insides of strings of so many characters."""
    return dfa.minimize(nfa.repeat(spelled(EVERY), least, most))


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
