"""``pattern`` as ECMA-262 reads it, the norm that JSON Schema names: over code points, as with the flag ``u``.

    \\d [0-9]   \\w, \\b [0-9A-Za-z_]   \\s white space and ends of lines   . all but ends of lines   $ the end of the text

Syntax that the flag ``u`` refuses means what Python's ``re`` makes of it (``(?i)``, ``\\A``, ``{,3}``, ``[]a]``), with the
character classes above; and where that refuses it too, what ECMA-262 makes of it without the flag (``\\-``). The pattern is
rewritten for ``regex.compile_pattern`` accordingly.
"""

from __future__ import annotations

import re
import warnings

from .. import limits
from ..automata import dfa
from ..automata.nfa import Nfa, star
from ..automata.utf8 import EVERY, Alphabet, CodePoints, negate, normalize
from ..automata.work import metered
from ..regex.pattern import compile_pattern

SPACE = normalize(
    [(9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)]
    + [(c, c) for c in (0x202F, 0x205F, 0x3000, 0xFEFF)]
)
CLASSES = {"d": normalize([(48, 57)]), "w": normalize([(48, 57), (65, 90), (95, 95), (97, 122)]), "s": SPACE}
"""The characters of ``\\d``, ``\\w`` and ``\\s``."""
NO_LINE_END = r"[^\n\r\u2028\u2029]"
NO_WORD = "[^0-9A-Za-z_]"
FLAGS = re.compile(r"\(\?([aiLmsux]*)(?:-([imsx]+))?[:)]")


@metered(maxsize=256)
def matching(pattern: str, sign: bool, alphabet: Alphabet) -> Nfa:
    """Return the automaton of the string contents in which the pattern is (or is not) found.
    The alphabet encodes their characters. Raises ``UnsupportedConstraint``."""
    if sign:
        found = compile_pattern(translate(pattern), 0, alphabet, ecma_search=True)
        return dfa.minimize(found, limit=limits.PART_STATES)
    return dfa.minimize(dfa.difference(any_text(alphabet), matching(pattern, True, alphabet)))


@metered(maxsize=16)
def any_text(alphabet: Alphabet) -> Nfa:
    """Return the automaton of the contents of all strings, whose characters the alphabet encodes."""
    return dfa.minimize(star(alphabet(EVERY)))


def translate(pattern: str) -> str:
    """Rewrite a pattern for ``compile_pattern`` with ``ecma_search``.

    ``[]`` matches nothing and ``[^]`` any character. The exception is a pattern in which that leaves a lone ``]``, which the flag
    ``u`` refuses, and which Python can read: there ``]`` is the first member of the class.
    """
    text, is_strict = python_pattern(pattern, False)
    if not is_strict and re.search(r"\[\^?\]", pattern) and is_python(pattern):
        text, _ = python_pattern(pattern, True)
    return text


def is_python(pattern: str) -> bool:
    """Return whether Python's ``re`` can read the pattern."""
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def python_pattern(pattern: str, brackets: bool) -> tuple[str, bool]:
    """Rewrite a pattern for Python's parser; return it, and whether every ``]`` ends a class.
    ``brackets``: whether ``]`` may be the first member of a class."""
    out: list[str] = []
    flags, outer = frozenset[str](), list[frozenset[str]]()  # in force here, and outside of each open group
    i, is_strict = 0, True
    while i < len(pattern):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            text, i = escape(pattern, i)
            out.append(text)
            continue
        if c == "[":
            text, i = char_class(pattern, i, brackets, "i" in flags)
            out.append(text)
            continue
        if c == "(":
            found = FLAGS.match(pattern, i)
            if found is None or found[0].endswith(":"):
                outer.append(flags)
            if found is not None:
                flags = (flags | {*found[1]}) - {*(found[2] or "")}
                c = found[0]
            elif pattern.startswith("(?<", i) and pattern[i + 3 : i + 4] not in ("=", "!"):
                out.append("(?P<")
                i += 3
                continue
        elif c == ")" and outer:
            flags = outer.pop()
        elif c == "]":
            is_strict = False
        out.append(NO_LINE_END if c == "." and "s" not in flags else c)
        i += len(c)
    return "".join(out), is_strict


def ranges(points: CodePoints) -> str:
    """Return code points as the inside of a character class."""
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in points)


def escape(pattern: str, i: int, in_class: bool = False) -> tuple[str, int]:
    """Rewrite the escape at ``i``: (its text for Python, the position after it)."""
    c = pattern[i + 1]
    if c in "dDwWsS":
        points = CLASSES[c.lower()]
        if in_class:
            return ranges(negate(points) if c.isupper() else points), i + 2
        return f"[{'^' * c.isupper()}{ranges(points)}]", i + 2
    if found := re.compile(r"\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)").match(pattern, i):
        high, low = int(found[1], 16), int(found[2], 16)
        return f"\\U{0x10000 + (high - 0xD800 << 10) + low - 0xDC00:08x}", found.end()
    if found := re.compile(r"\\u\{([0-9a-fA-F]{1,6})\}").match(pattern, i):
        return f"\\U{int(found[1], 16):08x}", found.end()
    if found := re.compile(r"\\c([a-zA-Z])").match(pattern, i):
        return f"\\x{ord(found[1]) % 32:02x}", found.end()
    if c in "bB" and not in_class:
        return r"(?a:\b)" if c == "b" else r"(?a:\B|\A\Z)", i + 2  # Python finds no \B in the empty text
    if c.isalnum() and c.isascii() and (c in "bBfnrtvxupPAZGKRXQEU" or c.isdigit() or c in "kN"):
        return pattern[i : i + 2], i + 2
    return re.escape(c), i + 2


def char_class(pattern: str, start: int, brackets: bool, ignores_case: bool) -> tuple[str, int]:
    """Rewrite the character class at ``start``: (its text for Python, the position after it).

    ``brackets``: whether ``]`` may be its first character."""
    i, negative = start + 1, pattern.startswith("^", start + 1)
    i += negative
    first = i
    out: list[str] = []
    no_word = False  # \W stands apart where case is ignored: the complement of \w has letters that fold to those of \w
    while i < len(pattern) and (pattern[i] != "]" or (brackets and i == first)):
        c = pattern[i]
        if c == "\\" and i + 1 < len(pattern):
            is_class = pattern[i + 1] in "dDwWsS"
            if pattern[i + 1] == "W" and ignores_case:
                no_word, text, i = True, "", i + 2
            else:
                text, i = escape(pattern, i, in_class=True)
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
    if no_word and negative:
        return (f"(?:(?![{inside}])" if inside else "(?:") + NO_WORD.replace("^", "") + ")", i + 1
    if no_word:
        return f"(?:{NO_WORD}|[{inside}])" if inside else NO_WORD, i + 1
    if not inside:
        return ("(?s:.)" if negative else "(?!)"), i + 1
    return f"[{'^' if negative else ''}{inside}]", i + 1
