"""Rewrite syntax of other dialects, which ``re`` does not read, to the syntax of ``re``.

    (?<name>…)   (?(?=A)B|C)  →  (?:(?=A)B|(?!A)C)   (?(DEFINE)…)  →  (?:…){0}   (?|…)   \\G   \\K   \\R
    \\x{41}   \\u{1F600}   \\cJ  →  \\x0a   \\e  →  \\x1b       (in classes too)

A call of a group, ``(?&name)``, ``(?1)``, ``(?R)``, becomes a surrogate, which no text contains;
``exotic/subroutines.py`` replaces it in the tree. A pattern that ``re`` reads keeps the meaning of ``re`` and is not
rewritten.
Where dialects differ, the ``regex`` package decides.
"""

from __future__ import annotations

import re

from ...errors import UnsupportedConstraint
from .properties import CODE, PROPERTY, class_at, code_point, spelled_out

CALL = 0xD800  # plus the group's number: the surrogate that stands for a call
MOST_GROUPS = 0x7FF
CLASS_FLAGS = re.IGNORECASE | re.ASCII
"""The flags that decide which characters a class has."""
OPENING = re.compile(
    r"""(?P<leaf>\(\?(?:\#[^)]*|P=\w+|[aiLmsux]+(?:-[imsx]+)?|-[imsx]+)\))
    |(?P<call>\(\?(?:R|&\w+|P>\w+|[+-]?\d+)\))|(?P<verb>\(\*(?P<what>\w*)[^)]*\))
    |(?P<define>\(\?\(DEFINE\))|(?P<look>\(\?(?=\(\?<?[=!]))|(?P<exists>\(\?\(<?(?P<group>\w+)>?\))
    |(?P<reset>\(\?\|)|\(\?P?<(?P<name>\w+)>|(?P<other>\(\?(?:[:>=!]|<[=!]|[aiLmsux]*(?:-[imsx]+)?:))|(?P<plain>\((?!\?))""",
    re.VERBOSE,
)
ESCAPES = {r"\G": r"\A", r"\K": "", r"\z": r"\Z", r"\R": r"(?>\r\n|[\n-\r\x85\u2028\u2029])"}
REFERENCE = re.compile(r"\\[gk]<(\w+)>")


def rewritten(pattern: str, flags: int = 0) -> str:
    """Return the pattern in the syntax of ``re``.

    Raises ``UnsupportedConstraint`` with the position for constructs that are not regular or not known.
    """
    verbose = bool(flags & re.VERBOSE or re.search(r"\(\?[aimsu]*x", pattern))
    return Rewriter(pattern, verbose, flags & CLASS_FLAGS).text()


