"""The notations of GBNF (llama.cpp) and plain EBNF, and the expressions of their parse trees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...errors import TractileError, UnsupportedConstraint
from ..automata import utf8
from ..program import nodes, tables
from ..regex.constraint import regex
from .expressions import Reader
from .tree import Call, Expression, Repeat, Series, Text, Without, text_of

GBNF = r"""
    start: rule+
    rule: HEAD choice
    choice: series ("|" series)*
    series: item*
    ?item: atom | atom TIMES -> times
    ?atom: STRING -> string | CLASS -> char_class | "." -> any_char | NAME -> call | "(" choice ")" | TOKEN -> token
         | "(=" choice ")" -> lookahead
    HEAD.2: /[\w-]+\s*::=/
    NAME: /[\w-]+/
    STRING: /"(\\.|[^"\\])*"/
    CLASS: /\[(\\.|[^\]\\])*\]/
    TIMES: /[*+?]|\{\s*\d*\s*(,\s*(\d*|-1)\s*)?\}/
    TOKEN.3: /!?<[^>\n]*>/
    %ignore /\s+|#[^\n]*/
"""
EBNF = r"""
    start: rule+
    rule: HEAD choice (";" | ".")?
    choice: series ("|" series)*
    series: (term ","?)*
    ?term: item | term "-" item -> without
    ?item: atom | atom TIMES -> times | COUNT atom -> counted
    ?atom: STRING -> string | STRING ".." STRING -> char_range | REGEX -> regex | NAME -> call
         | "(" choice ")" | "[" choice "]" -> optional | "{" choice "}" -> many
    HEAD.2: /(<[^<>\n]+>|[a-zA-Z_][\w-]*)\s*(::=|:=|=|:)/
    NAME: /<[^<>\n]+>|[a-zA-Z_][\w-]*/
    STRING: /"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/
    REGEX: /\/(?!\*)(\\.|[^\/\\\n])+\//
    COUNT: /\d+\s*\*/
    TIMES: /[*+?]/
    %ignore /\s+|#[^\n]*|\/\*([^*]|\*(?!\/))*\*\/|\(\*([^*]|\*(?!\)))*\*\)/
"""
MACROS = {
    "Regex": 'syntax="ebnf" has /…/, and Lark too',
    "Substring": 'write %regex {"substring_chunks": […]} in Lark',
    "TagDispatch": "tt.constraints.structural_tag with triggered_tags reads free text with tags",
    "TokenTagDispatch": "tt.constraints.structural_tag with triggered_tags reads free text with tags",
    "Token": "write <[7]> for the token 7",
    "ExcludeToken": "write !<[7]> for any token but 7",
}
"""The macros of xgrammar's EBNF, and what to write instead."""
ATTRIBUTES = (
    "an attribute of a rule (rule[max_tokens=5] ::= …)",
    "Lark has rule[max_tokens=5]: …, rule[lazy]: …",
)
EXTENSION = re.compile(
    r"""#[^\n]*|"(?:\\.|[^"\\])*"|(?P<attribute>^[ \t]*[\w-]+\[[^\]\n]*\]\s*::=)|\[(?:\\.|[^\]\\])*\]"""
    rf"""|\b(?P<macro>{"|".join(MACROS)})\(""",
    re.MULTILINE,
)
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|([^\\])", re.DOTALL)
SHORT = dict(zip("nrt0abfve", "\n\r\t\0\a\b\f\v\x1b", strict=True))
PLAIN = "\\\"'[]^-/?"


def lark_package() -> Any:
    """Import the ``lark`` package. Raises ``TractileError`` if it is not installed."""
    try:
        import lark
    except ImportError:
        raise TractileError('grammars are read with lark: pip install "tractile[grammars]"') from None
    return lark


# ---------------------------------------------------------------- GBNF and EBNF


def head_name(head: str) -> str:
    """Return the name of the rule that ``name ::=`` begins."""
    return re.sub(r"\s*(::=|:=|=|:)$", "", head)


def refuse_extensions(text: str) -> None:
    """Raise ``UnsupportedConstraint`` for what xgrammar adds to GBNF: macros, and attributes of rules."""
    for found in EXTENSION.finditer(text):
        if found["macro"] or found["attribute"]:
            line = f"line {text.count(chr(10), 0, found.start()) + 1}"
            what, instead = (found["macro"], MACROS[found["macro"]]) if found["macro"] else ATTRIBUTES
            raise UnsupportedConstraint(f"{what} is not read: {instead}", path=line)


class BnfReader(Reader):
    """A reader of the rules of GBNF or EBNF."""

    def other(self, tree: Any, given: Mapping[Any, Call]) -> Expression:
        """Return the expression of a tree that Lark's notation does not have, or not with this meaning."""
        match tree.data, tree.children:
            case "many", [part]:
                return Repeat(self.expression(part, given), 0, None)
            case "counted", [token, part]:
                times = int(token.rstrip("* \t\n"))
                return Repeat(self.expression(part, given), times, times)
            case "without", [part, minus]:
                return Without(self.expression(part, given), self.expression(minus, given), tree.meta.line)
            case "lookahead", _:  # a hint of what follows the rule, which reads nothing
                return Series([])
            case "call", [name]:
                return Call(str(name), name.line)
            case "string", [token]:
                return self.word(unescaped(token[1:-1], token.line), token.line)
            case "char_range", [first, last]:
                low, high = (unescaped(token[1:-1], token.line) for token in (first, last))
                if not len(low) == len(high) == 1 or low > high:
                    what = f"{first}..{last} is no range of characters"
                    raise UnsupportedConstraint(what, path=f"line {first.line}")
                return text_of(utf8.utf8(utf8.normalize([(ord(low), ord(high))])))
            case "regex", [token]:
                try:
                    return text_of(regex(token[1:-1]).nfa)
                except UnsupportedConstraint as error:
                    raise UnsupportedConstraint(str(error), path=f"line {token.line}") from None
            case "char_class", [token]:
                return text_of(utf8.utf8(char_class(token)))
        return text_of(utf8.utf8(utf8.EVERY))

    def word(self, text: str, line: int) -> Expression:
        """Return the expression of one text."""
        return Text(nodes.lex(tables.of_text(text.encode())))

    def counts(self, token: Any) -> tuple[int, int | None]:
        """Return the fewest and the most repetitions of ``* + ?`` or ``{low,high}``."""
        if token in "*+?":
            return int(token == "+"), 1 if token == "?" else None
        low, comma, high = (part.strip() for part in token[1:-1].partition(","))
        most = (int(high) if high.isdigit() else None) if comma else int(low or 0)  # {2,} and {2,-1}
        return int(low or 0), most


def unescaped(text: str, line: int) -> str:
    """Return a text with its escapes decoded."""
    found = ""
    for match in ESCAPE.finditer(text):
        *codes, letter, plain = match.groups()
        code = next((c for c in codes if c), None)
        if code is not None and int(code, 16) <= 0x10FFFF:
            found += chr(int(code, 16))
        elif plain or (letter and letter in PLAIN):
            found += plain or letter
        elif letter in SHORT:
            found += SHORT[letter]
        else:
            raise UnsupportedConstraint(f"unknown escape {match[0]!r}", path=f"line {line}")
    return found


def char_class(token: Any) -> utf8.CodePoints:
    """Return the characters of ``[a-z\\n]`` or ``[^…]``."""
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
    return utf8.negate(points) if negated else points
