"""Rewrite what ECMA-262 and Rust's ``regex`` read and ``re`` does not to the syntax of ``re``.

    (?<name>…)  →  (?P<name>…)      \\z  →  \\Z      \\x{41}  →  \\U00000041      \\p{…}, set operations  →  classes

A pattern that ``re`` reads keeps the meaning of ``re`` and is not rewritten. ``properties.py`` spells out classes.
"""

from __future__ import annotations

import re

from ...errors import UnsupportedConstraint
from .properties import CODE, PROPERTY, class_at, code_point, spelled_out

CLASS_FLAGS = re.IGNORECASE | re.ASCII
"""The flags that decide which characters a class has."""
PIECE = re.compile(
    rf"""(?P<flags>\(\?[aiLmsux]*(?:-[imsx]+)?[:)])|(?P<open>\((?:\?(?:P<\w+>|[=!>]|<[=!]))?(?!\?))|\(\?<(?P<name>\w+)>
    |(?P<comment>\(\?\#[^)]*\))|(?P<close>\))|(?P<class>\[)|(?P<property>{PROPERTY})|(?P<code>{CODE.pattern})|\\.|.""",
    re.VERBOSE | re.DOTALL,
)
REFUSED = {
    r"\(\?(?:R|&\w+|P>\w+|[+-]?\d+)\)": "a call of a group: write the group's pattern out where it is called",
    r"\(\?\((?:DEFINE\)|\?|<)": "a conditional group: write its two cases as alternatives, each with its condition",
    r"\(\?\|": "a branch reset: number the groups of each branch by themselves, with (?:…|…)",
    r"\(\*\w*": "a backtracking verb: leave it out, or write (?!) for (*FAIL)",
    r"\\[gk]<|\\g\{": "a back-reference: write the texts of the group out, each with its repetition",
    r"\\[GKRhc]": r"an escape of Perl's: write \A for \G, (?:\r\n|[\n-\r\x85\u2028\u2029]) for \R, [\t ] for \h, \x0a for \cJ",
}
"""What other dialects have, by its sign, and what to write instead."""


def re_pattern(pattern: str, flags: int = 0) -> str:
    """Translate a pattern with constructs of other dialects to the syntax of ``re``.

    Raises ``UnsupportedConstraint`` with the position for constructs of dialects that are not read.
    """
    verbose = bool(flags & re.VERBOSE or re.search(r"\(\?[aimsu]*x", pattern))
    now, outer = int(flags & CLASS_FLAGS), list[int]()  # the flags here, and outside of each open group
    out, at = list[str](), 0
    while at < len(pattern):
        if verbose and pattern[at] == "#":
            at += len(pattern[at:].partition("\n")[0])
            continue
        check(pattern, at)
        found = PIECE.match(pattern, at)
        assert found is not None
        start, at, text = at, found.end(), found[0]
        match found.lastgroup:
            case "flags":
                if text.endswith(":"):
                    outer.append(now)
                now = flags_after(text, now)
            case "open" | "name":
                outer.append(now)
                text = f"(?P<{found['name']}>" if found["name"] else text
            case "close":
                now = outer.pop() if outer else now
            case "class":
                text, at = class_at(pattern, start, now)
            case "property":
                text = spelled_out(start, text, now)
            case _ if code := CODE.fullmatch(text):
                text = code_point(code)
        out.append(r"\Z" if text == r"\z" else text)
    return "".join(out)


def check(pattern: str, at: int) -> None:
    """Raise ``UnsupportedConstraint`` for a construct at this position that is not read."""
    for sign, why in REFUSED.items() if pattern[at] in "(\\" else ():
        if re.compile(sign).match(pattern, at):
            raise UnsupportedConstraint(f"{pattern!r} has {why}", path=f"position {at}")


def flags_after(opening: str, flags: int) -> int:
    """Return the flags for classes after ``(?flags:`` or ``(?flags)``."""
    on, _, off = opening[2:-1].partition("-")
    added = re.IGNORECASE * ("i" in on) | re.ASCII * ("a" in on)
    return added | flags & ~(re.IGNORECASE * ("i" in off) | re.ASCII * ("u" in on))
