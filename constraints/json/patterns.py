"""``pattern`` as it is used in the wild: ECMA-262 and Python's ``re`` read the same text, not always in the same way.

Where they differ (Unicode digits and letters, white space, what ``.`` leaves out, ``$`` before a last newline) a string
matches if it matches for both, and does not match if it matches for neither. So no validator of either kind disagrees
with what is accepted. The pattern is rewritten for ``regex.compile_pattern`` accordingly.
"""

from __future__ import annotations

import re
import warnings

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata import dfa
from ..automata.nfa import Nfa, star
from ..automata.utf8 import EVERY, Alphabet, CodePoints, negate, normalize
from ..automata.work import MAX_WORK, metered, spend
from ..regex.characters import all_characters
from ..regex.constraint import compile_pattern
from .text import spelled

MAX_PATTERN = 20_000
ECMA_SPACE = normalize(
    [(9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)]
    + [(c, c) for c in (0x202F, 0x205F, 0x3000, 0xFEFF)]
)
PYTHON_SPACE = normalize([*((a, b) for a, b in ECMA_SPACE if a != 0xFEFF), (0x1C, 0x1F), (0x85, 0x85)])
UNICODE = frozenset("dDwW")
"""Letters of the classes of which Python has more characters than ECMA-262."""
LINE_ENDS = normalize([(10, 10), (13, 13), (0x2028, 0x2029)])


@metered(maxsize=256, most=MAX_WORK)
def matching(pattern: str, sign: bool, alphabet: Alphabet = spelled) -> Nfa:
    """The insides of strings in which the pattern is (or is not) found, whose characters are written as the alphabet says:
    by default those of JSON. Raises ``UnsupportedConstraint``."""
    found = None
    body = BODY if alphabet is spelled else dfa.minimize(star(alphabet(EVERY)))
    for boundary, brackets in readings(pattern):
        text = translate(pattern, over=not sign, boundary=boundary, brackets=brackets)
        one = dfa.minimize(compile_pattern(text, 0, alphabet, ecma_search=True), limit=MAX_PATTERN)
        if not sign:
            one = dfa.minimize(dfa.difference(body, one))
        found = one if found is None else dfa.minimize(dfa.intersect(found, one))
    assert found is not None
    return found


def readings(pattern: str) -> list[tuple[str, bool]]:
    """The readings whose difference no rewriting covers: word boundaries by ASCII ("a") or Unicode ("u") letters; whether
    ``]`` right after ``[`` or ``[^`` is a member of the class (Python's, if Python can read the pattern so) or ends it
    (ECMA-262: ``[]`` matches nothing, ``[^]`` any character)."""
    boundaries = ("a", "u") if re.search(r"\\[bB]", pattern) else ("a",)
    brackets = (False, True) if re.search(r"\[\^?\]", pattern) and is_python(pattern) else (False,)
    return [(boundary, reading) for boundary in boundaries for reading in brackets]


def is_python(pattern: str) -> bool:
    """Whether Python's ``re`` can read the pattern."""
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def readable(pattern: str, sign: bool, path: str) -> None:
    """Raises ``UnsupportedConstraint`` or ``TooManyStates`` with the path for a pattern that cannot be compiled."""
    try:
        matching(pattern, sign)
    except UnsupportedConstraint as error:
        raise UnsupportedConstraint(str(error), path=path) from None
    except TooManyStates as error:
        raise TooManyStates(f"{error}; say it with shorter repeats", limit=error.limit, path=path) from None


def is_as_written(pattern: str, sign: bool) -> bool:
    """Whether :func:`matching` is exactly what ECMA-262 makes of the pattern, which the specification names, and ``re`` but for
    the ends of lines (``.``, ``$``). May say no where only the text of the pattern shows a difference."""
    if len(readings(pattern)) > 1 or UNICODE & {*re.findall(r"\\(.)", pattern, re.DOTALL)}:
        return False
    under, over = (translate(pattern, over=reading) for reading in (False, True))
    if (under if sign else over) != translate(pattern, over=None):
        return False
    dots = r"[^\n]", r"[^\n\r\u2028\u2029]"
    return under.replace(*dots) == over.replace(r"\n?$", "$").replace(*dots)


