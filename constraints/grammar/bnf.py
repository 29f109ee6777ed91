"""Read grammars in GBNF, EBNF (plain or the W3C's) and ABNF as rules, with the ``lark`` package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ...errors import UnsupportedConstraint
from ..narrowing import merged
from .abnf import ABNF, CORE, AbnfReader
from .expressions import Reader
from .readers import EBNF, GBNF, BnfReader, head_name, lark_package, refuse_extensions
from .tree import Rules
from .w3c import W3C, W3cReader, is_w3c, without_numbers


def read_bnf(text: str, syntax: str, tokens: Mapping[int, str]) -> Rules:
    """Return the rules of a grammar; ``syntax``: "gbnf", "ebnf" or "abnf"; ``tokens``: the texts of those named by number.

    Raises ``UnsupportedConstraint`` with the line.
    """
    if syntax == "abnf":
        reader = AbnfReader(tokens)
        reader.read(parsed(text, syntax, ABNF), parsed(CORE, syntax, ABNF))
        return Rules(reader.rules, reader.lines)
    if syntax == "gbnf":
        refuse_extensions(text)
        return read(parsed(text, syntax, GBNF), BnfReader(tokens))
    if is_w3c(text):
        text = without_numbers(text)
        return read(parsed(text, syntax, W3C), W3cReader(tokens, text))
    return read(parsed(text, syntax, EBNF), BnfReader(tokens))


def read(tree: Any, reader: Reader) -> Rules:
    """Return the rules of a parse tree. Raises ``UnsupportedConstraint`` for a rule that is defined twice."""
    for rule in tree.children:
        head, body = rule.children
        name = head_name(head)
        if name in reader.rules:
            raise UnsupportedConstraint(
                f"the rule {name!r} is defined on line {reader.lines[name]} already", path=f"line {head.line}"
            )
        reader.rules[name], reader.lines[name] = reader.expression(body, {}), head.line
    return Rules(reader.rules, reader.lines, merged(reader.narrowed))


def parsed(text: str, syntax: str, notation: str) -> Any:
    """Return the parse tree of a grammar."""
    try:
        return bnf_parser(notation).parse(text)
    except lark_package().exceptions.UnexpectedInput as error:
        lines = str(error).strip().splitlines()
        what = lines[0].rstrip(".") if lines else "a terminal or rule is not defined"
        raise UnsupportedConstraint(
            f"the {syntax.upper()} grammar cannot be read: {what}", path=f"line {error.line}"
        ) from None


@lru_cache(maxsize=4)
def bnf_parser(notation: str) -> Any:
    """Return the parser of a notation."""
    return lark_package().Lark(notation, parser="lalr", propagate_positions=True)
