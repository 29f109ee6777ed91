"""How JSON values are written: the texts that a JSON Schema constraint chooses from.

A character of a string stands for itself where JSON allows that. ``\\" \\\\ \\/ \\b \\f \\n \\r \\t`` may be written so, and
control characters and those beyond ASCII also as ``\\uXXXX`` (a pair of them beyond U+FFFF); letters are not hidden in
escapes. Between tokens stands the white space of the chosen :class:`Style`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from . import utf8
from .dfa import difference, minimize
from .json_numbers import NUMBER
from .nfa import Nfa, byte_ranges, concat, literal, network, star, union
from .utf8 import EVERY, CodePoints, digit_ranges, within


class Style(NamedTuple):
    """What separates members, what separates a name from its value, and what stands inside brackets."""

    comma: Nfa
    colon: Nfa
    padding: Nfa


BLANK = star(byte_ranges([(9, 10), (13, 13), (32, 32)]))
STYLES = {
    "none": Style(literal(b","), literal(b":"), literal(b"")),
    "space": Style(literal(b", "), literal(b": "), literal(b"")),
    "flexible": Style(concat([BLANK, literal(b","), BLANK]), concat([BLANK, literal(b":"), BLANK]), BLANK),
}

# ---------------------------------------------------------------- strings

SHORT = {ord(c): e for c, e in zip('"\\/\b\f\n\r\t', b'"\\/bfnrt', strict=True)}


@lru_cache(maxsize=512)
def spelled(points: CodePoints) -> Nfa:
    """The ways to write a character of the set inside a JSON string."""
    raw = within(points, ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)))
    short = [(e, e) for code, e in SHORT.items() if within(points, ((code, code),))]
    parts = [utf8.utf8(raw), concat([literal(b"\\"), byte_ranges(short)])]
    for low, high in within(points, ((0, 0x1F), (0x7F, 0xFFFF))):
        parts.append(escape(low, high))
    for low, high in within(points, ((0x10000, 0x10FFFF),)):
        first, last = ([0xD800 + (c - 0x10000 >> 10), 0xDC00 + (c & 0x3FF)] for c in (low, high))
        for pair in digit_ranges(first, last, 0xDC00, 0xDFFF):
            parts.append(concat([escape(*half) for half in pair]))
    return minimize(union(parts))


def escape(low: int, high: int) -> Nfa:
    """``\\uXXXX`` for the code units of the range, in hexadecimal digits of either case."""
    first, last = ([int(d, 16) for d in f"{n:04x}"] for n in (low, high))
    sequences = digit_ranges(first, last, 0, 15)
    return concat([literal(b"\\u"), union([byte_ranges(*(nibble(*d) for d in s)) for s in sequences])])


def nibble(low: int, high: int) -> list[tuple[int, int]]:
    """The bytes of the hexadecimal digits ``low..high``."""
    letters = [(start + max(low, 10), start + high) for start in (55, 87)] if high > 9 else []
    return ([(48 + low, 48 + min(high, 9))] if low < 10 else []) + letters


def quoted(body: Nfa) -> Nfa:
    """A string whose inside is given."""
    return concat([literal(b'"'), body, literal(b'"')])


STRING = minimize(quoted(star(spelled(EVERY))))


@lru_cache(maxsize=1024)
def exactly(text: str) -> Nfa:
    """The ways to write this string."""
    return quoted(utf8.string(text, spelled))


@lru_cache(maxsize=128)
def other_than(names: tuple[str, ...]) -> Nfa:
    """The strings that are none of these."""
    return minimize(difference(STRING, union(map(exactly, names)))) if names else STRING


# ---------------------------------------------------------------- arrays, objects, values


def array(style: Style, items: Sequence[Nfa], least: int, more: Nfa | None) -> Nfa:
    """Arrays of at least ``least`` of the items in turn, then any number of ``more``. Hub i is the place after i items."""
    comma, _, padding = style
    close = len(items) + 1
    arcs = [(i, concat([comma, item]) if i else item, i + 1) for i, item in enumerate(items)]
    if more is not None:
        arcs.append((len(items), concat([comma, more]), len(items)))
    arcs += [(i, padding if i else literal(b""), close) for i in range(least, close)]
    return concat([literal(b"["), padding, network(close + 1, arcs, 0, close), literal(b"]")])


def record(style: Style, members: Mapping[str, Nfa], required: frozenset[str], others: Nfa | None) -> Nfa:
    """Objects of the members (name → value) in order, then any ``others`` by any other names.

    Hubs: 3i none so far, before member i; 3i + 1 some so far; 3i + 2 about to write member i.
    """
    comma, colon, padding = style
    arcs: list[tuple[int, Nfa | None, int]] = []
    for i, (name, value) in enumerate(members.items()):
        arcs += [(3 * i, None, 3 * i + 2), (3 * i + 1, comma, 3 * i + 2)]
        arcs.append((3 * i + 2, concat([exactly(name), colon, value]), 3 * i + 4))
        if name not in required:
            arcs += [(3 * i, None, 3 * i + 3), (3 * i + 1, None, 3 * i + 4)]
    end = 3 * len(members)
    if others is not None:
        arcs += [(end, None, end + 2), (end + 1, comma, end + 2)]
        arcs.append((end + 2, concat([other_than(tuple(members)), colon, others]), end + 1))
    arcs += [(end, None, end + 3), (end + 1, padding, end + 3)]
    return concat([literal(b"{"), padding, network(end + 4, arcs, 0, end + 3), literal(b"}")])


@lru_cache(maxsize=32)
def anything(style: Style, depth: int) -> Nfa:
    """Any value whose arrays and objects nest at most ``depth`` deep."""
    parts = [literal(b"null"), literal(b"true"), literal(b"false"), NUMBER, STRING]
    if depth:
        inner = anything(style, depth - 1)
        parts += [array(style, [inner], 0, inner), record(style, {}, frozenset(), inner)]
    return minimize(union(parts))


def constant(style: Style, value: Any, names: Sequence[str] = ()) -> Nfa:
    """The texts of one value, its members in the order of ``names`` and then its own. Whole numbers may end in ``.0``
    if the value is a float."""
    if isinstance(value, str):
        return exactly(value)
    if isinstance(value, list):
        return array(style, [constant(style, v) for v in value], len(value), None)
    if isinstance(value, dict):
        order = dict.fromkeys([*(name for name in names if name in value), *value])
        return record(style, {name: constant(style, value[name]) for name in order}, frozenset(order), None)
    texts = {json.dumps(value)} | (
        {str(int(value))} if isinstance(value, float) and value.is_integer() else set()
    )
    return union([literal(text.encode()) for text in sorted(texts)])