def translate(pattern: str, over: bool | None, boundary: str = "a", brackets: bool = False) -> str:
    """The pattern for ``re`` with ASCII classes, such that a match means a match for both readings; with ``over``, such
    that a match for either reading is a match; with ``None``, as ECMA-262 alone reads it. ``boundary``, ``brackets``: see
    :func:`readings`."""
    out: list[str] = []
    groups: list[bool] = []  # for each open group whether it is a negative look-ahead
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            text, i = escape(pattern, i, over, boundary)
            out.append(text)
            continue
        if c == "[":
            text, i = char_class(pattern, i, over, brackets)
            out.append(text)
            continue
        if c == "(":
            negative = pattern.startswith("(?!", i)
            groups.append(negative)
            over = turned(over, negative)
            if pattern.startswith("(?<", i) and pattern[i + 3 : i + 4] not in ("=", "!"):
                c, i = "(?P<", i + 2
        elif c == ")" and groups:
            over = turned(over, groups.pop())
        elif c == ".":
            c = r"[^\n]" if over else r"[^\n\r\u2028\u2029]"
        elif c == "$" and over:
            c = r"\n?$"
        out.append(c)
        i += 1
    return "".join(out)


def turned(over: bool | None, negative: bool) -> bool | None:
    """Which reading is meant inside of a negation."""
    return over if over is None else over ^ negative


def classes(letter: str, over: bool | None) -> CodePoints:
    """The characters of ``\\d``, ``\\w``, ``\\s`` and their complements."""
    if letter.isupper():
        return negate(classes(letter.lower(), turned(over, True)))
    if letter == "s" and over is None:
        return ECMA_SPACE
    if letter == "s":
        both = normalize((a, b) for a, b in ECMA_SPACE if a != 0xFEFF)
        return normalize([*ECMA_SPACE, *PYTHON_SPACE]) if over else both
    ascii_only = normalize([(48, 57)] if letter == "d" else [(48, 57), (65, 90), (95, 95), (97, 122)])
    return unicode_class(letter) if over else ascii_only


@metered(maxsize=2)
def unicode_class(letter: str) -> CodePoints:
    """The characters of ``\\d`` or ``\\w`` as Python has them for Unicode."""
    spend(60_000)
    return normalize((m.start(), m.end() - 1) for m in re.finditer(rf"\{letter}+", all_characters()))


def ranges(points: CodePoints) -> str:
    """Code points as the inside of a character class."""
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in points)


def escape(pattern: str, i: int, over: bool | None, boundary: str = "") -> tuple[str, int]:
    """What the escape at ``i`` becomes outside of a class (``boundary`` given) or inside, and the place after it."""
    c = pattern[i + 1]
    if c in "dDwWsS":
        inner = ranges(classes(c, over))
        return (f"[{inner}]" if boundary else inner), i + 2
    if found := re.compile(r"\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)").match(pattern, i):
        high, low = int(found[1], 16), int(found[2], 16)
        return f"\\U{0x10000 + (high - 0xD800 << 10) + low - 0xDC00:08x}", found.end()
    if found := re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}").match(pattern, i):
        return f"\\U{int(found[1], 16):08x}", found.end()
    if found := re.compile(r"\\c([a-zA-Z])").match(pattern, i):
        return f"\\x{ord(found[1]) % 32:02x}", found.end()
    if c == "0":
        return r"\x00", i + 2
    if c in "bB" and boundary == "u":
        return f"(?u:\\{c})", i + 2
    if c.isalnum() and c.isascii() and (c in "bBfnrtvxupPAZGKRXQEU" or c.isdigit() or c in "kN"):
        return pattern[i : i + 2], i + 2
    return re.escape(c), i + 2


def char_class(pattern: str, start: int, over: bool | None, brackets: bool = False) -> tuple[str, int]:
    """What the class at ``start`` becomes, and the place after it. ``brackets``: its first character may be ``]``."""
    i, negative = start + 1, pattern.startswith("^", start + 1)
    i += negative
    first = i
    over = turned(over, negative)
    out: list[str] = []
    while i < len(pattern) and (pattern[i] != "]" or (brackets and i == first)):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            is_class = pattern[i + 1] in "dDwWsS"
            text, i = escape(pattern, i, over)
            out.append(text)
            if is_class and pattern[i : i + 1] == "-":
                out.append(r"\-")
                i += 1
            continue
        if c == "-" and re.compile(r"-\\[dDwWsS]").match(pattern, i):
            c = r"\-"
        elif c in "[]&~|" or (c == "-" and out and out[-1].endswith("-") and not out[-1].endswith(r"\-")):
            c = "\\" + c
        out.append(c)
        i += 1
    if i >= len(pattern):
        return pattern[start:], len(pattern)  # not closed: the parser says so
    inside = "".join(out)
    if not inside:
        return ("(?s:.)" if negative else "(?!)"), i + 1
    return f"[{'^' if negative else ''}{inside}]", i + 1


BODY = dfa.minimize(compile_pattern(r"(?s:.*)", 0, spelled))
