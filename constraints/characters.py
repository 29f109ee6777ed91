"""Which characters a class, ``\\w`` or a case-insensitive letter stands for, according to ``re`` itself.

The pattern is matched against the text of all code points in order; the runs that match are the ranges.
"""

from __future__ import annotations

import re
from functools import lru_cache
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from . import utf8
from .utf8 import CodePoints

constants, parser = _constants, _parser  # the standard library's own names for what is in a pattern
LISTED = (_constants.LITERAL, _constants.RANGE)
Item = tuple[Any, Any]  # an operation of the standard library's pattern parser, and its argument


def characters(item: Item, flags: int) -> CodePoints:
    """The characters that an item which reads one character stands for."""
    operation, argument = item
    if operation is _constants.LITERAL and not flags & re.IGNORECASE:
        return utf8.normalize([(argument, argument)])
    if operation is _constants.IN and not flags & re.IGNORECASE:
        listed = [a if o is _constants.RANGE else (a, a) for o, a in argument if o in LISTED]
        negated = argument[0][0] is _constants.NEGATE
        if len(listed) + negated == len(argument):  # characters and ranges alone need no asking
            return utf8.negate(utf8.normalize(listed)) if negated else utf8.normalize(listed)
    key = (operation, tuple(argument) if operation is _constants.IN else argument)
    return matched(key, flags)


@lru_cache(maxsize=1024)
def matched(item: Item, flags: int) -> CodePoints:
    """The same, by asking ``re``: the runs of matching characters in the text of all characters in order."""
    operation, argument = item
    if operation is _constants.IN:
        argument = list(argument)
    one = _parser.SubPattern(_parser.State(), [(operation, argument)])
    some = _parser.SubPattern(_parser.State(), [(_constants.MAX_REPEAT, (1, _constants.MAXREPEAT, one))])
    flags = flags if flags & re.ASCII else flags | re.UNICODE
    found = _compiler.compile(some, flags).finditer(all_characters())
    return utf8.normalize((match.start(), match.end() - 1) for match in found)


@lru_cache(maxsize=1)
def all_characters() -> str:
    """Every code point in order, so that a position is a code point."""
    return "".join(map(chr, range(0x110000)))
