"""Surface syntax: how values are written, by :class:`Style` (punctuation) and :class:`Spelling` (strings).

A character of a JSON string stands for itself where JSON allows that. ``\\" \\\\ \\/ \\b \\f \\n \\r \\t`` may be written so.
Each may also be written ``\\uXXXX`` (a surrogate pair beyond U+FFFF); but of printable ASCII only :data:`MARKUP`, except in
strings under no condition: names and patterns consist of the others. White space between tokens is that of the chosen style.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from ..._core import Letters
from ...errors import UnsupportedConstraint
from .. import validation
from ..automata import utf8
from ..automata.dfa import minimize
from ..automata.nfa import Nfa, sequences
from ..automata.utf8 import Alphabet, CodePoints, digit_ranges, normalize, within
from ..automata.work import metered

Ways = tuple[tuple[tuple[int, ...], ...], ...]
"""The encodings of one character: for each encoding, the bytes allowed at each position."""


@dataclass(frozen=True, eq=False)
class Spelling:
    """How a string is written: the byte before it (none for a bare name) and after it, and its characters.

    ``alphabet``: the automaton of the encodings of a set of characters. ``ways``: the encodings of one character (none for a
    surrogate). Neither includes the bytes around the string. ``free``: how strings under no condition are written, if otherwise.
    """

    opening: bytes
    closing: int
    alphabet: Alphabet
    ways: Callable[[str], Ways]
    free: Spelling | None = None

    @cached_property
    def letters(self) -> Letters:
        """The encodings of characters for the core."""
        return Letters(self.ways)


# ---------------------------------------------------------------- the strings of JSON

SHORT = {ord(c): e for c, e in zip('"\\/\b\f\n\r\t', b'"\\/bfnrt', strict=True)}
Ranges = list[tuple[int, int]]  # of bytes
BACKSLASH: Ranges = [(92, 92)]
LETTERS = (ord("a") - 10, ord("A") - 10)
"""Offsets from a hexadecimal digit's value (10 to 15) to its byte: lower case, upper case."""
CONTROLS = ((0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F))
"""The control characters without a short escape."""
MARKUP = "\"&'+<>\\`"
"""The printable characters that encoders of JSON write as ``\\uXXXX``, so that the text can stand in HTML."""
CODED: dict[str, CodePoints] = {
    "any": normalize([(0x00, 0x1F), *((ord(c), ord(c)) for c in MARKUP), (0x7F, 0xFFFF)]),
    "free": ((0x00, 0xFFFF),),
    "minimal": CONTROLS,
    "ascii": (*CONTROLS, (0x7F, 0xFFFF)),
}
"""The characters that ``\\uXXXX`` may stand for, by the option ``escapes``; ``free``: those of ``any`` under no condition."""


@metered(maxsize=512)
def encodings(points: CodePoints, escapes: str) -> Nfa:
    """Return the automaton of the encodings of a set of characters inside a JSON string."""
    has_all = escapes in ("any", "free")
    raw = within(points, ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E if escapes == "ascii" else 0x10FFFF)))
    short = [
        (letter, letter)
        for code, letter in SHORT.items()
        if within(points, ((code, code),)) and (has_all or code != ord("/"))
    ]
    cases = LETTERS if has_all else LETTERS[:1]
    sequences_of = [*utf8.encodings(raw), [BACKSLASH, short]]
    for low, high in within(points, CODED[escapes]):
        sequences_of += escape(low, high, cases=cases)
    for low, high in within(points, ((0x10000, 0x10FFFF),) if escapes != "minimal" else ()):
        first, last = ([0xD800 + (c - 0x10000 >> 10), 0xDC00 + (c & 0x3FF)] for c in (low, high))
        for one, other in digit_ranges(first, last, 0xDC00, 0xDFFF):
            sequences_of += [[*a, *b] for a in escape(*one, cases=cases) for b in escape(*other, cases=cases)]
    return minimize(sequences(sequences_of))


