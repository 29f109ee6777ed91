"""Arrays of distinct strings that are not listed. They are no regular language, but some of them are one: those of at most
two strings, told apart by a checksum of their text.

The second string starts from what is missing to the checksum of the first, and must not end at zero. Bytes count with a
weight by their position, so that strings of the same letters in another order are told apart:

    (q, c, i) --byte b--> (q', c + w_i b mod n, i + 1 mod len(w))

Two strings whose checksums agree (one pair in n) cannot stand together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..automata import dfa, nfa
from ..automata.nfa import Nfa, trim
from ..automata.work import spend
from ..narrowing import Narrowing
from . import strings
from .pieces import plain
from .shapes import Arrays, Strings
from .sketches import Sketch
from .text import Style

CHECKSUMS = (31, 2), (31, 1), (13, 1)
"""How many checksums there are, and how many weights; fewer where the strings have many states."""
WEIGHTS = 1, 2
"""The weights of the first two bytes, and so on again."""
MAX_STATES = 8_000
"""States up to which two strings are told apart."""


def write(shape: Arrays, style: Style, shapes: Sequence[Strings]) -> Sketch | None:
    """Such arrays, of strings of some shapes; ``None`` where they cannot be told apart. Raises ``TooManyStates``."""
    if shape.least > 2 or shape.prefix or shape.contains:
        return None
    body = spelled_once(shapes)
    some = (each for each in CHECKSUMS if each[0] * each[1] * body.num_states <= MAX_STATES)
    checksums, weights = next(some, (0, 0))
    if not checksums or not body.num_states:
        return None
    found = pairs(shape.least, style, body, checksums, weights)
    asked = "distinct strings" if shape.most is None else f"at most {shape.most} distinct strings"
    given = f"at most 2 without escapes, whose checksums differ modulo {checksums}"
    found.narrowed.append(
        Narrowing("", "uniqueItems", asked, given, "distinct strings are no regular language")
    )
    return found


def spelled_once(shapes: Sequence[Strings]) -> Nfa:
    """The insides of strings without any escape, so that strings are equal only if their texts are."""
    body = dfa.minimize(nfa.union([strings.body(shape) for shape in shapes]))
    raw = (body.edges[:, 1] > ord("\\")) | (body.edges[:, 2] < ord("\\"))
    return trim(plain(replace(body, edges=body.edges[raw])))


def pairs(least: int, style: Style, body: Nfa, checksums: int, weights: int) -> Sketch:
    """The arrays of two strings, of one, of none."""
    sketch = Sketch()
    start = sketch.read(0, b"[")
    end = sketch.state()
    ends = [sketch.state() for _ in range(checksums)]
    for state in (start, end, *ends) if style.blank else ():
        sketch.blank(state)
    sketch.read(end, b"]", -1)
    if least == 0:
        sketch.read(start, b"]", -1)
    string(sketch, body, {start: 0}, dict(enumerate(ends)), checksums, weights)
    between = {}
    for checksum, state in enumerate(ends):
        if least < 2:
            sketch.read(state, b"]", -1)
        here = sketch.read(state, style.comma)
        if style.blank:
            sketch.blank(here)
        between[here] = -checksum % checksums
    string(sketch, body, between, dict.fromkeys(range(1, checksums), end), checksums, weights)
    return sketch


def string(
    sketch: Sketch, body: Nfa, starts: dict[int, int], ends: dict[int, int], checksums: int, weights: int
) -> None:
    """Read a string, from states with the checksum that each starts from, to the state of the checksum that it ends with."""
    rows: list[list[tuple[int, int, int, int]]] = [[] for _ in range(body.num_states)]
    for source, low, high, target in body.edges.tolist():
        rows[source] += [(*part, target) for part in summands(low, high)]
    first = int(body.start[0])
    states: dict[tuple[int, int, int], int] = {}

    def state(key: tuple[int, int, int]) -> int:
        if key not in states:
            states[key] = sketch.state()
        return states[key]

    for source, checksum in starts.items():
        sketch.read(source, b'"', state((first, checksum, 0)))
    accept = set(body.accept.tolist())
    for q, checksum, place in (queue := list(states)):
        here = states[q, checksum, place]
        spend(2 + len(rows[q]))
        if q in accept and checksum in ends:
            sketch.read(here, b'"', ends[checksum])
        for low, high, summand, target in rows[q]:
            key = target, (checksum + WEIGHTS[place] * summand) % checksums, (place + 1) % weights
            if key not in states:
                queue.append(key)
            sketch.edges.append((here, low, high, state(key)))


def summands(low: int, high: int) -> list[tuple[int, int, int]]:
    """The parts (low, high, summand) of a range of bytes: each byte of ASCII counts by itself, sixteen neighbours within a
    character beyond it alike (each by itself would take four times the edges), its first byte not at all."""
    found = [(byte, byte, byte) for byte in range(low, min(high, 127) + 1)]
    for start in range(128, 192, 16):
        if start <= high and start + 15 >= low:
            found.append((max(low, start), min(high, start + 15), start // 16))
    return found + ([(max(low, 192), high, 0)] if high >= 192 else [])
