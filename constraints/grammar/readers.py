"""The notations of GBNF (llama.cpp) and plain EBNF, and the expressions of their tokens."""

from __future__ import annotations

import re

from ...errors import UnsupportedConstraint
from ..automata import utf8
from ..automata.work import metered
from ..program import nodes, tables
from ..program.node import Node
from ..regex.constraint import regex
from .notations import Token, TokenReader
from .tree import Expression, Ref, Text, text_of

GBNF = r"""
    \s+ | \#[^\n]* | (?P<token>!?<[^>\n]*>) | (?P<HEAD>[\w-]+)\s*::= | (?P<ATTRIBUTE>[\w-]+\[[^\]\n]*\]\s*::=)
    | (?P<MACRO>(?:Regex|Substring|(?:Token)?TagDispatch|(?:Exclude)?Token)(?=\()) | (?P<call>[\w-]+)
    | (?P<string>"(?:\\.|[^"\\])*") | (?P<char_class>\[(?:\\.|[^\]\\])*\]) | (?P<any_char>\.) | (?P<BAR>\|)
    | (?P<OPEN>\(=?) | (?P<CLOSE>\)) | (?P<TIMES>[*+?]|\{\s*\d*\s*(?:,\s*(?:\d*|-1)\s*)?\})
"""
STRING = r"""(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
EBNF = r"""
    \s+ | \#[^\n]* | /\*(?:[^*]|\*(?!/))*\*/ | \(\*(?:[^*]|\*(?!\)))*\*\)
    | (?P<HEAD><[^<>\n]+>|[a-zA-Z_][\w-]*)\s*(?:::=|:=|=|:) | (?P<call><[^<>\n]+>|[a-zA-Z_][\w-]*)
    | (?P<char_range>STRING\s*\.\.\s*STRING) | (?P<string>STRING) | (?P<regex>/(?!\*)(?:\\.|[^/\\\n])+/) | (?P<COUNT>\d+\s*\*)
    | (?P<TIMES>[*+?]) | (?P<BAR>\|) | (?P<OPEN>[(\[{]) | (?P<CLOSE>[)\]}]) | (?P<MINUS>-) | (?P<COMMA>,) | (?P<END>[;.])
""".replace("STRING", STRING)
EXTENSIONS = {
    "Regex": 'syntax="ebnf" has /…/, and Lark too',
    "Substring": 'write %regex {"substring_chunks": […]} in Lark',
    "TagDispatch": "tt.constraints.structural_tag with triggered_tags reads free text with tags",
    "TokenTagDispatch": "tt.constraints.structural_tag with triggered_tags reads free text with tags",
    "Token": "write <[7]> for the token 7",
    "ExcludeToken": "write !<[7]> for any token but 7",
    "ATTRIBUTE": "Lark has rule[max_tokens=5]: …, rule[lazy]: …",
}
"""The macros of xgrammar's EBNF and attributes of rules, and what to write instead."""
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
SHORT = dict(zip("nrt0abfve", "\n\r\t\0\a\b\f\v\x1b", strict=True))
PLAIN = "\\\"'[]^-/?"


class BnfReader(TokenReader):
    """A reader of the rules of GBNF or EBNF."""

    def leaf(self, token: Token) -> Expression:
        """Return the expression of a token."""
        match token.kind:
            case "call":
                return Ref(str(token), token.line)
            case "string":
                return self.word(unescaped(token[1:-1], token.line), token.line)
            case "char_class":
                return Text(char_class(token))
            case "token":
                return self.reference(token)
            case "char_range":
                low, high = (unescaped(each[1:-1], token.line) for each in re.findall(STRING, token))
                if not len(low) == len(high) == 1 or low > high:
                    raise UnsupportedConstraint(
                        f"{token} is no range of characters", path=f"line {token.line}"
                    )
                return text_of(utf8.utf8(utf8.normalize([(ord(low), ord(high))])))
            case "regex":
                try:
                    return text_of(regex(token[1:-1]).nfa)
                except UnsupportedConstraint as error:
                    raise UnsupportedConstraint(str(error), path=f"line {token.line}") from None
        return text_of(utf8.utf8(utf8.EVERY))

    def counts(self, token: Token) -> tuple[int, int | None]:
        """Return the fewest and the most repetitions of ``* + ?`` or ``{low,high}``."""
        if token in "*+?":
            return int(token == "+"), 1 if token == "?" else None
        if token[0] != "{":  # EBNF's 2 * x
            return int(token[:-1]), int(token[:-1])
        low, comma, high = (part.strip() for part in token[1:-1].partition(","))
        most = (int(high) if high.isdigit() else None) if comma else int(low or 0)  # {2,} and {2,-1}
        return int(low or 0), most


def unescaped(text: str, line: int) -> str:
    """Return a text with its escapes decoded."""

    def decoded(match: re.Match[str]) -> str:
        *codes, letter = match.groups()
        code = next((c for c in codes if c), None)
        if code is not None and int(code, 16) <= 0x10FFFF:
            return chr(int(code, 16))
        if letter and (letter in PLAIN or letter in SHORT):
            return SHORT.get(letter, letter)
        raise UnsupportedConstraint(f"unknown escape {match[0]!r}", path=f"line {line}")

    return ESCAPE.sub(decoded, text) if "\\" in text else text


@metered(maxsize=1024)
def char_class(token: Token) -> Node:
    """Return the node of the characters of ``[a-z\\n]`` or ``[^…]``."""
    negated = token[1] == "^"
    body = token[1 + negated : -1]
    ranges = []
    for match in re.finditer(
        r"((?:\\(?:x..|u.{4}|U.{8}|.)|[^\\]))(?:-((?:\\(?:x..|u.{4}|U.{8}|.)|[^\\])))?", body, re.DOTALL
    ):
        low = unescaped(match[1], token.line)
        high = unescaped(match[2], token.line) if match[2] else low
        if low > high:
            raise UnsupportedConstraint(f"{match[0]!r} is no range of characters", path=f"line {token.line}")
        ranges.append((ord(low), ord(high)))
    points = utf8.normalize(ranges)
    return nodes.lex(tables.of_nfa(utf8.utf8(utf8.negate(points) if negated else points)))
