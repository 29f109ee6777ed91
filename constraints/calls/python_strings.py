"""Python string literals as automata, in ``'`` or ``"``.

A character stands for itself where Python allows that; quotes, backslashes and control characters have their short
escapes, and those beyond ASCII also ``\\xXX``, ``\\uXXXX`` or ``\\UXXXXXXXX``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ..automata import utf8
from ..automata.dfa import intersect, minimize
from ..automata.nfa import Nfa, byte_ranges, concat, literal, star, union
from ..automata.repeats import repeat
from ..automata.utf8 import EVERY, Alphabet, CodePoints, digit_ranges, within
from ..json import formats
from ..json.constraint import json_schema
from ..narrowing import Narrowing

SHORT = {ord(c): e for c, e in zip("\\'\"\a\b\f\n\r\t\v", b"\\'\"abfnrtv", strict=True)}


@lru_cache(maxsize=512)
def in_double(points: CodePoints) -> Nfa:
    """The ways to write a character of the set between double quotes."""
    return spelled(points, ord('"'))


@lru_cache(maxsize=512)
def in_single(points: CodePoints) -> Nfa:
    """The ways to write a character of the set between single quotes."""
    return spelled(points, ord("'"))


QUOTES: tuple[tuple[bytes, Alphabet], ...] = ((b'"', in_double), (b"'", in_single))


def spelled(points: CodePoints, quote: int) -> Nfa:
    """The ways to write a character of the set inside a string that ``quote`` ends."""
    plain = utf8.negate(utf8.normalize((c, c) for c in (0, 10, 13, ord("\\"), quote)))
    short = [(e, e) for code, e in SHORT.items() if within(points, ((code, code),))]
    parts = [utf8.utf8(within(points, plain)), concat([literal(b"\\"), byte_ranges(short)])]
    for letter, width, window in ((b"x", 2, (0, 0xFF)), (b"u", 4, (0, 0xFFFF)), (b"U", 8, (0, 0x10FFFF))):
        escaped = ((0, 0x1F), (0x7F, 0x10FFFF))
        for low, high in within(within(points, escaped), (window,)):
            first, last = ([int(d, 16) for d in f"{n:0{width}x}"] for n in (low, high))
            numbers = [byte_ranges(*(hexadecimal(*d) for d in s)) for s in digit_ranges(first, last, 0, 15)]
            parts.append(concat([literal(b"\\" + letter), union(numbers)]))
    return minimize(union(parts))


def hexadecimal(low: int, high: int) -> list[tuple[int, int]]:
    """The bytes of the hexadecimal digits ``low..high``, in either case."""
    letters = [(start + max(low, 10), start + high) for start in (55, 87)] if high > 9 else []
    return ([(48 + low, 48 + min(high, 9))] if low < 10 else []) + letters


def strings(inside: Callable[[Alphabet], Nfa]) -> Nfa:
    """Strings in either kind of quotes, their inside given for each alphabet."""
    return union([concat([literal(q), inside(alphabet), literal(q)]) for q, alphabet in QUOTES])


@lru_cache(maxsize=1024)
def exactly(text: str) -> Nfa:
    """The ways to write this string."""
    return minimize(strings(lambda alphabet: utf8.string(text, alphabet)))


@lru_cache(maxsize=1)
def any_string() -> Nfa:
    """Every string."""
    return minimize(strings(lambda alphabet: star(alphabet(EVERY))))


@lru_cache(maxsize=256)
def string_of_length(low: int, high: int | None) -> Nfa:
    """The strings of ``low`` to ``high`` characters."""
    return strings(lambda alphabet: repeat(alphabet(EVERY), low, high))


ONE_WAY = frozenset(["date", "time", "date-time", "duration", "hostname", "ipv4", "ipv6", "uuid"])
"""The formats whose strings have no quotes, and no characters beyond ASCII."""


@lru_cache(maxsize=64)
def formatted(name: str) -> tuple[Nfa, tuple[Narrowing, ...]]:
    """The strings of a JSON Schema format, written without escapes, and what they lack of it."""
    narrowed: tuple[Narrowing, ...] = ()
    if name in formats.TIMES:
        inside = formats.formatted(formats.rounded(name, up=False), True)
        quoted = concat([literal(b'"'), inside, literal(b'"')])
        narrowed = (Narrowing("", "format", name, f"{name} without some leap seconds", formats.LEFT_OUT),)
    else:
        quoted = json_schema({"type": "string", "format": name}, on_narrowed="ignore").bytes_automaton
    if name in formats.KNOWN - ONE_WAY:
        narrowed = (
            Narrowing("", "format", name, f"{name} without escapes and quotes", "one way to write each"),
        )
    bare = star(utf8.utf8(utf8.negate(utf8.normalize((ord(c), ord(c)) for c in "\\\"'\0\n\r"))))
    double = intersect(quoted, concat([literal(b'"'), bare, literal(b'"')]))
    edges = double.edges.copy()
    edges[edges[:, 1] == ord('"'), 1:3] = ord("'")  # quotes stand at the ends only, on edges of their own
    single = Nfa(double.num_states, edges, double.epsilons, double.start, double.accept)
    return union([double, single]), narrowed
