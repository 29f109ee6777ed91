"""Finite automata of arrays of distinct items: at most two strings, or one other item.

No finite automaton tells any two strings apart. Two strings with different checksums differ: the second string starts from the
negated checksum of the first, and must not end at zero. Bytes count with the weights 1 and 2 in turn, so that strings of the same
letters in another order are told apart:

    (q, c, i) --byte b--> (q', c + w_i b mod n, i + 1 mod 2)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ....errors import TooManyStates
from ...automata import dfa, nfa
from ...automata.epsilon import NO_EPSILONS
from ...automata.machines import DfaMachine
from ...automata.nfa import Nfa, trim
from ...automata.work import spend
from ...narrowing import Cut
from .. import strings
from ..text import Style
from ..values import NOTHING
from .arrays import ArrayMachine
from .blanks import BLANKS
from .object_graphs import moved

QUOTE, BRACKET, ESCAPE = 34, 91, 92
CHECKSUMS, WEIGHTS = 31, np.array([1, 2])
MOST_STATES = 8_000
"""The most states of an automaton that tells two strings apart."""
WHY = "distinct values are no regular language"


class Pairs(DfaMachine):
    """The arrays of at most two strings whose checksums differ."""

    def __init__(self, automaton: Nfa, most: int | None) -> None:
        super().__init__(automaton)
        asked = "distinct strings" if most is None else f"at most {most} distinct strings"
        given = f"at most 2 without escapes, whose checksums differ modulo {CHECKSUMS}"
        self.cuts = (Cut("uniqueItems", asked, given, WHY),)


class AtMostOne(ArrayMachine):
    """The arrays of at most one item."""

    def __init__(self, whole: ArrayMachine) -> None:
        super().__init__(whole.machines, replace(whole.shape, unique=None, most=1), whole.style)
        self.cuts = (Cut("uniqueItems", "distinct items", "at most 1 item", WHY),)


def distinct_pairs(whole: ArrayMachine) -> DfaMachine | ArrayMachine:
    """Return a machine of some of a shape's arrays of distinct items.
    ``whole``: the machine that reads all its arrays."""
    shape, style = whole.shape, whole.style
    value = whole.machines.value(shape.rest)
    if not shape.prefix and not shape.contains and shape.least <= 2 and value._replace(string=()) == NOTHING:
        try:
            body = spelled_once([strings.body(each, style.spellings[0]) for each in value.string])
        except TooManyStates:
            return AtMostOne(whole)
        if 0 < 2 * CHECKSUMS * body.num_states <= MOST_STATES:
            return Pairs(arrays_of(body, shape.least, style), shape.most)
    return AtMostOne(whole)


def spelled_once(parts: list[Nfa]) -> Nfa:
    """Return the string contents without escapes: strings are then equal only if their texts are."""
    body = dfa.minimize(nfa.union(parts))
    raw = (body.edges[:, 1] > ESCAPE) | (body.edges[:, 2] < ESCAPE)
    return trim(replace(body, edges=body.edges[raw]))


def arrays_of(body: Nfa, least: int, style: Style) -> Nfa:
    """Return the automaton of JSON arrays of at most two strings, at least ``least``.
    ``body``: the DFA of what stands between the quotes."""
    steps, n = checked(body), CHECKSUMS * len(WEIGHTS) * body.num_states
    begin, item, last, end, first = range(2 * n, 2 * n + 5)
    layers = range(first, first + CHECKSUMS * (len(style.comma) + 1), CHECKSUMS)

    def state(q: int, checksum: int) -> int:
        return (q * CHECKSUMS + checksum % CHECKSUMS) * len(WEIGHTS)

    num_states = layers[-1] + CHECKSUMS
    before = [item, *range(num_states, num_states + len(style.lead))]
    behind = [*range(num_states + len(style.lead), num_states + len(style.lead + style.trail)), end]
    closing = style.trail + b"]"
    rows = [(begin, BRACKET, item), (before[-1], QUOTE, state(int(body.start[0]), 0))]
    rows += zip(before, style.lead, before[1:], strict=False)
    rows += [(last, closing[0], behind[0]), *zip(behind, closing[1:], behind[1:], strict=False)]
    rows += [] if least else [(item, BRACKET + 2, end)]
    blanks = [item, last, *range(first, first + CHECKSUMS)]
    for c in range(CHECKSUMS):
        for q in body.accept.tolist():
            for place in range(len(WEIGHTS)):
                rows.append((state(q, c) + place, QUOTE, first + c))
                rows += [(n + state(q, c) + place, QUOTE, last)] if c else []
        rows += [(first + c, closing[0], behind[0])] if least < 2 else []
        here = first + c
        for byte, layer in zip(style.comma, layers[1:], strict=True):
            rows.append((here, byte, layer + c))
            here = layer + c
        rows.append((here, QUOTE, n + state(int(body.start[0]), -c)))
        blanks.append(here)
    edges = [(source, byte, byte, target) for source, byte, target in rows]
    edges += [(s, low, high, s) for s in blanks for low, high in BLANKS] if style.blank else []
    every = np.concatenate([steps, moved(steps, n), np.array(edges, np.int64)])
    return trim(
        Nfa(num_states + len(before) + len(behind), every, NO_EPSILONS, np.array([begin]), np.array([end]))
    )


def checked(body: Nfa) -> Int[ndarray, "edge 4"]:
    """Return the edges of strings for each checksum and weight: state (q, c, i) is (q n + c) 2 + i."""
    parts = [(q, *part, to) for q, low, high, to in body.edges.tolist() for part in summands(low, high)]
    spend(len(parts) * CHECKSUMS / 4)
    source, low, high, summand, target = np.array(parts, np.int64).reshape(-1, 5).T[:, :, None, None]
    c, i = np.arange(CHECKSUMS)[:, None], np.arange(len(WEIGHTS))
    after = (c + WEIGHTS * summand) % CHECKSUMS
    columns = (
        (source * CHECKSUMS + c) * len(WEIGHTS) + i,
        low,
        high,
        (target * CHECKSUMS + after) * len(WEIGHTS) + (i + 1) % len(WEIGHTS),
    )
    return np.stack([column.ravel() for column in np.broadcast_arrays(*columns)], axis=1)


def summands(low: int, high: int) -> list[tuple[int, int, int]]:
    """Return the parts (low, high, summand) of a range of bytes.

    Each ASCII byte counts by itself. Sixteen neighbours within a character beyond ASCII count alike (each by itself would take
    four times the edges), and its first byte not at all.
    """
    found = [(byte, byte, byte) for byte in range(low, min(high, 127) + 1)]
    for start in range(128, 192, 16):
        if start <= high and start + 15 >= low:
            found.append((max(low, start), min(high, start + 15), start // 16))
    return found + ([(max(low, 192), high, 0)] if high >= 192 else [])
