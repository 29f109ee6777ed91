"""Strings and names without quotes: each character stands for itself, or in names for an entity."""

from __future__ import annotations

from functools import lru_cache

from ..automata import dfa, nfa, utf8
from ..automata.nfa import Nfa
from ..automata.utf8 import CodePoints
from ..calls.python_syntax import unquoted
from ..json.text import Spelling

PLAIN = unquoted(lru_cache(512)(utf8.utf8))
"""Strings as they are."""


@lru_cache(32)
def names_in(entities: tuple[tuple[str, str], ...]) -> Spelling:
    """Return the spelling of names that no schema declares: marks are entities, or do not occur."""
    marks = {ord(char): text for char, text in entities} or dict.fromkeys(map(ord, '"<>'), "")

    @lru_cache(512)
    def alphabet(points: CodePoints) -> Nfa:
        plain = utf8.within(points, utf8.negate(tuple((code, code) for code in sorted(marks))))
        coded = [
            nfa.literal(text.encode())
            for code, text in marks.items()
            if text and utf8.within(points, ((code, code),))
        ]
        return dfa.minimize(nfa.union([utf8.utf8(plain), *coded]))

    return unquoted(alphabet)