class Rewriter:
    """A recursive-descent translator that reads the pattern once from left to right."""

    def __init__(self, pattern: str, verbose: bool, flags: int) -> None:
        self.pattern, self.verbose, self.position = pattern, verbose, 0
        self.flags = flags  # in force at the current position
        self.groups, self.names = 0, dict[str, int]()
        self.calls, self.references, self.repeated = list[tuple[int, str]](), 0, False

    def text(self) -> str:
        """Return the whole pattern, rewritten."""
        out = "|".join(self.alternatives())
        if self.position < len(self.pattern):
            raise self.error("a parenthesis that nothing opens", self.position)
        if (self.calls or self.references) and self.repeated:
            raise self.error("references beside branch reset or groups of one name", 0)
        if self.calls and re.search("[\ud800-\udfff]|\\\\u[dD][89a-fA-F]", self.pattern):
            raise self.error("calls of groups beside surrogates", self.calls[0][0])
        for position, name in self.calls:
            number = self.names.get(name, -1) if not name.isdigit() else int(name)
            if not 0 <= number <= min(self.groups, MOST_GROUPS):
                raise self.error(f"a call of {name!r}, which is no group,", position)
            out = out.replace("\udfff", chr(CALL + number), 1)  # calls stand in order
        return out

    def alternatives(self) -> list[str]:
        """Rewrite the alternatives up to the end of the group or of the pattern."""
        parts = [""]
        while self.position < len(self.pattern) and self.pattern[self.position] != ")":
            if self.pattern[self.position] == "|":
                self.position += 1
                parts.append("")
            else:
                parts[-1] += self.group() if self.pattern[self.position] == "(" else self.atom()
        return parts

    def group(self) -> str:
        """Rewrite the group, call or comment at this position."""
        start, match = self.position, OPENING.match(self.pattern, self.position)
        if match is None:
            raise self.error("a group of an unknown kind", start)
        self.position = match.end()
        if match["leaf"]:
            self.references += match[0].startswith("(?P=")
            self.flags = self.flags_after(match[0])
            return match[0]
        if match["call"]:
            return self.call(start, re.sub(r"[()?&]|P>", "", match[0]))
        if match["verb"]:
            if match["what"] in ("F", "FAIL"):
                return "(?!)"
            raise self.error("backtracking verbs", start)
        if match["look"]:
            return self.conditional(start)
        opening = match[0]
        if name := match["name"]:
            opening = "(" if name in self.names else f"(?P<{name}>"
            self.repeated |= name in self.names
        if name or match["plain"]:
            self.groups += 1
            self.names.setdefault(name or "", self.groups)
        if match["exists"]:
            self.references += 1
            opening = f"(?({match['group']})"
        if match["reset"] or match["define"]:
            self.repeated |= bool(match["reset"])
            opening = "(?:"
        outside, self.flags = self.flags, self.flags_after(match[0])
        inside = "|".join(self.alternatives())
        self.close(start)
        self.flags = outside
        return f"{opening}{inside})" + ("{0}" if match["define"] else "")

    def flags_after(self, opening: str) -> int:
        """Return the flags for classes after the opening of a group, or after ``(?flags)``."""
        flags = re.fullmatch(r"\(\?([aiLmsux]*)(?:-([imsx]+))?[:)]", opening)
        on, off = (flags[1], flags[2] or "") if flags else ("", "")
        added = re.IGNORECASE * ("i" in on) | re.ASCII * ("a" in on)
        return added | self.flags & ~(re.IGNORECASE * ("i" in off) | re.ASCII * ("u" in on))

    def conditional(self, start: int) -> str:
        """Rewrite a conditional group after its ``(?``: a look-around, then one or two alternatives."""
        before = self.groups, self.references
        look = self.group()
        if (self.groups, self.references) != before:
            raise self.error("conditional groups whose condition has groups or references", start)
        yes, *no = self.alternatives()
        self.close(start)
        if len(no) > 1:
            raise self.error("conditional groups of more than two alternatives", start)
        sign = look.index("=") if look[2] == "=" or look[2:4] == "<=" else look.index("!")
        opposite = look[:sign] + ("!" if look[sign] == "=" else "=") + look[sign + 1 :]
        return f"(?:{look}{yes}|{opposite}{no[0] if no else ''})"

    def call(self, position: int, name: str) -> str:
        """Return a placeholder for the call of a group, which may be defined later."""
        if name[0] in "+-":
            name = str(self.groups + int(name) + (name[0] == "-"))
        self.calls.append((position, "0" if name == "R" else name))
        return "(?:\udfff)"

    def atom(self) -> str:
        """Rewrite the item at this position, which is no group."""
        start = self.position
        if found := re.compile(PROPERTY).match(self.pattern, start):
            self.position = found.end()
            return spelled_out(start, found[0], self.flags)
        if self.pattern[start] == "[":
            text, self.position = class_at(self.pattern, start, self.flags)
            return text
        if found := CODE.match(self.pattern, start):
            self.position = found.end()
            return code_point(found)
        if found := REFERENCE.match(self.pattern, start):
            self.position = found.end()
            self.references += 1
            return f"(?:\\{found[1]})" if found[1].isdigit() else f"(?P={found[1]})"
        if self.verbose and (found := re.compile(r"#[^\n]*").match(self.pattern, start)):
            self.position = found.end()
            return found[0]
        text = self.pattern[start : start + 2] if self.pattern[start] == "\\" else self.pattern[start]
        self.position += len(text)
        self.references += text[1:].isdigit() and text != r"\0"
        return spelled_out(start, r"[\t\p{Zs}]", 0) if text == r"\h" else ESCAPES.get(text, text)

    def close(self, start: int) -> None:
        """Consume the closing parenthesis of the group that began at ``start``."""
        if self.position >= len(self.pattern):
            raise self.error("a group that does not end", start)
        self.position += 1

    def error(self, what: str, position: int) -> UnsupportedConstraint:
        """Return the error for an item that cannot be compiled, with its position."""
        return UnsupportedConstraint(
            f"{what} in {self.pattern!r} cannot be compiled", path=f"position {position}"
        )
