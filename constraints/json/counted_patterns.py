"""Patterns that count characters, as a pattern without the count and bounds on the length.

``^[a-z][a-z0-9]{0,63}$`` holds for the strings of ``^[a-z][a-z0-9]*$`` with 1 to 64 characters. An automaton of the first has
a copy of its states for each count; of the second a counter is kept beside the automaton (``lazy/counted.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from ...errors import TooManyStates, UnsupportedConstraint
from ..regex.pattern import BEGINNINGS, ENDS, parse
from ..regex.syntax import CHARACTER, REPEAT, Item, constants
from .patterns import matching, translate
from .shapes import Strings
from .text import JSON

LARGE = 32
"""The smallest count for which a counter is kept: below it an automaton is as quick."""
COUNT = re.compile(r"\{(\d+)(?:,(\d*))?\}")
Lengths = tuple[int, int, int | None]
"""The characters outside a counted repeat, and the fewest and most within it."""


@lru_cache(maxsize=1024)
def pattern_shapes(pattern: str, sign: bool) -> tuple[Strings, ...]:
    """Return the strings in which a pattern is found, as a union of shapes.
    Without ``sign``: the strings in which it is not found."""
    counted = without_count(pattern)
    if counted is None:
        return (Strings(atoms=frozenset([("pattern", pattern, sign)])),)
    free, least, most = counted
    found = Strings(least, most, frozenset([("pattern", free, True)]))
    if sign:
        return (found,)
    others = [Strings(atoms=frozenset([("pattern", free, False)]))]
    if least:
        others.append(Strings(0, least - 1, found.atoms))
    if most is not None:
        others.append(Strings(most + 1, None, found.atoms))
    return tuple(others)


def readable(shapes: Sequence[Strings], path: str) -> None:
    """Raise an error with the path if a pattern cannot be compiled.
    It is ``UnsupportedConstraint`` or ``TooManyStates``."""
    for which, sign in {(which, sign) for shape in shapes for _, which, sign in shape.atoms}:
        try:
            matching(which, sign, JSON.alphabet)
        except UnsupportedConstraint as error:
            raise UnsupportedConstraint(str(error), path=path) from None
        except TooManyStates as error:
            raise TooManyStates(
                f"{error}; say it with shorter repeats", limit=error.limit, path=path
            ) from None


def without_count(pattern: str) -> tuple[str, int, int | None] | None:
    """Replace a large count by ``*``; return the pattern and the fewest and most characters.
    Return ``None`` if the length of a string does not determine the count."""
    large = [match for match in COUNT.finditer(pattern) if max(int(match[1]), int(match[2] or 0)) >= LARGE]
    with suppress(UnsupportedConstraint):
        found = lengths(pattern) if large else None
        if found is None or found[1:] == (0, None):
            return None
        beside, least, most = found
        for match in large:
            free = pattern[: match.start()] + "*" + pattern[match.end() :]
            fixed = beside if most != least else beside - int(match[1])
            if lengths(free) == (fixed, 0, None):
                return free, beside + least, None if most is None else beside + most
    return None


def lengths(pattern: str) -> Lengths | None:
    """Return the lengths of a pattern's matches; ``None`` unless they are whole strings."""
    items, flags = parse(translate(pattern), 0)
    if flags & re.MULTILINE or len(items) < 2 or items[0] not in BEGINNINGS or items[-1] not in ENDS:
        return None
    return lengths_of(items[1:-1])


def lengths_of(items: Sequence[Item]) -> Lengths | None:
    """Return the lengths of a sequence; at most one repeat, of a character, may have a variable count.
    Return ``None`` for any other sequence."""
    beside, repeat = 0, None
    for operation, argument in items:
        if operation in CHARACTER:
            beside += 1
            continue
        found = repeated(operation, argument)
        if found is None or (found[1] != found[2] and repeat is not None):
            return None
        fixed, least, most = found
        beside += fixed
        if least == most:
            beside += least
        else:
            repeat = least, most
    return (beside, *(repeat or (0, 0)))


def repeated(operation: object, argument: tuple[int, int, Sequence[Item]]) -> Lengths | None:
    """Return the lengths of a group or a repeat of a character; ``None`` for others.
    An optional group has lengths if its repeat may be empty."""
    if operation is constants.SUBPATTERN:
        _, added, removed, inner = argument  # type: ignore[misc]
        return None if added or removed else lengths_of(inner)
    if operation not in REPEAT:
        return None
    low, high, inner = argument
    most = None if high is constants.MAXREPEAT else int(high)
    if len(inner) == 1 and inner[0][0] in CHARACTER:
        return 0, int(low), most
    if (low, most) != (0, 1) or (found := lengths_of(inner)) is None or found[1] or found[2] == 0:
        return None
    beside, _, most = found
    return 0, 0, None if most is None else beside + most
