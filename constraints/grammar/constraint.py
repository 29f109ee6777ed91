"""Lark, GBNF and EBNF grammars as constraints: ``readers.py`` and ``lark_reader.py`` read them, ``rules.py`` compiles them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal

from ...errors import EmptyLanguage, FormatError, UnsupportedConstraint
from .. import given, narrowing
from ..automata.lazy import explore
from ..automata.work import limited, spend
from ..constraint import Constraint
from ..narrowing import Narrowing, OnNarrowed
from .lark_reader import read_lark
from .readers import read_bnf
from .rules import compile_rules
from .terminals import Places
from .tree import Rules

SYNTAXES = ("lark", "gbnf", "ebnf")
MOST_EXPLORED = 20_000
WORDS = re.compile(r"""\w+|"[^"\n]*"|'[^'\n]*'|[^\s\w"']+|["']""")


def grammar(
    text: str | os.PathLike[str],
    *,
    syntax: Literal["lark", "gbnf", "ebnf"] = "lark",
    start: str | None = None,
    max_depth: int | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """The texts of a context-free grammar, with rules within themselves at most ``max_depth`` deep.

    ``max_depth=None`` takes the largest depth up to 3 that fits the limits. Where a depth leaves texts out, ``narrowed`` of
    the constraint names the rules; ``on_narrowed``: "warn" logs that once, unless ``max_depth`` is given, "error" raises
    ``UnsupportedConstraint``, "ignore" says nothing.

    ``text`` is the grammar, or the path of its file. ``start`` is the rule to begin with (default: ``start`` in Lark,
    ``root`` in GBNF, the first rule in EBNF). Rules that call themselves only at their right end, or only at their left, are
    compiled exactly, without a bound; so are chains such as ``a + b + c``. Only calls with something on both sides count
    as depth.

    Lark: as its Earley parser with ``lexer="dynamic_complete"`` reads texts; what the grammar ignores may stand between
    terminals; terminals with lazy repeats end at their first match. Needs the extra ``tractile[grammars]``.

    Raises ``UnsupportedConstraint`` with the line for what cannot be read, rules that are not defined, are defined twice or
    never end; ``EmptyLanguage`` if no text is shallow enough; ``FormatError`` for a missing file; ``TooManyStates``.
    """
    narrowing.check_choice(on_narrowed)
    chosen = [] if max_depth is None else ["max_depth"]
    if max_depth is not None:
        max_depth = given.count(max_depth, "max_depth", 0, given.MOST_DEPTH)
    try:
        with limited():
            rules, first, places = read_grammar(text, syntax, start)
            if rules.commits:
                return explored(text, start, on_narrowed)
            compiled = compile_rules(rules, first, max_depth)
            found = places.resolve(compiled.automaton)
            if found.is_empty:
                raise EmptyLanguage("the grammar has no text: its terminals never stand where they may")
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    why = "an automaton follows rules that call themselves with text on both sides to a depth only"
    cut = (
        Narrowing(path=rule, keyword="max_depth", asked="any depth", given=compiled.depth, why=why)
        for rule in compiled.cut
    )
    narrowed = narrowing.merged(rules.narrowed, cut)
    narrowing.report(narrowed, on_narrowed, chosen)
    return Constraint(found, narrowed)


def explored(text: str | os.PathLike[str], start: str | None, on_narrowed: OnNarrowed) -> Constraint:
    """The constraint of a Lark grammar whose language is finite in its configurations."""
    from .lazy import lazy_grammar

    automaton, narrowed = lazy_grammar(text, start=start, on_narrowed=on_narrowed)
    return Constraint(explore(automaton, MOST_EXPLORED), narrowed)


def read_grammar(text: str | os.PathLike[str], syntax: str, start: str | None) -> tuple[Rules, str, Places]:
    """The rules of a grammar, the rule to begin with, and the marks of its terminals: the arguments of :func:`grammar`."""
    if syntax not in SYNTAXES:
        raise UnsupportedConstraint(f"the syntax is one of {list(SYNTAXES)}, not {syntax!r}", path="syntax")
    start = start and given.text(start, "start")
    if isinstance(text, os.PathLike) or (
        isinstance(text, str) and text.endswith((".lark", ".gbnf", ".ebnf"))
    ):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"the grammar cannot be read: {error}") from None
    if not isinstance(text, str):
        raise FormatError(f"a grammar is a text or the path of a file, not {given.short(text)}")
    given.text(text, "text")
    spend(2 * len(text) + 25 * sum(1 for _ in WORDS.finditer(text)))  # for reading it
    if syntax == "lark":
        rules, places = read_lark(text, start or "start")
        return rules, "" if "" in rules.rules else start or "start", places
    rules = read_bnf(text, syntax)
    return rules, start or ("root" if syntax == "gbnf" else next(iter(rules.rules))), Places()
