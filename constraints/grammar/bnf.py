"""Read grammars in GBNF, EBNF (plain or the W3C's) and ABNF as rules."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import UnsupportedConstraint
from ..narrowing import merged
from .abnf import ABNF, CORE, AbnfReader
from .notations import Parser, TokenReader
from .readers import EBNF, EXTENSIONS, GBNF, BnfReader
from .tree import Rules
from .w3c import W3C, W3cReader, is_w3c


def read_bnf(text: str, syntax: str, tokens: Mapping[int, str]) -> Rules:
    """Return the rules of a grammar; ``syntax``: "gbnf", "ebnf" or "abnf"; ``tokens``: the texts of those named by number.

    Raises ``UnsupportedConstraint`` with the line.
    """
    if syntax == "abnf":
        reader = AbnfReader(tokens)
        reader.read(*(Parser(each, ABNF, "ABNF", fewest=1) for each in (text, CORE)))
        return Rules(reader.rules, reader.lines)
    if syntax == "gbnf":
        return read(Parser(text, GBNF, "GBNF", instead=EXTENSIONS), BnfReader(tokens))
    if is_w3c(text):
        parser = Parser(text, W3C, "EBNF")
        return read(parser, W3cReader(tokens, parser.heads))
    return read(Parser(text, EBNF, "EBNF"), BnfReader(tokens))


def read(parser: Parser, reader: TokenReader) -> Rules:
    """Return the rules of a grammar. Raises ``UnsupportedConstraint`` for a rule that is defined twice."""
    for name, body in parser.rules(reader):
        if name in reader.rules:
            raise UnsupportedConstraint(
                f"the rule {str(name)!r} is defined on line {reader.lines[name]} already",
                path=f"line {name.line}",
            )
        reader.rules[str(name)], reader.lines[str(name)] = body, name.line
    return Rules(reader.rules, reader.lines, merged(reader.narrowed))
