"""Arrays of distinct strings that are not few. They are no regular language, but some of them are one: those of at most two
strings, told apart by a checksum of their text.

The second string starts from what is missing to the checksum of the first, and must not end at zero:

    (q, c) --byte b--> (q', c + b mod n)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import dfa, nfa
from ..narrowing import Narrowing
from ..nfa import Nfa, trim
from ..work import spend
from . import strings
from .pieces import plain
from .shapes import Arrays, Strings
from .sketches import Sketch
from .text import Style

CHECKSUMS = 61, 31, 13
"""How many checksums there are; fewer where the strings have many states."""
MAX_STATES = 8_000
"""States up to which two strings are told apart."""


def write(shape: Arrays, style: Style, shapes: Sequence[Strings]) -> Sketch | None:
    """Such arrays, of strings of some shapes; ``None`` where they cannot be told apart. Raises ``TooManyStates``."""
    if shape.least > 2 or shape.prefix or shape.contains:
        return None
    body = spelled_once(shapes)
    checksums = next((n for n in CHECKSUMS if n * body.num_states <= MAX_STATES), 0)
    if not checksums or not body.num_states:
        return None
    found = pairs(shape.least, style, body, checksums)
    asked = "distinct strings" if shape.most is None else f"at most {shape.most} distinct strings"
    given = f"at most 2 without escapes, the sums of whose bytes differ modulo {checksums}"
    found.narrowed.append(
        Narrowing("", "uniqueItems", asked, given, "distinct strings are no regular language")
    )
    return found


def spelled_once(shapes: Sequence[Strings]) -> Nfa:
    """The insides of strings without any escape, so that strings are equal only if their texts are."""
    body = dfa.minimize(nfa.union([strings.body(shape) for shape in shapes]))
    raw = (body.edges[:, 1] > ord("\\")) | (body.edges[:, 2] < ord("\\"))
    return trim(plain(replace(body, edges=body.edges[raw])))


def pairs(least: int, style: Style, body: Nfa, checksums: int) -> Sketch:
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
    string(sketch, body, {start: 0}, dict(enumerate(ends)), checksums)
    between = {}
    for checksum, state in enumerate(ends):
        if least < 2:
            sketch.read(state, b"]", -1)
        here = sketch.read(state, style.comma)
        if style.blank:
            sketch.blank(here)
        between[here] = -checksum % checksums
    string(sketch, body, between, dict.fromkeys(range(1, checksums), end), checksums)
    return sketch


def string(sketch: Sketch, body: Nfa, starts: dict[int, int], ends: dict[int, int], checksums: int) -> None:
    """Read a string, from states with the checksum that each starts from, to the state of the checksum that it ends with.
    Of bytes beyond ASCII no sum is taken."""
    rows: list[list[tuple[int, int, int]]] = [[] for _ in range(body.num_states)]
    for source, low, high, target in body.edges.tolist():
        rows[source] += [(byte, byte, target) for byte in range(low, min(high, 127) + 1)]
        rows[source] += [(max(low, 128), high, target)] if high > 127 else []
    first = int(body.start[0])
    states: dict[tuple[int, int], int] = {}

    def state(q: int, checksum: int) -> int:
        if (q, checksum) not in states:
            states[q, checksum] = sketch.state()
        return states[q, checksum]

    for source, checksum in starts.items():
        sketch.read(source, b'"', state(first, checksum))
    accept = set(body.accept.tolist())
    for q, checksum in (queue := list(states)):
        here = states[q, checksum]
        spend(2 + len(rows[q]))
        if q in accept and checksum in ends:
            sketch.read(here, b'"', ends[checksum])
        for low, high, target in rows[q]:
            key = target, (checksum + low * (high < 128)) % checksums
            if key not in states:
                queue.append(key)
            sketch.edges.append((here, low, high, state(*key)))
