"""Python literals as a surface syntax: what ``ast.literal_eval`` reads as JSON values and tuples.

Strings stand in ``'`` or ``"``. A character stands for itself where Python allows that; quotes, backslashes and control
characters have their short escapes, and control characters and those beyond ASCII also ``\\xXX``, ``\\uXXXX`` or
``\\UXXXXXXXX``. Numbers are written as JSON writes them, integers without a point. The arguments of a call are an object
with bare names.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

from ..automata import utf8
from ..automata.dfa import minimize
from ..automata.nfa import Nfa, sequences
from ..automata.utf8 import Alphabet, CodePoints, negate, normalize, within
from ..automata.work import metered
from ..json.text import BACKSLASH, Space, Spelling, Style, Ways, choices, escape, style_of

SHORT = {ord(c): e for c, e in zip("\\'\"\a\b\f\n\r\t\v", b"\\'\"abfnrtv", strict=True)}
ESCAPED = ((0, 0x1F), (0x7F, 0x10FFFF))
NUMBERED = ((b"x", 2, 0xFF), (b"u", 4, 0xFFFF), (b"U", 8, 0x10FFFF))
"""The numeric escapes: letter, number of hexadecimal digits, largest code point."""
NAMES = normalize([(48, 57), (65, 90), (95, 95), (97, 122), (0x80, 0x10FFFF)])
"""The code points of names: letters, digits, underscore, and all beyond ASCII."""


@metered(maxsize=512)
def spellings(quote: int, points: CodePoints) -> Nfa:
    """Return the automaton of all spellings of a character of the set in a ``quote`` string."""
    raw = negate(normalize((c, c) for c in (0, 10, 13, ord("\\"), quote)))
    escapes = [[BACKSLASH, [(e, e) for code, e in SHORT.items() if within(points, ((code, code),))]]]
    for low, high in within(points, ESCAPED):
        for letter, width, last in NUMBERED:
            if low <= last:
                escapes += escape(low, min(high, last), letter, width)
    return minimize(sequences([*utf8.encodings(within(points, raw)), *escapes]))


@lru_cache(maxsize=8192)
def ways(quote: int, char: str) -> Ways:
    """Return all spellings of one character in a ``quote`` string; none for a surrogate."""
    code, found = ord(char), []
    if 0xD800 <= code <= 0xDFFF:
        return ()
    if code not in (0, 10, 13, ord("\\"), quote):
        found.append(char.encode())
    if code in SHORT:
        found.append(bytes([92, SHORT[code]]))
    if code < 0x20 or code >= 0x7F:
        found += [b"\\%s%0*x" % (letter, width, code) for letter, width, last in NUMBERED if code <= last]
    return tuple(tuple(choices(way, i) for i in range(len(way))) for way in found)


def quoted(mark: bytes) -> Spelling:
    """Return the spelling of strings delimited by this quote."""
    return Spelling(mark, mark[0], partial(spellings, mark[0]), partial(ways, mark[0]))


@lru_cache(512)
def bare(points: CodePoints) -> Nfa:
    """Return the automaton of the characters of the set that a name may have, unescaped."""
    return utf8.utf8(within(points, NAMES))


def unquoted(alphabet: Alphabet, closing: int = 0) -> Spelling:
    """Return the spelling of strings without quotes, in which each character stands for itself.

    ``alphabet``: the automaton of the encodings of a set of characters. ``closing``: the byte after a string.
    """

    def as_it_is(char: str) -> Ways:
        return () if 0xD800 <= ord(char) <= 0xDFFF else (tuple((byte,) for byte in char.encode()),)

    return Spelling(b"", closing, alphabet, as_it_is)


DOUBLE, SINGLE = quoted(b'"'), quoted(b"'")
NAME = unquoted(bare, ord("="))
"""The name of an argument: an identifier, ended by the equals sign."""


@lru_cache(128)
def literals(space: Space) -> Style:
    """Return the style of Python literals with some white space."""
    return replace(
        style_of(space), spellings=(DOUBLE, SINGLE), words=(b"None", b"False", b"True"), tuples=True
    )


@lru_cache(128)
def arguments(space: Space) -> Style:
    """Return the style of the arguments of a call with some white space."""
    return replace(literals(space), spellings=(NAME,), colon=b"", braces=(b"(", b")"))
