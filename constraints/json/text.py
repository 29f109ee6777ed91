"""Surface syntax: how values are written. A :class:`Style` has their punctuation, a :class:`Spelling` the characters of strings.

In JSON a character of a string stands for itself where JSON allows that. ``\\" \\\\ \\/ \\b \\f \\n \\r \\t`` may be written so,
and control characters and those beyond ASCII also as ``\\uXXXX`` (a pair of them beyond U+FFFF); letters are not hidden in
escapes. Between tokens stands the white space of the chosen style.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

from ...errors import UnsupportedConstraint
from ..automata import utf8
from ..automata.dfa import minimize
from ..automata.nfa import Nfa, sequences, union
from ..automata.utf8 import Alphabet, CodePoints, digit_ranges, within
from ..automata.work import metered

Ways = tuple[tuple[tuple[int, ...], ...], ...]
"""The ways to write one character: for each way, the bytes that may stand at each place."""


@dataclass(frozen=True, eq=False)
class Spelling:
    """How a string is written: the byte before it (none for a bare name) and after it, and its characters.

    ``alphabet`` gives the texts of a set of characters, ``ways`` those of one character (none for a surrogate), ``plain`` a short
    text of a string, and ``read`` the string of a text, ``None`` where the text ends within a character. None of them has the
    bytes around the string.
    """

    opening: bytes
    closing: int
    alphabet: Alphabet
    ways: Callable[[str], Ways]
    plain: Callable[[str], bytes]
    read: Callable[[bytes], str | None]

    def around(self, inside: bytes) -> bytes:
        """A text with the bytes around it."""
        return self.opening + inside + bytes((self.closing,))


# ---------------------------------------------------------------- the strings of JSON

SHORT = {ord(c): e for c, e in zip('"\\/\b\f\n\r\t', b'"\\/bfnrt', strict=True)}
Ranges = list[tuple[int, int]]  # of bytes
BACKSLASH: Ranges = [(92, 92)]
LETTERS = (ord("a") - 10, ord("A") - 10)
"""What the letters of hexadecimal digits are counted from: small ones, capitals."""
CONTROLS = ((0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F))
"""The control characters without a short escape."""
CODED: dict[str, CodePoints] = {
    "any": ((0x00, 0x1F), (0x7F, 0xFFFF)),
    "minimal": CONTROLS,
    "ascii": (*CONTROLS, (0x7F, 0xFFFF)),
}
"""The characters that ``\\uXXXX`` may stand for, by the option ``escapes``."""


@metered(maxsize=512)
def spelled(points: CodePoints, escapes: str = "any") -> Nfa:
    """The ways to write a character of the set inside a JSON string."""
    raw = within(points, ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E if escapes == "ascii" else 0x10FFFF)))
    short = [
        (e, e) for code, e in SHORT.items() if within(points, ((code, code),)) and is_short(code, escapes)
    ]
    cases = LETTERS if escapes == "any" else LETTERS[:1]
    sequences_of = [[BACKSLASH, short]]
    for low, high in within(points, CODED[escapes]):
        sequences_of += escape(low, high, cases=cases)
    for low, high in within(points, ((0x10000, 0x10FFFF),) if escapes != "minimal" else ()):
        first, last = ([0xD800 + (c - 0x10000 >> 10), 0xDC00 + (c & 0x3FF)] for c in (low, high))
        for one, other in digit_ranges(first, last, 0xDC00, 0xDFFF):
            sequences_of += [[*a, *b] for a in escape(*one, cases=cases) for b in escape(*other, cases=cases)]
    return minimize(union([utf8.utf8(raw), sequences(sequences_of)]))


def is_short(code: int, escapes: str) -> bool:
    """Whether a character with a short escape may be written by it."""
    return escapes == "any" or code != ord("/")


@lru_cache(maxsize=4096)
def ways(char: str, escapes: str = "any") -> Ways:
    """The ways to write one character in JSON. A surrogate has none."""
    code, found = ord(char), []
    if 0xD800 <= code <= 0xDFFF:
        return ()
    if escapes != "any":
        return (tuple((byte,) for byte in plain(char, escapes == "ascii")),)
    if code >= 0x20 and char not in '"\\':
        found.append(char.encode())
    if code in SHORT:
        found.append(bytes([92, SHORT[code]]))
    if code < 0x20 or code >= 0x7F:
        units = char.encode("utf-16-be").hex()
        found.append("".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4)).encode())
    return tuple(tuple(choices(way, i) for i in range(len(way))) for way in found)


def choices(way: bytes, i: int) -> tuple[int, ...]:
    """The bytes that may stand at a place of one way to write a character: hexadecimal digits are of either case."""
    escaped = len(way) > 2 and way[:1] == b"\\"
    is_digit = escaped and way[i - 1 : i] != b"\\" and way[i : i + 1].isalpha()
    return (way[i], way[i] - 32) if is_digit else (way[i],)


def escape(
    low: int, high: int, letter: bytes = b"u", width: int = 4, cases: Sequence[int] = LETTERS
) -> list[list[Ranges]]:
    """``\\uXXXX`` for the code units of the range: for each way the ranges of bytes."""
    first, last = ([int(d, 16) for d in f"{n:0{width}x}"] for n in (low, high))
    head = [BACKSLASH, [(letter[0], letter[0])]]
    return [[*head, *(nibble(*d, cases) for d in s)] for s in digit_ranges(first, last, 0, 15)]


def nibble(low: int, high: int, cases: Sequence[int]) -> Ranges:
    """The bytes of the hexadecimal digits ``low..high``, with letters of these cases."""
    letters = [(start + max(low, 10), start + high) for start in sorted(cases)] if high > 9 else []
    return ([(48 + low, 48 + min(high, 9))] if low < 10 else []) + letters


def plain(text: str, ascii_only: bool = False) -> bytes:
    """A string as ``json.dumps`` writes it, between its quotes."""
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass")


@lru_cache(4096)
def read(text: bytes) -> str | None:
    """The string that is written so between quotes; ``None`` if the text ends within a character."""
    try:
        return str(json.loads(b'"' + text + b'"', strict=False))
    except ValueError:
        return None


JSON = Spelling(b'"', ord('"'), spelled, ways, plain, read)
SPELLINGS = {"any": JSON} | {
    escapes: Spelling(
        JSON.opening,
        JSON.closing,
        partial(spelled, escapes=escapes),
        partial(ways, escapes=escapes),
        partial(plain, ascii_only=escapes == "ascii"),
        read,
    )
    for escapes in ("minimal", "ascii")
}

# ---------------------------------------------------------------- punctuation


@dataclass(frozen=True, eq=False)
class Style:
    """How values are written. Equality is identity.

    Parameters
    ----------
    comma, colon
        What stands between members or items, and between a name and its value.
    blank
        Whether any white space may surround them.
    spellings
        The ways to write a string; short texts are written in the first.
    words
        ``null``, ``false`` and ``true``.
    braces
        The first and the last byte of an object.
    opened
        Whether the first byte of an object is read before it.
    tuples
        Whether there are tuples beside arrays; integers have no point then.
    indent
        What a line begins with for each level of depth, if each member and item has a line of its own. ``comma`` then ends with
        the beginning of a line.
    depth
        The level of the value, where there is an indent.
    """

    comma: bytes
    colon: bytes
    blank: bool
    spellings: tuple[Spelling, ...] = (JSON,)
    words: tuple[bytes, bytes, bytes] = (b"null", b"false", b"true")
    braces: tuple[bytes, bytes] = (b"{", b"}")
    opened: bool = False
    tuples: bool = False
    indent: bytes | None = None
    depth: int = 0

    @cached_property
    def lead(self) -> bytes:
        """What stands before the first member or item: the beginning of a line."""
        return b"" if self.indent is None else b"\n" + self.indent * (self.depth + 1)

    @cached_property
    def trail(self) -> bytes:
        """What stands between the last member or item and the bracket behind it."""
        return b"" if self.indent is None else b"\n" + self.indent * self.depth

    @cached_property
    def deeper(self) -> Style:
        """The style one level deeper."""
        assert self.indent is not None
        return replace(self, comma=self.comma + self.indent, depth=self.depth + 1)

    @cached_property
    def unindented(self) -> Style:
        """The style of the same values with any white space."""
        return replace(STYLES["flexible"], spellings=self.spellings)

    @property
    def to_lead(self) -> int:
        """Where in ``comma`` its last line begins."""
        return len(self.comma) - len(self.lead)

    def named(self, name: bytes) -> bytes:
        """The name of a member, spelled, with all that stands before its value."""
        return self.spellings[0].around(name) + self.colon


MOST_INDENT = 16
"""Bytes of one level."""
STYLES = {
    "none": Style(b",", b":", False),
    "space": Style(b", ", b": ", False),
    "flexible": Style(b",", b":", True),
}


Writing = tuple[str, tuple[str, str] | None, str, str | None]
"""The options ``whitespace``, ``separators``, ``escapes`` and ``indent`` of :func:`.json_schema`."""


@lru_cache(256)
def style_of(
    whitespace: str,
    separators: tuple[str, str] | None = None,
    escapes: str = "any",
    indent: str | None = None,
) -> Style:
    """The style of these options."""
    found = STYLES[whitespace]
    if separators is not None:
        found = replace(found, comma=separators[0].encode(), colon=separators[1].encode())
    if indent is not None:
        comma = found.comma if separators is not None else found.comma.rstrip()
        found = replace(found, comma=comma + b"\n" + indent.encode(), indent=indent.encode())
    return found if escapes == "any" else replace(found, spellings=(SPELLINGS[escapes],))


def json_separators(given: Any) -> tuple[str, str]:
    """Two separators that JSON has. Raises ``UnsupportedConstraint`` for anything else."""
    found = tuple(given) if isinstance(given, tuple | list) else ()
    if [each.strip(" \t\n\r") if isinstance(each, str) else each for each in found] != [",", ":"]:
        raise UnsupportedConstraint(
            f"a comma and a colon, each with white space around it or none, are expected, not {given!r}",
            path="separators",
        )
    return found[0], found[1]


def json_indent(given: Any) -> str:
    """What a line begins with for each level. Raises ``UnsupportedConstraint`` where it is neither white space nor a number."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= MOST_INDENT:
        return " " * given
    if isinstance(given, str) and len(given) <= MOST_INDENT and not given.strip(" \t\n\r"):
        return given
    raise UnsupportedConstraint(
        f"a number of blanks up to {MOST_INDENT}, or white space, is expected, not {given!r}", path="indent"
    )
