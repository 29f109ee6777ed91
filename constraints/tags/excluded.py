"""Strings that a text must not contain: in all of a JSON text, or in a single string."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import UnsupportedConstraint
from ..constraint import Constraint
from ..json.shapes import Strings
from ..words.free_text import without_any

OUTSIDE_STRINGS = frozenset("0123456789+-.eE{}[],: \t\n\rtruefalsn")
"""The characters of JSON outside its strings, quotes apart."""


def apart_from(json: Constraint, without: Sequence[str], path: str) -> Constraint:
    """Return the JSON texts in whose strings and names none of ``without`` is written, be it in a part with a pattern.

    Raises ``UnsupportedConstraint`` for what might be part of a number, a word or of what stands between values.
    """
    for bad in without:
        if '"' in bad or OUTSIDE_STRINGS.issuperset(bad):
            why = f"{bad!r} may be written outside strings, too: exclude texts with another character, and without quotes"
            raise UnsupportedConstraint(why, path=path)
    return json & without_any(without) if without else json


def lacking(words: Iterable[str]) -> Strings:
    """Return the shape of the strings that contain none of the words."""
    codes = ("".join(f"\\u{{{ord(char):x}}}" for char in word) for word in words)
    return Strings(atoms=frozenset(("pattern", code, False) for code in codes))