@lru_cache(maxsize=4096)
def ways(char: str, escapes: str) -> Ways:
    """Return the encodings of one character inside a JSON string; a surrogate has none."""
    code, found = ord(char), []
    if 0xD800 <= code <= 0xDFFF:
        return ()
    if escapes not in ("any", "free"):
        return (tuple((byte,) for byte in plain(char, escapes == "ascii")),)
    if code >= 0x20 and char not in '"\\':
        found.append(char.encode())
    if code in SHORT:
        found.append(bytes([92, SHORT[code]]))
    if escapes == "free" or code < 0x20 or code >= 0x7F or char in MARKUP:
        units = char.encode("utf-16-be").hex()
        found.append("".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)).encode())
    return tuple(tuple(choices(way, i) for i in range(len(way))) for way in found)


def choices(way: bytes, i: int) -> tuple[int, ...]:
    """Return the bytes allowed at one position of an encoding: hexadecimal digits have two cases."""
    escaped = len(way) > 2 and way[:1] == b"\\"
    is_digit = escaped and way[i - 1 : i] != b"\\" and way[i : i + 1].isalpha()
    return (way[i], way[i] - 32) if is_digit else (way[i],)


def escape(
    low: int, high: int, letter: bytes = b"u", width: int = 4, cases: Sequence[int] = LETTERS
) -> list[list[Ranges]]:
    """Return ``\\uXXXX`` for a range of code units, as sequences of byte ranges."""
    first, last = ([int(d, 16) for d in f"{n:0{width}x}"] for n in (low, high))
    head = [BACKSLASH, [(letter[0], letter[0])]]
    return [[*head, *(nibble(*d, cases) for d in s)] for s in digit_ranges(first, last, 0, 15)]


def nibble(low: int, high: int, cases: Sequence[int]) -> Ranges:
    """Return the bytes of the hexadecimal digits ``low`` to ``high``, letters in these cases."""
    letters = [(start + max(low, 10), start + high) for start in sorted(cases)] if high > 9 else []
    return ([(48 + low, 48 + min(high, 9))] if low < 10 else []) + letters


