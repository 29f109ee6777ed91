"""The code points of a class, ``\\w`` or a case-insensitive letter, according to ``re`` itself.

``re`` searches a text of all code points in order; the runs that match are the ranges.
"""

from __future__ import annotations

import re
from functools import lru_cache
from re import _compiler  # type: ignore[attr-defined]

import numpy as np

from ..automata import utf8
from ..automata.utf8 import CodePoints
from ..automata.work import metered, spend
from .syntax import Item
from .syntax import constants as constants
from .syntax import parser as parser

LISTED = (constants.LITERAL, constants.RANGE)
IGNORECASE, DOTALL = int(re.IGNORECASE), int(re.DOTALL)
"""As integers: arithmetic with members of ``re.RegexFlag`` takes many times as long."""


def characters(item: Item, flags: int) -> CodePoints:
    """Return the code points that an item matching one character stands for."""
    operation, argument = item
    if operation is constants.ANY:
        return utf8.EVERY if flags & DOTALL else utf8.negate(((10, 10),))
    if operation is constants.LITERAL and (not flags & IGNORECASE or argument not in cases()):
        return () if 0xD800 <= argument <= 0xDFFF else ((argument, argument),)
    if operation is constants.NOT_LITERAL and not flags & IGNORECASE:
        return utf8.negate(utf8.normalize([(argument, argument)]))
    if operation is constants.IN and not flags & IGNORECASE:
        listed = [a if o is constants.RANGE else (a, a) for o, a in argument if o in LISTED]
        negated = argument[0][0] is constants.NEGATE
        if len(listed) + negated == len(argument):  # plain characters and ranges need no search
            return utf8.negate(utf8.normalize(listed)) if negated else utf8.normalize(listed)
    key = (operation, tuple(argument) if operation is constants.IN else argument)
    return whatever_case(key, flags) if flags & IGNORECASE else matched(key, flags)


@metered(maxsize=1024)
def matched(item: Item, flags: int) -> CodePoints:
    """Return the code points that an item matches: ``re`` searches the text of all of them."""
    spend(15_000)
    found = asked(item, flags).finditer(all_characters())
    return utf8.normalize((match.start(), match.end() - 1) for match in found)


@metered(maxsize=1024)
def whatever_case(item: Item, flags: int) -> CodePoints:
    """Return the code points that an item matches with ``re.IGNORECASE``.

    Only those of :func:`cases` are matched one by one; case does not affect the others.
    """
    compiled = asked(item, flags)
    spend(3_000)
    alike = {c: compiled.fullmatch(chr(c)) is not None for c in cases()}
    if item[0] is constants.LITERAL:
        return utf8.normalize((c, c) for c, yes in alike.items() if yes)
    inside = np.zeros(0x110001, bool)
    for low, high in characters(item, flags & ~IGNORECASE):
        inside[low : high + 1] = True
    inside[list(alike)] = list(alike.values())
    ends = np.flatnonzero(np.diff(inside, prepend=False)).tolist()
    return utf8.normalize((low, after - 1) for low, after in zip(ends[::2], ends[1::2], strict=True))


def asked(item: Item, flags: int) -> re.Pattern[str]:
    """Compile an item to a pattern of one or more of its characters."""
    operation, argument = item
    if operation is constants.IN:
        argument = list(argument)
    one = parser.SubPattern(parser.State(), [(operation, argument)])
    some = parser.SubPattern(parser.State(), [(constants.MAX_REPEAT, (1, constants.MAXREPEAT, one))])
    compiled: re.Pattern[str] = _compiler.compile(some, flags if flags & re.ASCII else flags | re.UNICODE)
    return compiled


@metered(maxsize=1)
def cases() -> dict[int, int]:
    """Return the lower-case code point of every code point that case-insensitive ``re`` may equate."""
    spend(50_000)
    text = all_characters()
    blocks = [
        range(at, at + 256)
        for at in range(0, len(text), 256)
        if text[at : at + 256].lower() != text[at : at + 256]
    ]
    lower = {c: small for block in blocks for c in block if (small := _compiler._sre.unicode_tolower(c)) != c}
    some = {*lower, *lower.values(), *_compiler._EXTRA_CASES}
    some |= {other for others in _compiler._EXTRA_CASES.values() for other in others}
    return {c: lower.get(c, c) for c in sorted(some)}


@lru_cache(maxsize=1)
def all_characters() -> str:
    """Return a text of every code point in order, so that a position is a code point."""
    return np.arange(0x110000, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")
