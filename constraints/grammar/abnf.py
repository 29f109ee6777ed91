"""ABNF: RFC 5234 with the strings of RFC 7405 (``%s"…"``, ``%i"…"``).

Numbers (``%x41-5A``, ``%d13.10``) are Unicode code points. Names and strings are the same in either case. The core rules of
RFC 5234 (``ALPHA``, ``DIGIT``, ``CRLF`` …) are there unless the grammar defines them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...errors import UnsupportedConstraint
from ..automata import nfa, utf8
from .notations import Parser, Token, TokenReader
from .tree import Choice, Expression, Ref, Series, text_of

ABNF = r"""
    \s+ | ;[^\n]* | (?P<MORE>[a-zA-Z][\w-]*)\s*=/ | (?P<HEAD>[a-zA-Z][\w-]*)\s*= | (?P<call>[a-zA-Z][\w-]*)
    | (?P<COUNT>\d*[*\#]\d*|\d+) | (?P<string>(?:%[siSI])?"[^"\r\n]*")
    | (?P<number>%[bdxBDX][0-9a-fA-F]+(?:(?:\.[0-9a-fA-F]+)+|-[0-9a-fA-F]+)?) | (?P<prose><[^>\r\n]*>) | (?P<BAR>/)
    | (?P<OPEN>[(\[]) | (?P<CLOSE>[)\]])
"""
CORE = """
    ALPHA = %x41-5A / %x61-7A
    BIT = "0" / "1"
    CHAR = %x01-7F
    CR = %x0D
    CRLF = CR LF
    CTL = %x00-1F / %x7F
    DIGIT = %x30-39
    DQUOTE = %x22
    HEXDIG = DIGIT / "A" / "B" / "C" / "D" / "E" / "F"
    HTAB = %x09
    LF = %x0A
    LWSP = *(WSP / CRLF WSP)
    OCTET = %x00-FF
    SP = %x20
    VCHAR = %x21-7E
    WSP = SP / HTAB
"""
BASES = {"b": 2, "d": 10, "x": 16}


class AbnfReader(TokenReader):
    """A reader of the rules of ABNF."""

    def __init__(self, tokens: Mapping[int, str]) -> None:
        super().__init__(tokens)
        self.names: dict[str, str] = {}  # a name in small letters: as its rule has it

    def read(self, grammar: Parser, core: Parser) -> None:
        """Add the rules of a grammar, and those of the ``core`` that it does not define."""
        own = {head.lower() for head in grammar.heads}
        for head in (*grammar.heads, *core.heads):
            self.names.setdefault(head.lower(), str(head))
        rules = grammar.rules(self)
        rules += (rule for rule in core.rules(self) if rule[0].lower() not in own)
        options: dict[str, list[Expression]] = {}
        for head, body in rules:
            name, more = self.names[head.lower()], head.kind == "MORE"
            if more != (name in options):
                what = "has no rule to add to (=/)" if more else "is defined already: add more with =/"
                raise UnsupportedConstraint(f"{name!r} {what}", path=f"line {head.line}")
            options.setdefault(name, []).append(body)
            self.lines.setdefault(name, head.line)
        self.rules = {name: found[0] if len(found) == 1 else Choice(found) for name, found in options.items()}

    def leaf(self, token: Token) -> Expression:
        """Return the expression of a token."""
        match token.kind:
            case "call":
                return Ref(self.names.get(token.lower(), str(token)), token.line)
            case "prose":  # the name of a rule, or words, which are refused where the start needs them
                name = token[1:-1].strip().lower()
                return Ref(self.names.get(name, str(token)), token.line)
            case "number":
                return numeric_value(token)
        sensitive, text = token[:2].lower() == "%s", token[token.index('"') + 1 : -1]
        return self.word(text, token.line) if sensitive else either_case(text)

    def counts(self, token: Token) -> tuple[int, int | None]:
        """Return the fewest and the most repetitions of ``n``, ``n*``, ``*m``, ``n*m`` or ``*``."""
        if "#" in token:
            raise UnsupportedConstraint(
                f'{token} is a list of HTTP\'s RFCs, no ABNF: write element *( "," element )',
                path=f"line {token.line}",
            )
        low, star, high = token.partition("*")
        least = int(low or 0)
        most = least if not star else int(high) if high else None
        if most is not None and most < least:
            raise UnsupportedConstraint(f"{token} is no range of counts", path=f"line {token.line}")
        return least, most


def either_case(text: str) -> Expression:
    """Return the expression of a text whose letters from A to Z are in either case."""
    if not text:
        return Series([])
    points = [sorted({ord(c.lower()), ord(c.upper())}) if c.isascii() else [ord(c)] for c in text]
    return text_of(nfa.concat([utf8.utf8(utf8.normalize([(p, p) for p in each])) for each in points]))


def numeric_value(token: Token) -> Expression:
    """Return the expression of ``%x41``, ``%x41-5A`` or ``%d13.10``."""
    where, base, digits = f"line {token.line}", BASES[token[1].lower()], token[2:]
    try:
        codes = [int(each, base) for each in re.split("[.-]", digits)]
    except ValueError:
        raise UnsupportedConstraint(f"{token} has a digit that base {base} has not", path=where) from None
    if "-" in digits:
        low, high = codes
        if low > high or high > 0x10FFFF:
            raise UnsupportedConstraint(f"{token} is no range of characters", path=where)
        return text_of(utf8.utf8(utf8.normalize([(low, high)])))
    if any(code > 0x10FFFF or 0xD800 <= code <= 0xDFFF for code in codes):
        raise UnsupportedConstraint(f"{token} is no character of Unicode", path=where)
    return text_of(nfa.literal("".join(map(chr, codes)).encode()))