def plain(text: str, ascii_only: bool = False) -> bytes:
    """Return a string as ``json.dumps`` writes it between its quotes."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")


def is_text(given: str) -> bool:
    """Return whether each character has an encoding: a lone surrogate has none, in no spelling."""
    return given.isascii() or not any("\ud800" <= char <= "\udfff" for char in given)


def json_spelling(escapes: str, free: Spelling | None = None) -> Spelling:
    """Return how the strings of JSON are written, by the option ``escapes``."""
    return Spelling(b'"', ord('"'), partial(encodings, escapes=escapes), partial(ways, escapes=escapes), free)


SPELLINGS = {
    "any": json_spelling("any", json_spelling("free")),
    "minimal": json_spelling("minimal"),
    "ascii": json_spelling("ascii"),
}
"""The ways to write strings, by the option ``escapes``."""
JSON = SPELLINGS["any"]

# ---------------------------------------------------------------- punctuation


@dataclass(frozen=True, eq=False)
class Style:
    """The punctuation of values, and the spellings of their strings. Equality is identity.

    Parameters
    ----------
    comma, colon
        The separators between members or items, and between a name and its value.
    blank
        The most characters of white space in a row around them; ``math.inf``: any number.
    spellings
        The ways to write a string; short texts use the first.
    words
        ``null``, ``false`` and ``true``.
    braces
        The first and the last byte of an object.
    tuples
        Whether there are tuples beside arrays; integers are then written without a point.
    indent
        The indent of one level, if each member and item has a line of its own. ``comma`` then ends with the newline and the
        indent of its line.
    depth
        The nesting level of the value, where there is an indent.
    """

    comma: bytes
    colon: bytes
    blank: float
    spellings: tuple[Spelling, ...] = (JSON,)
    words: tuple[bytes, bytes, bytes] = (b"null", b"false", b"true")
    braces: tuple[bytes, bytes] = (b"{", b"}")
    tuples: bool = False
    indent: bytes | None = None
    depth: int = 0

    @cached_property
    def joint(self) -> bytes:
        """The bytes behind a name in a table of names: the colon, or none if white space may stand before the colon."""
        return b"" if self.blank else self.colon

    @cached_property
    def lead(self) -> bytes:
        """The text before the first member or item: a newline and the indent, or nothing."""
        return b"" if self.indent is None else b"\n" + self.indent * (self.depth + 1)

    @cached_property
    def trail(self) -> bytes:
        """The text between the last member or item and the closing bracket, as :attr:`lead`."""
        return b"" if self.indent is None else b"\n" + self.indent * self.depth

    @cached_property
    def deeper(self) -> Style:
        """The style one level deeper, where there is an indent."""
        assert self.indent is not None
        return replace(self, comma=self.comma + self.indent, depth=self.depth + 1)

    @cached_property
    def unindented(self) -> Style:
        """The style with any white space in place of the indent."""
        return replace(STYLES["flexible"], spellings=self.spellings)


MOST_INDENT = 16
"""The largest indent of one level, in bytes."""
MOST_BLANK = 100
"""The largest ``max_whitespace``."""
STYLES = {
    "none": Style(b",", b":", 0),
    "space": Style(b", ", b": ", 0),
    "flexible": Style(b",", b":", math.inf),
}


Space = str | int
"""The name of a style, or the most characters of any white space in a row."""
Writing = tuple[Space, tuple[str, str] | None, str, str | None]
"""The white space, and the options ``separators``, ``escapes`` and ``indent`` of :func:`.json_schema`."""


@lru_cache(256)
def style_of(
    whitespace: Space,
    separators: tuple[str, str] | None = None,
    escapes: str = "any",
    indent: str | None = None,
) -> Style:
    """Return the style of these options of :func:`.json_schema`."""
    if isinstance(whitespace, str):
        found = STYLES[whitespace]
    else:
        found = replace(STYLES["flexible"], blank=whitespace)
    if separators is not None:
        found = replace(found, comma=separators[0].encode(), colon=separators[1].encode())
    if indent is not None:
        comma = found.comma if separators is not None else found.comma.rstrip()
        found = replace(found, comma=comma + b"\n" + indent.encode(), indent=indent.encode())
    return found if escapes == "any" else replace(found, spellings=(SPELLINGS[escapes],))


def json_space(whitespace: Any, most: Any) -> Space:
    """Return the white space that the options ``whitespace`` and ``max_whitespace`` ask for: a style, or the most bytes of a gap.

    Raises ``UnsupportedConstraint`` for a style that is not known, and a bound on white space that is not flexible.
    """
    validation.choice(whitespace, "whitespace", STYLES)
    if most is None:
        return str(whitespace)
    if whitespace != "flexible":
        raise UnsupportedConstraint('it bounds the blanks of whitespace="flexible"', path="max_whitespace")
    return validation.count(most, "max_whitespace", 0, MOST_BLANK)


def json_separators(given: Any) -> tuple[str, str]:
    """Return the option ``separators`` as a pair.
    Raises ``UnsupportedConstraint`` if JSON does not allow it."""
    found = tuple(given) if isinstance(given, tuple | list) else ()
    if [each.strip(" \t\n\r") if isinstance(each, str) else each for each in found] != [",", ":"]:
        raise UnsupportedConstraint(
            f"a comma and a colon, each with white space around it or none, are expected, not {given!r}",
            path="separators",
        )
    return found[0], found[1]


def json_indent(given: Any) -> str:
    """Return the option ``indent`` as the white space of one level.
    Raises ``UnsupportedConstraint``."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MOST_INDENT:
        return " " * given
    if isinstance(given, str) and len(given) <= MOST_INDENT and not given.strip(" \t\n\r"):
        return given
    raise UnsupportedConstraint(
        f"a number of blanks up to {MOST_INDENT}, or white space, is expected, not {given!r}", path="indent"
    )
