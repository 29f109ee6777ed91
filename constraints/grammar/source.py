"""Read the rules of a grammar in any syntax, from its text or its file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ...errors import FormatError, UnsupportedConstraint
from .. import validation
from ..automata.work import limited, spend
from .lark_reader import read_lark
from .readers import read_bnf
from .tree import Rules, check

SYNTAXES = ("lark", "gbnf", "ebnf")
OTHER = re.compile(r"^\s*(?:<[^<>\n]+>|[\w-]+)\s*::=", re.MULTILINE)  # a rule in the other syntaxes
WORDS = re.compile(r"""\w+|"[^"\n]*"|'[^'\n]*'|[^\s\w"']+|["']""")


def read_rules(
    text: str | os.PathLike[str], syntax: str, start: str | None, tokens: Mapping[int, str]
) -> tuple[Rules, str]:
    """Return the rules of a grammar and its start rule. Checks that all rules are defined and end.

    The arguments are those of :func:`~.constraint.grammar`.
    """
    validation.choice(syntax, "syntax", SYNTAXES)
    start = start and validation.text(start, "start")
    if isinstance(text, os.PathLike) or (
        isinstance(text, str) and text.endswith((".lark", ".gbnf", ".ebnf"))
    ):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"the grammar cannot be read: {error}") from None
    if not isinstance(text, str):
        raise FormatError(f"a grammar is a text or the path of a file, not {validation.short(text)}")
    validation.text(text, "text")
    if syntax == "lark" and OTHER.search(text):
        raise UnsupportedConstraint(
            'rules are defined by "::=", which Lark does not have: give syntax="gbnf" (llama.cpp) or syntax="ebnf"',
            path="syntax",
        )
    try:
        with limited():
            spend(2 * len(text) + 25 * sum(1 for _ in WORDS.finditer(text)))  # the cost of parsing
            if syntax == "lark":
                first = start or "start"
                rules = read_lark(text, first, tokens)
                first = "" if "" in rules.rules else first
            else:
                rules = read_bnf(text, syntax, tokens)
                first = start or ("root" if syntax == "gbnf" else next(iter(rules.rules)))
            if first not in rules.rules:
                raise UnsupportedConstraint(f"the start rule {first!r} is not defined", path="start")
            check(rules, first)
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    return rules, first
