"""The EBNF of the W3C's specifications: ``#xN``, ``[a-z#xN-#xN]``, ``A - B``, ``/* comments */``, and no escapes.

A grammar is in this notation if it has what plain EBNF does not: a character ``#xN``, a class (``[^…]``, ``[a-z]``), or a
string that is one backslash.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ...errors import UnsupportedConstraint
from ..automata import utf8
from .notations import Token
from .readers import BnfReader
from .tree import Expression, text_of

W3C = r"""
    (?:\A|\n)[ \t]*\[\d+\w*\](?=[ \t]+[a-zA-Z_][\w-]*\s*::=) | [^\S\n]+ | \n
    | /\*(?:[^*]|\*(?!/))*\*/ | \(\*(?:[^*]|\*(?!\)))*\*\) | (?P<code>\#x[0-9a-fA-F]+) | \#[^\n]*
    | (?P<string>"[^"\n]*"|'[^'\n]*') | (?P<char_class>\[[^\]\n]+\])
    | (?P<HEAD><[^<>\n]+>|[a-zA-Z_][\w-]*)\s*(?:::=|:=|=|:) | (?P<call><[^<>\n]+>|[a-zA-Z_][\w-]*)
    | (?P<TIMES>[*+?]) | (?P<BAR>\|) | (?P<OPEN>\() | (?P<CLOSE>\)) | (?P<MINUS>-) | (?P<END>[;.])
"""
PIECE = re.compile(
    r"""/\*(?:[^*]|\*(?!/))*\*/|\(\*(?:[^*]|\*(?!\)))*\*\)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'
    |/(?:\\.|[^/\\\n])+/|(?P<code>\#x[0-9a-fA-F]+)|\#[^\n]*|\[(?P<bracket>\^?[^\]\s]+)\]""",
    re.VERBOSE,
)
RANGE = re.compile(r"(?=.*[^\W_]-[^\W_])(?:[^\W_]-[^\W_]|_|\W)+")
BACKSLASH = re.compile(r"""(["'])\\\1(?=[\s)|?*+]|$)""", re.MULTILINE)
HEAD = re.compile(r"(<[^<>\n]+>|[a-zA-Z_][\w-]*)\s*(?:::=|:=|=|:)")
NOTE = re.compile(r"\[\s*(?:wfc|vc|nsc)\s*:", re.IGNORECASE)
ESCAPED = re.compile(r"\\(?:[nrtbfv0\\\"']|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
ESCAPED_IN_CLASS = re.compile(r"\\(?:[nrtdDwWsS]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
ELEMENT = re.compile(r"(#x[0-9a-fA-F]+|[^\n])(?:-(#x[0-9a-fA-F]+|[^\n]))?")


def is_w3c(text: str) -> bool:
    """Return whether an EBNF grammar has a sign of the W3C's notation."""
    heads = set(HEAD.findall(text))
    for found in PIECE.finditer(text):
        bracket = found["bracket"]
        if found["code"] or (bracket and bracket not in heads and is_class(bracket)):
            return True
    return bool(BACKSLASH.search(text))


def is_class(bracket: str) -> bool:
    """Return whether what stands in square brackets is a class of characters, and no optional part."""
    quoted = '"' in bracket or "'" in bracket
    return bracket[0] == "^" or "#x" in bracket or (not quoted and RANGE.fullmatch(bracket) is not None)


class W3cReader(BnfReader):
    """A reader of the rules of a W3C grammar. ``heads``: the names of its rules."""

    def __init__(self, tokens: Mapping[int, str], heads: Collection[str]) -> None:
        super().__init__(tokens)
        self.heads = heads

    def leaf(self, token: Token) -> Expression:
        """Return the expression of a string, a class or a character; what else there is is as in EBNF."""
        match token.kind:
            case "string":
                refuse_escapes(ESCAPED, token)
                return self.word(token[1:-1], token.line)
            case "code":
                code = code_point(token, token.line)
                return text_of(utf8.utf8(utf8.normalize([(code, code)])))
            case "char_class":
                return text_of(utf8.utf8(self.characters(token)))
        return super().leaf(token)

    def characters(self, token: Token) -> utf8.CodePoints:
        """Return the characters of a class. Raises ``UnsupportedConstraint`` for brackets that may mean an optional part."""
        where, body = f"line {token.line}", token[1:-1]
        if NOTE.match(token):
            raise UnsupportedConstraint(
                f"{token} is a constraint in words: write it as rules, or leave it out", path=where
            )
        if body in self.heads or any(each.isspace() for each in body):
            raise UnsupportedConstraint(
                f"{token} is a class of characters in the W3C's notation: write (x)? for what is optional, #x20 for a blank",
                path=where,
            )
        refuse_escapes(ESCAPED_IN_CLASS, token)
        negated = len(body) > 1 and body[0] == "^"
        ranges = []
        for low, high in ELEMENT.findall(body[negated:]):
            ends = code_point(low, token.line), code_point(high or low, token.line)
            if ends[0] > ends[1]:
                raise UnsupportedConstraint(f"{low}-{high} is no range of characters", path=where)
            ranges.append(ends)
        points = utf8.normalize(ranges)
        return utf8.negate(points) if negated else points


def refuse_escapes(escaped: re.Pattern[str], token: Token) -> None:
    """Raise ``UnsupportedConstraint`` for what is an escape in other notations."""
    if found := escaped.search(token[1:-1]):
        raise UnsupportedConstraint(
            f"{found[0]} in {token}: the W3C's notation has no escapes; write the character as #xN (#xA is a new line, #x5C a "
            "backslash)",
            path=f"line {token.line}",
        )


def code_point(text: str, line: int) -> int:
    """Return the code of a character, or of ``#xN``."""
    if len(text) == 1:
        return ord(text)
    code = int(text[2:], 16) if len(text) < 12 else 0x110000
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise UnsupportedConstraint(f"{text} is no character of Unicode", path=f"line {line}")
    return code
