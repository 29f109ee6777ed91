"""Patterns that count characters, as a pattern without the count and bounds on the length.

``^[a-z][a-z0-9]{0,63}$`` holds for the strings of ``^[a-z][a-z0-9]*$`` with 1 to 64 characters. An automaton of the first has
a copy of its states for each count; of the second a counter is kept beside the automaton (``nodes.count``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from ...errors import TooManyStates, UnsupportedConstraint
from ..regex.pattern import BEGINNINGS, ENDS, parse
from ..regex.syntax import parser
from .patterns import matching, translate
from .shapes import Strings
from .text import JSON

LARGE = 32
"""The smallest count for which a counter is kept: below it an automaton is as quick."""
PLAIN = r"(?:[^\\^$.|?*+()\[\]{}]|\\[^\w\s\\|])*"
LISTED = re.compile(rf"\^(?:({PLAIN})|\((?:\?:)?({PLAIN}(?:\|{PLAIN})*)\))\$")
COUNT = re.compile(r"\{(\d+)(?:,(\d*))?\}")


@lru_cache(maxsize=1024)
def pattern_shapes(pattern: str, sign: bool) -> tuple[Strings, ...]:
    """Return the strings in which a pattern is found, as a union of shapes.
    Without ``sign``: the strings in which it is not found."""
    free, least, most = without_count(pattern) or (pattern, 0, None)
    return with_length("pattern", free, least, most, sign)


def words_of(pattern: str) -> frozenset[str] | None:
    """Return the strings of a pattern that lists them (``^a$``, ``^(a|b)$``), None of any other."""
    found = LISTED.fullmatch(pattern)
    return found and frozenset(
        re.sub(r"\\(.)", r"\1", word) for word in re.split(r"(?<!\\)\|", found[1] or found[2] or "")
    )


def with_length(kind: str, which: str, least: int, most: int | None, sign: bool) -> tuple[Strings, ...]:
    """Return the strings of ``least`` to ``most`` characters with a pattern or a format, as a union of shapes.
    Without ``sign``: all other strings."""
    having = frozenset([(kind, which, True)])
    if sign:
        return (Strings(least, most, having),)
    others = [Strings(atoms=frozenset([(kind, which, False)]))]
    if least:
        others.append(Strings(0, least - 1, having))
    if most is not None:
        others.append(Strings(most + 1, None, having))
    return tuple(others)


def readable(shapes: Sequence[Strings], path: str) -> None:
    """Raise an error with the path if a pattern cannot be compiled.
    It is ``UnsupportedConstraint`` or ``TooManyStates``."""
    for which, sign in dict.fromkeys(
        (which, sign) for shape in shapes for _, which, sign in sorted(shape.atoms)
    ):
        try:
            matching(which, sign, JSON.alphabet)
        except UnsupportedConstraint as error:
            raise UnsupportedConstraint(str(error), path=path) from None
        except TooManyStates as error:
            raise TooManyStates(f"{error}; shorten the repeats", limit=error.limit, path=path) from None


def without_count(pattern: str) -> tuple[str, int, int | None] | None:
    """Replace a large count by ``*``; return the pattern and the fewest and most characters.
    Return ``None`` if the length of a string does not determine the count."""
    large = [match for match in COUNT.finditer(pattern) if max(int(match[1]), int(match[2] or 0)) >= LARGE]
    with suppress(UnsupportedConstraint, IndexError):  # a reference to a group has no length
        for match in large if large and is_whole(pattern) else ():
            before, after = pattern[: match.start()], pattern[match.end() :]
            low, high = int(match[1]), None if match[2] == "" else int(match[2] or match[1])
            found = beside(before, after, low == 0)
            if found is not None and not after.startswith("+"):  # a possessive repeat
                least, most = found
                return f"{before}*{after}", least + low, None if high is None else most + high
    return None


def beside(before: str, after: str, may_be_optional: bool = False) -> tuple[int, int] | None:
    """Return the fewest and the most characters beside a count, ``None`` if there is another choice of them than to leave
    out an optional group around the count."""
    (least, most), once = (lengths(f"{before}{{{count}}}{after}") for count in (0, 1))
    if least == most:
        return (least, most) if once == (least + 1, most + 1) else None
    if not may_be_optional or once != (least, most + 1):
        return None
    groups = (end.start() + 1 for end in re.finditer(r"\)\?", after))
    return next(((least, most) for end in groups if beside(before, after[:end] + after[end + 1 :])), None)


def is_whole(pattern: str) -> bool:
    """Return whether the matches of a pattern are whole strings."""
    items, flags = parse(translate(pattern), 0)
    return not flags & re.MULTILINE and len(items) > 1 and items[0] in BEGINNINGS and items[-1] in ENDS


def lengths(pattern: str) -> tuple[int, int]:
    """Return the fewest and the most characters of a pattern's matches."""
    items, _ = parse(translate(pattern), 0)
    least, most = parser.SubPattern(parser.State(), items).getwidth()
    return least, most
