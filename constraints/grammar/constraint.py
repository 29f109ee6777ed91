"""Lark, GBNF and EBNF grammars as constraints: ``readers.py`` and ``lark_reader.py`` read them, ``rules.py`` compiles them."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...errors import EmptyLanguage, FormatError, TooManyStates, UnsupportedConstraint
from .. import given, limits, narrowing
from ..automata.lazy import explore
from ..automata.work import limited, spend
from ..constraint import Constraint
from ..lazy_constraint import LazyConstraint, made
from ..narrowing import Narrowing, OnNarrowed
from .lark_reader import read_lark
from .readers import read_bnf
from .rules import GrammarCompiler, compile_rules
from .terminals import Places
from .tree import Rules, check

SYNTAXES = ("lark", "gbnf", "ebnf")
WORDS = re.compile(r"""\w+|"[^"\n]*"|'[^'\n]*'|[^\s\w"']+|["']""")


def grammar(
    text: str | os.PathLike[str],
    *,
    syntax: Literal["lark", "gbnf", "ebnf"] = "lark",
    start: str | None = None,
    max_depth: int | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """The texts of a context-free grammar.

    Rules may lie within themselves to any depth: the masks of recursive grammars are made as a text is read. Only what needs
    a finite automaton (``finite``, ``&``, ``~``) follows them to a depth, which its ``narrowed`` names. With ``max_depth``
    the constraint itself is finite, with rules at most so deep within themselves. ``on_narrowed``: "warn" logs once what
    ``narrowed`` says, unless ``max_depth`` is given, "error" raises ``UnsupportedConstraint``, "ignore" says nothing.

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
        max_depth = given.count(max_depth, "max_depth", 0, limits.DEPTH)
    rules, first, places = read_rules(text, syntax, start)
    if max_depth is None and (rules.commits or GrammarCompiler(rules).cut):
        lazy = made(unbounded, text, syntax, start)
        narrowing.report(lazy.narrowed, on_narrowed)
        return lazy
    found = bounded(rules, first, places, max_depth)
    narrowing.report(found.narrowed, on_narrowed, chosen)
    return found


def read_rules(text: str | os.PathLike[str], syntax: str, start: str | None) -> tuple[Rules, str, Places]:
    """:func:`read_grammar`, and whether all rules are defined and end."""
    try:
        with limited():
            rules, first, places = read_grammar(text, syntax, start)
            if first not in rules.rules:
                raise UnsupportedConstraint(f"the start rule {first!r} is not defined", path="start")
            check(rules, first)
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    return rules, first, places


def bounded(rules: Rules, first: str, places: Places, max_depth: int | None) -> Constraint:
    """The constraint of a grammar by a finite automaton, with rules at most so deep within themselves (default: 3, or as deep
    as fits the limits)."""
    try:
        with limited():
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
    return Constraint(found, narrowing.merged(rules.narrowed, cut))


def unbounded(text: str | os.PathLike[str], syntax: Any, start: str | None) -> LazyConstraint:
    """The constraint of a recursive grammar. Its finite part has the largest depth up to 3 that fits the limits."""
    from .lazy import grammar_abstraction, lazy_grammar

    automaton, narrowed = lazy_grammar(text, syntax=syntax, start=start, on_narrowed="ignore")

    def finite() -> Constraint:
        try:
            return Constraint(explore(automaton, limits.PART_STATES), narrowed)
        except TooManyStates:
            return bounded(*read_rules(text, syntax, start), None)

    return LazyConstraint(automaton, narrowed, finite, partial(grammar_abstraction, automaton))


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
