"""Sets of code points, and their byte-level automata.

A set is a tuple of disjoint, increasing ranges (low, high) of code points, ends included. An *alphabet* turns a set into
the automaton of the encodings of its members: :func:`utf8` for plain text, ``json/text.py`` for the inside of a
JSON string, ``calls/python_syntax.py`` for that of a Python one. Surrogates are no characters and are always left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from .dfa import minimize
from .nfa import Nfa, concat, sequences, star
from .work import metered

CodePoints = tuple[tuple[int, int], ...]
Alphabet = Callable[[CodePoints], Nfa]

EVERY: CodePoints = ((0, 0xD7FF), (0xE000, 0x10FFFF))


def normalize(ranges: Iterable[tuple[int, int]]) -> CodePoints:
    """Sort the ranges, join those that touch, and remove surrogates."""
    cut = [piece for low, high in ranges for piece in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))]
    result: list[tuple[int, int]] = []
    for low, high in sorted((low, high) for low, high in cut if low <= high):
        if result and low <= result[-1][1] + 1 and low != 0xE000:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def negate(points: CodePoints) -> CodePoints:
    """Return the set of all other characters."""
    edges = [0, *(end for low, high in points for end in (low - 1, high + 1)), 0x10FFFF]
    gaps = zip(edges[::2], edges[1::2], strict=True)
    return normalize((low, high) for low, high in gaps if low <= high)


def within(points: CodePoints, window: CodePoints) -> CodePoints:
    """Return the characters of both sets."""
    pieces = ((max(a, c), min(b, d)) for a, b in points for c, d in window)
    return normalize((low, high) for low, high in pieces if low <= high)


def digit_ranges(
    low: Sequence[int], high: Sequence[int], least: int, most: int
) -> list[list[tuple[int, int]]]:
    """Return sequences of digit ranges that together cover the numbers ``low..high``.

    Numbers have ``len(low)`` digits from ``least`` to ``most``: decimal and hexadecimal numbers, and the bytes of UTF-8.
    """
    if len(low) == 1:
        return [[(low[0], high[0])]]
    rest = len(low) - 1
    bottom, top = [least] * rest, [most] * rest
    if low[0] == high[0]:
        return [[(low[0], low[0]), *tail] for tail in digit_ranges(low[1:], high[1:], least, most)]
    first, last = low[0], high[0]
    result = []
    if list(low[1:]) != bottom:
        result += [[(first, first), *tail] for tail in digit_ranges(low[1:], top, least, most)]
        first += 1
    if list(high[1:]) != top:
        tails = digit_ranges(bottom, high[1:], least, most)
        last -= 1
    else:
        tails = []
    if first <= last:
        result.append([(first, last), *[(least, most)] * rest])
    return result + [[(high[0], high[0]), *tail] for tail in tails]


@metered(maxsize=512)
def utf8(points: CodePoints) -> Nfa:
    """Return a minimal DFA of the UTF-8 encodings of the characters in the set."""
    return minimize(sequences(encodings(points)))


def encodings(points: CodePoints) -> list[list[list[tuple[int, int]]]]:
    """Return the UTF-8 encodings of the characters in the set, as sequences of ranges of bytes."""
    found = []
    for low, high in points:
        for end in (0x7F, 0x7FF, 0xFFFF, 0x10FFFF):
            if low > min(high, end):
                continue
            first, last = chr(low).encode(), chr(min(high, end)).encode()
            found += digit_ranges(list(first), list(last), 0x80, 0xBF)
            low = end + 1
    return [[[each] for each in option] for option in found]


@lru_cache(maxsize=1)
def any_text() -> Nfa:
    """Return the automaton of every text: all valid UTF-8."""
    return minimize(star(utf8(EVERY)))


def string(word: str, alphabet: Alphabet = utf8) -> Nfa:
    """Return the automaton of exactly this word, each character as the alphabet writes it."""
    return concat([alphabet(((ord(c), ord(c)),)) for c in word])
