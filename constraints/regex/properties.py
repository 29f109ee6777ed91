"""Unicode properties and set operations of classes, which ``regex`` reads and ``re`` does not.

    \\p{L}  \\P{Script=Greek}  \\pN        [\\p{L}&&[^aeiou]]  [\\w--[\\d_]]

Each becomes the plain class of the characters that the ``regex`` package finds in it (``dialects.py`` calls this if ``re``
refuses a pattern).
"""

from __future__ import annotations

import re
from contextlib import suppress

import regex as unicode_regex

from ...errors import UnsupportedConstraint
from ..automata import utf8
from ..automata.utf8 import CodePoints
from ..automata.work import metered, spend
from .characters import all_characters

PROPERTY = r"\\[pP](?:\{[^{}]*\}|[A-Za-z])"
PLAIN_CLASS = re.compile(rf"\[\^?\]?(?:{PROPERTY}|\\.|[^\]\\])*\]", re.DOTALL)
CODE = re.compile(r"\\[xu]\{(?P<hex>[0-9a-fA-F]{1,6})\}")
OPERATION = re.compile(r"\](?:&&|--|\|\||~~)")
SET_SYNTAX = re.compile(rf"{PROPERTY}|&&|--|\|\||~~", re.DOTALL)


def class_at(pattern: str, start: int, flags: int) -> tuple[str, int]:
    """Return the class at ``start`` in the syntax of ``re``, and the position after it.

    ``flags``: see :func:`spelled_out`. Raises ``UnsupportedConstraint``.
    """
    plain = PLAIN_CLASS.match(pattern, start)
    text = plain[0] if plain else pattern[start:]
    sets = SET_SYNTAX.search(text) is not None
    if sets:
        text = nested_class(pattern, start)
    elif "[" in text[1:]:  # a class that begins with a class, and goes on with an operation
        with suppress(UnsupportedConstraint):
            nested = nested_class(pattern, start)
            if OPERATION.search(nested):
                text, sets = nested, True
    end = start + len(text)
    text = re.sub(rf"{CODE.pattern}|\\.", code_point, text, flags=re.DOTALL)
    return spelled_out(start, text, flags) if sets else text, end


def code_point(found: re.Match[str]) -> str:
    """Return an escape that names a code point as ``re`` reads it, any other escape unchanged."""
    return f"\\U{int(found['hex'], 16):08x}" if found["hex"] else found[0]


def nested_class(pattern: str, start: int) -> str:
    """Return the class at ``start``, in which ``[`` opens a nested class."""
    depth = 0
    for match in re.compile(rf"{PROPERTY}|\\.|\[\^?\]?|\]|[^\[\]\\]+", re.DOTALL).finditer(pattern, start):
        depth += match[0].startswith("[") - (match[0] == "]")
        if not depth:
            return pattern[start : match.end()]
    raise UnsupportedConstraint(f"a class in {pattern!r} does not end", path=f"position {start}")


def spelled_out(position: int, text: str, flags: int) -> str:
    """Return a property or class as the plain class of its characters.

    ``flags``: ``re.IGNORECASE``, ``re.ASCII``. With ``IGNORECASE``, ``regex`` reads ``\\p{Lu}``, ``\\p{Ll}`` and ``\\p{Lt}``
    as any letter that has case, and complements that set. So the class lists all its characters, and is read
    case-sensitively.
    """
    try:
        points = members(text, flags)
    except unicode_regex.error as error:
        raise UnsupportedConstraint(
            f"{text!r} is no set of characters: {error.msg}", path=f"position {position}"
        ) from None
    if not points:
        return "(?!)"
    found = "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in points) + "]"
    return f"(?-i:{found})" if flags & re.IGNORECASE else found


@metered(maxsize=256)
def members(text: str, flags: int = 0) -> CodePoints:
    """Return the characters of a property or class, according to ``regex``."""
    spend(30_000)
    which = [flag for flag in (re.IGNORECASE, re.ASCII) if flags & flag]
    options = sum(unicode_regex.RegexFlag[flag.name or ""] for flag in which) | unicode_regex.V1
    found = unicode_regex.compile(f"{text}+", options).finditer(all_characters())
    return utf8.normalize((match.start(), match.end() - 1) for match in found)
