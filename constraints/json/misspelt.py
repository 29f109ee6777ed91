"""Keywords that no draft has and that look like one that was meant: ``propertys``, ``min_length``, ``ref``.

The standard takes what it does not know for an annotation, so they say nothing; a warning says that, once for each.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ..narrowing import logger
from .vocabulary import ANNOTATIONS, FORMS, KEYWORDS, is_number, is_schema

OTHERS = ANNOTATIONS | {"example", "nullable", "xml", "externalDocs", "ordering"}
"""Annotations, also those of OpenAPI: they are meant."""
NAMED = OTHERS | KEYWORDS.keys()
"""What says what it means."""
SHORTEST = 4
"""Keywords of fewer letters are not guessed."""
LONG = 6
"""Keywords of so many letters may differ in two, shorter ones in one."""


def meant(key: str, value: Any) -> str | None:
    """Return the keyword that was meant by a key with this value, None if it is like none. The key is not in :data:`NAMED`."""
    options = [each for each in near(key) if fits(each, value)]
    return options[0] if options else None


@lru_cache(1024)
def near(key: str) -> tuple[str, ...]:
    """Return the keywords that are like a key, the most similar first."""
    if len(key) > 40:
        return ()
    written, found = plainly(key), []
    letters = set(written)
    for each, plain, own, most in PLAIN:
        # one difference takes one letter away at most, and brings one
        may_be = len(letters - own) <= most and len(own - letters) <= most
        if may_be and (apart := distance(written, plain)) <= most:
            found.append((apart, each))
    return tuple(each for _, each in sorted(found))


def plainly(key: str) -> str:
    """Return a key in lower case, without the marks that other languages have in names."""
    return key.lower().lstrip("$@").replace("_", "").replace("-", "")


PLAIN = [
    (each, plain, frozenset(plain), 0 if len(plain) < SHORTEST else 1 if len(plain) < LONG else 2)
    for each, plain in zip(KEYWORDS, map(plainly, KEYWORDS), strict=True)
]
"""The keywords: as they are, plainly, their letters, and in how many a key may differ."""


def distance(one: str, other: str) -> int:
    """Return the fewest letters to insert, leave out, replace, or swap with the next."""
    rows = [list(range(len(other) + 1))]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a != b))
            if i > 1 and j > 1 and (a, b) == (other[j - 2], one[i - 2]):
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def fits(keyword: str, value: Any) -> bool:
    """Return whether a keyword may have a value, in some draft."""
    form = KEYWORDS[keyword][0]
    if form == "exclusive":
        return isinstance(value, bool) or is_number(value)
    if form == "items":
        return is_schema(value) or isinstance(value, list)
    return bool(FORMS[form](value))


@lru_cache(1024)
def tell(path: str, key: str, keyword: str) -> None:
    """Log a warning for a key at a path, once."""
    logger.warning(
        "%s: no draft of JSON Schema has the keyword %r, so it says nothing: was %r meant?",
        path or "/",
        key,
        keyword,
    )
