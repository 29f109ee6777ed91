"""Syntax that ``re`` does not read and the ``regex`` package does: properties, set operations, ``(?<name>…)``.

    \\p{L}  \\P{Script=Greek}  \\pN        [\\p{L}&&[^aeiou]]  [\\w--[\\d_]]        (?<year>\\d{4})

A pattern that ``re`` reads means what it means to ``re``. Only what it refuses is rewritten here: each property and each
class with properties or set operations becomes the plain class of the characters that ``regex`` finds in it.
"""

from __future__ import annotations

import re
from functools import lru_cache

import regex as unicode_regex

from ..errors import UnsupportedConstraint
from . import utf8
from .characters import all_characters
from .utf8 import CodePoints

PROPERTY = r"\\[pP](?:\{[^{}]*\}|[A-Za-z])"
TOKEN = re.compile(rf"(?P<property>{PROPERTY})|(?P<name>\(\?<(?=\w+>))|(?P<open>\[)|\\.|.", re.DOTALL)
PLAIN_CLASS = re.compile(rf"\[\^?\]?(?:{PROPERTY}|\\.|[^\]\\])*\]", re.DOTALL)
SET_SYNTAX = re.compile(rf"{PROPERTY}|&&|--|\|\||~~", re.DOTALL)


def rewritten(pattern: str) -> str:
    """The pattern in the syntax of ``re``. Raises ``UnsupportedConstraint`` for an unknown property."""
    parts, position = [], 0
    while match := TOKEN.match(pattern, position):
        position, text = match.end(), match[0]
        if match["property"]:
            text = spelled_out(match.start(), text)
        elif match["name"]:
            text = "(?P<"
        elif match["open"]:
            plain = PLAIN_CLASS.match(pattern, match.start())
            text = plain[0] if plain else pattern[match.start() :]
            if SET_SYNTAX.search(text):
                text = nested_class(pattern, match.start())
                position = match.start() + len(text)
                text = spelled_out(match.start(), text)
            else:
                position = match.start() + len(text)
        parts.append(text)
    return "".join(parts)


def nested_class(pattern: str, start: int) -> str:
    """The class that begins here, in which ``[`` opens a class within it."""
    depth = 0
    for match in re.compile(rf"{PROPERTY}|\\.|\[\^?\]?|\]|[^\[\]\\]+", re.DOTALL).finditer(pattern, start):
        depth += match[0].startswith("[") - (match[0] == "]")
        if not depth:
            return pattern[start : match.end()]
    raise UnsupportedConstraint(f"a class in {pattern!r} does not end", path=f"position {start}")


def spelled_out(position: int, text: str) -> str:
    """A property or class as the plain class of its characters."""
    try:
        points = members(text)
    except unicode_regex.error as error:
        raise UnsupportedConstraint(
            f"{text!r} is no set of characters: {error.msg}", path=f"position {position}"
        ) from None
    if not points:
        return "(?!)"
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in points) + "]"


@lru_cache(maxsize=256)
def members(text: str) -> CodePoints:
    """The characters of a property or class, according to ``regex``."""
    found = unicode_regex.compile(f"{text}+", unicode_regex.V1).finditer(all_characters())
    return utf8.normalize((match.start(), match.end() - 1) for match in found)
