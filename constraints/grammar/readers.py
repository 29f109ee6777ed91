"""Read GBNF (llama.cpp) and plain EBNF grammars as rules, with the ``lark`` package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ...errors import TractileError, UnsupportedConstraint
from ..automata import nfa, utf8
from ..narrowing import Narrowing, merged
from ..regex.constraint import regex
from .token_references import excludes, other_tokens, referred
from .tree import Call, Choice, Expression, Repeat, Rules, Series, Text, Without, text_of

GBNF = r"""
    start: rule+
    rule: HEAD choice
    choice: series ("|" series)*
    series: item*
    item: atom TIMES?
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
    ?term: item | item "-" item -> without
    item: atom TIMES? | COUNT atom -> counted
    ?atom: STRING -> string | STRING ".." STRING -> char_range | REGEX -> regex | NAME -> call
         | "(" choice ")" | "[" choice "]" -> optional | "{" choice "}" -> many
    HEAD.2: /(<[^<>\n]+>|[a-zA-Z_][\w-]*)\s*(::=|:=|=|:)/
    NAME: /<[^<>\n]+>|[a-zA-Z_][\w-]*/
    STRING: /"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/
    REGEX: /\/(\\.|[^\/\\\n])+\//
    COUNT: /\d+\s*\*/
    TIMES: /[*+?]/
    %ignore /\s+|#[^\n]*|\(\*([^*]|\*(?!\)))*\*\)/
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


def read_bnf(text: str, syntax: str, tokens: Mapping[int, str] | None = None) -> Rules:
    """Return the rules of a GBNF or EBNF grammar; ``tokens`` are the texts of tokens named by number.

    Raises ``UnsupportedConstraint`` with the line.
    """
    lark = lark_package()
    if syntax == "gbnf":
        refuse_extensions(text)
    try:
        tree = bnf_parser(syntax).parse(text)
    except lark.exceptions.UnexpectedInput as error:
        raise UnsupportedConstraint(
            f"the {syntax.upper()} grammar cannot be read: {short(error)}", path=f"line {error.line}"
        ) from None
    rules: dict[str, Expression] = {}
    narrowed = list(read_tokens(tree, tokens or {}))
    lines: dict[str, int] = {}
    for rule in tree.children:
        head, body = rule.children
        name = re.sub(r"\s*(::=|:=|=|:)$", "", head)
        if name in rules:
            raise UnsupportedConstraint(
                f"the rule {name!r} is defined on line {lines[name]} already", path=f"line {head.line}"
            )
        rules[name], lines[name] = expression(body), head.line
    return Rules(rules, lines, merged(narrowed))


def refuse_extensions(text: str) -> None:
    """Raise ``UnsupportedConstraint`` for what xgrammar adds to GBNF: macros, and attributes of rules."""
    for found in EXTENSION.finditer(text):
        if found["macro"] or found["attribute"]:
            line = f"line {text.count(chr(10), 0, found.start()) + 1}"
            what, instead = (found["macro"], MACROS[found["macro"]]) if found["macro"] else ATTRIBUTES
            raise UnsupportedConstraint(f"{what} is not read: {instead}", path=line)


def read_tokens(tree: Any, tokens: Mapping[int, str]) -> Iterator[Narrowing]:
    """Replace the references to tokens in a parse tree by their texts, and yield what that narrows."""
    for item in tree.find_data("item"):
        node, *times = item.children
        if node.data == "token" and excludes(node.children[0]):
            (reference,) = node.children
            texts, narrowed = referred(reference, tokens, reference.line)
            low, high = bounds(times[0]) if times else (1, 1)
            node.data, node.children = "others", [other_tokens(texts, low, high)]
            del item.children[1:]
            yield from narrowed
    for node in tree.find_data("token"):
        (reference,) = node.children
        texts, narrowed = referred(reference, tokens, reference.line)
        node.data, node.children = "texts", texts
        yield from narrowed


@lru_cache(maxsize=2)
def bnf_parser(syntax: str) -> Any:
    """Return the parser of GBNF or EBNF."""
    return lark_package().Lark(GBNF if syntax == "gbnf" else EBNF, parser="lalr", propagate_positions=True)


def short(error: Any) -> str:
    """Return the first line of a message of ``lark``."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else "a terminal or rule is not defined"


def expression(node: Any) -> Expression:
    """Return the expression of a node of the parse tree."""
    kind, parts = node.data, node.children
    if kind == "choice":
        return Choice([expression(p) for p in parts])
    if kind == "series":
        return Series([expression(p) for p in parts])
    if kind == "item":
        return Repeat(expression(parts[0]), *bounds(parts[1])) if len(parts) > 1 else expression(parts[0])
    if kind in ("optional", "many"):
        return Repeat(expression(parts[0]), 0, 1 if kind == "optional" else None)
    if kind == "counted":
        times = int(parts[0].rstrip("* \t\n"))
        return Repeat(expression(parts[1]), times, times)
    if kind == "without":
        return Without(expression(parts[0]), expression(parts[1]), node.meta.line)
    if kind == "texts":
        return Choice([text_of(nfa.literal(text.encode())) for text in parts])
    if kind == "others":
        others: Text = parts[0]
        return others
    if kind == "lookahead":  # a hint of what follows the rule, which reads nothing
        return Series([])
    token: Any = parts[0] if parts else None
    if kind == "call":
        return Call(str(token), token.line)
    if kind == "string":
        return text_of(nfa.literal("".join(unescaped(token[1:-1], token.line)).encode()))
    if kind == "char_range":
        low, high = ("".join(unescaped(t[1:-1], t.line)) for t in parts)
        if not len(low) == len(high) == 1 or low > high:
            raise UnsupportedConstraint(
                f"{parts[0]}..{parts[1]} is no range of characters", path=f"line {token.line}"
            )
        return text_of(utf8.utf8(utf8.normalize([(ord(low), ord(high))])))
    if kind == "regex":
        try:
            return text_of(regex(token[1:-1]).nfa)
        except UnsupportedConstraint as error:
            raise UnsupportedConstraint(str(error), path=f"line {token.line}") from None
    if kind == "char_class":
        return text_of(utf8.utf8(char_class(token)))
    assert kind == "any_char"
    return text_of(utf8.utf8(utf8.EVERY))


def bounds(times: str) -> tuple[int, int | None]:
    """Return the fewest and the most repetitions of ``* + ?`` or ``{low,high}``."""
    if times in "*+?":
        return int(times == "+"), 1 if times == "?" else None
    low, comma, high = (part.strip() for part in times[1:-1].partition(","))
    return int(low or 0), (int(high) if high.isdigit() else None) if comma else int(
        low or 0
    )  # {2,} and {2,-1}


def unescaped(text: str, line: int) -> list[str]:
    """Return the characters of a text with its escapes decoded."""
    found = []
    for match in ESCAPE.finditer(text):
        *codes, letter, plain = match.groups()
        code = next((c for c in codes if c), None)
        if code is not None and int(code, 16) <= 0x10FFFF:
            found.append(chr(int(code, 16)))
        elif plain or (letter and letter in PLAIN):
            found.append(plain or letter)
        elif letter in SHORT:
            found.append(SHORT[letter])
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
        low = unescaped(match[1], token.line)[0]
        high = unescaped(match[2], token.line)[0] if match[2] else low
        if low > high:
            raise UnsupportedConstraint(f"{match[0]!r} is no range of characters", path=f"line {token.line}")
        ranges.append((ord(low), ord(high)))
    points = utf8.normalize(ranges)
    return utf8.negate(points) if negated else points
