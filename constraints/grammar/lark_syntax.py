"""Lark's notation with llguidance's additions: from the text of a grammar to a tree of its statements.

A value of JSON after ``%json``, ``%regex`` and ``%llguidance``, and a grammar in braces after ``%lark``, are one token each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ...errors import TractileError, UnsupportedConstraint

NOTATION = r"""
    start: (_NL | statement _NL)*
    ?statement: definition | "%override" definition -> override | "%extend" definition -> extend
        | "%ignore" choice -> ignore | "%declare" NAME+ -> declare | OPTIONS -> options
        | "%import" path -> import | "%import" path "->" NAME -> import
        | "%import" path "(" NAME ("," NAME)* ")" -> import_several
    path: NAME ("." NAME)* | "." NAME ("." NAME)* -> relative
    definition: ("?" | "!")* NAME attributes parameters ("." NUMBER)? ":" choice
    attributes: ("[" (attribute ("," attribute)*)? "]")?
    attribute: NAME ("=" (value | NUMBER))?
    parameters: ("{" NAME ("," NAME)* "}")?
    choice: alias ("|" alias)*
    ?alias: both | both "->" NAME -> alias
    ?both: series | series ("&" series)+ -> both
    series: item*
    ?item: atom | item "?" -> optional | item TIMES -> times
    ?atom: value | "(" choice ")" | "[" choice "]" -> optional | "~" atom -> other | TOKEN -> token
    ?value: STRING -> string | STRING ".." STRING -> range | REGEXP -> regexp | NAME -> call
        | NAME "{" value ("," value)* "}" -> template | JSON -> json | PIECES -> pieces | GRAMMAR -> grammar
    %declare _NL NAME NUMBER STRING REGEXP TIMES TOKEN JSON PIECES GRAMMAR OPTIONS
"""
TOKENS = re.compile(
    r"""(?P<BLANK>[ \t]*(?://|\#)[^\n]* | [ \t]+ | \\[ ]*\n) | (?P<_NL>\r?\n)
    | (?P<STRING>"(?:\\.|[^"\\\n])*"i?) | (?P<REGEXP>/(?!/)(?:\\.|[^/\\])+/[imslux]*)
    | %(?P<JSON>json)\b | %(?P<PIECES>regex)\b | %(?P<OPTIONS>llguidance)\b | %(?P<GRAMMAR>lark)\b
    | (?P<TOKEN><[^<>\n]*>) | (?P<NAME>[A-Za-z_]\w*(?:-\w+)*)
    | (?P<TIMES>[*+] | ~[ \t]*[+-]?\d+(?:[ \t]*\.\.[ \t]*[+-]?\d+)? | \{\s*(?:-?\d+\s*(?:,\s*(?:-?\d+)?\s*)?|,\s*-?\d+\s*)\})
    | (?P<NUMBER>[+-]?\d+(?:\.\d+)?) | (?P<REFUSED>::|%if\b|@[\w-]+) | %[a-z]+ | -> | \.\. | .""",
    re.VERBOSE,
)
PARAMETERS = (
    "rules with a parameter (rule::_, %if) are not read: write a rule for each value of the parameter"
)


def lark_package() -> Any:
    """Import the ``lark`` package. Raises ``TractileError`` if it is not installed."""
    try:
        import lark
    except ImportError:
        raise TractileError("Lark grammars are read with lark: pip install lark") from None
    return lark


@lru_cache(maxsize=1)
def notation() -> tuple[Any, dict[str, str]]:
    """Return the parser of the notation, and the names of its keywords and signs."""
    parser = lark_package().Lark(NOTATION, parser="lalr")
    return parser, {each.pattern.value: each.name for each in parser.terminals if each.pattern is not None}


def parsed(text: str) -> Any:
    """Return the tree of a grammar. Raises ``UnsupportedConstraint`` with the line."""
    lark = lark_package()
    parser = notation()[0].parse_interactive()
    token = None
    try:
        for token in tokens(text):
            parser.feed_token(token)
        return parser.feed_eof(token)
    except lark.exceptions.UnexpectedToken as error:
        what = f"the grammar cannot be read: {str(error.token)!r} cannot stand here"
        raise refused(what, error) from None


def first_token(tree: Any) -> Any:
    """Return the token with which a tree begins."""
    return next(tree.scan_values(lambda _: True))


def refused(what: str, token: Any) -> UnsupportedConstraint:
    """Return the error for the construct at a token."""
    return UnsupportedConstraint(what, path=f"line {token.line}")


def tokens(text: str) -> Iterator[Any]:
    """Yield the tokens of a grammar. A statement ends with its line, unless a bracket is open, or ``|`` or ``:`` follows."""
    at, line, depth, newline = 0, 1, 0, None
    while at < len(text):
        token, end = token_at(text, at, line)
        if token.type == "_NL":
            newline = newline or token
        elif token.type != "BLANK":
            if newline is not None and depth <= 0 and token not in ("|", ":"):
                yield newline
                depth = 0
            depth, newline = depth + (token in ("(", "[", "{")) - (token in (")", "]", "}")), None
            yield token
        line += text.count("\n", at, end)
        at = end
    yield newline or lark_package().Token("_NL", "", line=line)


def token_at(text: str, at: int, line: int) -> tuple[Any, int]:
    """Return the token at a position, and the position after it."""
    match = TOKENS.match(text, at)
    assert match is not None
    found, end, value = match[0], match.end(), None
    kind = match.lastgroup or notation()[1].get(found, found)
    begin = end + len(text[end:]) - len(text[end:].lstrip())
    if kind in ("JSON", "PIECES", "OPTIONS"):
        try:
            value, end = json.JSONDecoder().raw_decode(text, begin)
        except json.JSONDecodeError as error:
            raise UnsupportedConstraint(
                f"no JSON follows {found}: {error.msg}", path=f"line {line}"
            ) from None
    elif kind == "GRAMMAR":
        value, end = in_braces(text, begin, line)
    token = lark_package().Token(kind, found, line=line)
    if kind == "REFUSED":
        other = f"{found} refers to another grammar: write its rules in %lark {{…}}"
        raise refused(other if found[0] == "@" else PARAMETERS, token)
    token.value = value if value is not None else found
    return token, end


def in_braces(text: str, at: int, line: int) -> tuple[str, int]:
    """Return the grammar in the braces at a position, after as many empty lines as precede it, and the position after it."""
    begin, depth = at, 0
    while at < len(text):
        token, end = token_at(text, at, line + text.count("\n", begin, at))
        depth += (token == "{") - (token == "}")
        if depth <= 0:
            break
        at = end
    if depth or at == begin or at == len(text):
        raise UnsupportedConstraint("no grammar in braces follows %lark", path=f"line {line}")
    return "\n" * (line - 1) + text[begin + 1 : at] + "\n", end


def counts(token: Any) -> tuple[int, int | None]:
    """Return the fewest and the most repetitions of ``*``, ``+``, ``~n``, ``~n..m``, ``{n}``, ``{n,}``, ``{,m}`` or ``{n,m}``."""
    if token in ("*", "+"):
        return int(token == "+"), None
    separator = "," if token[0] == "{" else ".."
    low, several, high = (part.strip() for part in token.strip("~{}").partition(separator))
    least = int(low or 0)
    most = (int(high) if high else None) if several else least
    if least < 0 or (most is not None and most < least):
        raise refused(f"{token} is no range of counts", token)
    return least, most
