"""Lark, GBNF and EBNF grammars as constraints.

``readers.py`` and ``lark_reader.py`` read grammars; ``rules.py`` compiles them to finite automata, ``lazy.py`` to lazy ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, Literal

from ...errors import TooManyStates, UnsupportedConstraint
from .. import limits, narrowing, validation
from ..automata.lazy import explore
from ..automata.work import attempt, limited
from ..constraint import Constraint
from ..lazy_constraint import LazyConstraint, made
from ..narrowing import Narrowing, OnNarrowed
from .budgets import Budgets, check_commits
from .lazy import grammar_abstraction, lazy_rules
from .nodes import program
from .rules import GrammarCompiler, compile_rules
from .source import read_rules
from .tree import Rules


def grammar(
    text: str | os.PathLike[str],
    *,
    syntax: Literal["lark", "gbnf", "ebnf"] = "lark",
    start: str | None = None,
    tokens: Mapping[int, str] | None = None,
    max_depth: int | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept the texts of a context-free grammar.

    Rules may nest to any depth: the masks of recursive grammars are computed as a text is read. Only operations that need a
    finite automaton (``finite``, ``&``, ``~``) bound the depth, which their ``narrowed`` names. With ``max_depth`` the
    constraint itself is finite, with rules nested at most that deep. ``on_narrowed``: "warn" logs once what ``narrowed``
    says, unless ``max_depth`` is given, "error" raises ``UnsupportedConstraint``, "ignore" says nothing.

    ``text`` is the grammar, or the path of its file. ``start`` is the rule to begin with (default: ``start`` in Lark,
    ``root`` in GBNF, the first rule in EBNF). Rules that call themselves only at their right end, or only at their left, are
    compiled exactly, without a bound; so are chains such as ``a + b + c``. Only calls with something on both sides count as
    depth.

    A token that the grammar names (``<|call|>``, ``<think>``, ``<[128]>``) stands for its text; ``tokens`` gives the texts of
    those named by number. ``compile`` raises ``VocabularyMismatch`` if the vocabulary has no token of that text: special
    tokens get theirs by :meth:`~tractile.Vocabulary.with_special`. Other tokens that spell the text are allowed too.

    A rule's text takes at most n tokens where the rule has ``[max_tokens=n]`` (see
    :meth:`~tractile.constraints.Constraint.tokens`).

    Lark grammars accept what Lark's Earley parser with ``lexer="dynamic_complete"`` accepts: ignored terminals may stand
    between terminals, and terminals with lazy repeats end at their first match. All syntaxes need the extra
    ``tractile[grammars]``.

    Raises ``UnsupportedConstraint`` with the line for syntax that cannot be read, rules that are not defined, are defined
    twice or never end; ``EmptyLanguage`` if no text is shallow enough; ``FormatError`` for a missing file; ``TooManyStates``.

    Examples
    --------
    >>> import tractile as tt
    >>> pairs = tt.constraints.grammar('start: "(" start ")" | "x"')
    >>> pairs.accepts("((x))"), pairs.accepts("((x)")
    (True, False)
    """
    narrowing.check_choice(on_narrowed)
    chosen = [] if max_depth is None else ["max_depth"]
    if max_depth is not None:
        max_depth = validation.count(max_depth, "max_depth", 0, limits.DEPTH)
    tokens = validation.token_texts(tokens)
    rules, first = read_rules(text, syntax, start, tokens)
    if rules.budgets:
        parts = made(budgeted, text, syntax, start, tokens, max_depth)
        narrowing.report(parts.narrowed, on_narrowed, chosen)
        return parts
    if max_depth is None and (rules.commits or GrammarCompiler(rules).cut):
        lazy = made(unbounded, text, syntax, start, tokens)
        narrowing.report(lazy.narrowed, on_narrowed)
        return lazy
    found = bounded(rules, first, max_depth)
    narrowing.report(found.narrowed, on_narrowed, chosen)
    return found


def bounded(rules: Rules, first: str, max_depth: int | None) -> Constraint:
    """Return the constraint of a grammar with rules nested at most ``max_depth`` deep.

    ``max_depth=None``: the largest depth up to 3 that fits the limits.
    """
    try:
        with limited():
            compiled = compile_rules(rules, first, max_depth)
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    why = "an automaton follows rules that call themselves with text on both sides to a depth only"
    cut = (
        Narrowing(path=rule, keyword="max_depth", asked="any depth", given=compiled.depth, why=why)
        for rule in compiled.cut
    )
    return Constraint(compiled.automaton, narrowing.merged(rules.narrowed, cut))


def budgeted(
    text: str | os.PathLike[str],
    syntax: Any,
    start: str | None,
    tokens: Mapping[int, str],
    max_depth: int | None,
) -> LazyConstraint:
    """Return the constraint of a grammar in which the tokens of some rules are counted."""
    rules, first = read_rules(text, syntax, start, tokens)

    def plain(rules: Rules, first: str) -> Constraint:
        if max_depth is not None or not GrammarCompiler(rules).cut:
            return bounded(rules, first, max_depth)
        automaton, narrowed = lazy_rules(rules, first)
        return LazyConstraint(automaton, narrowed, lambda: bounded(rules, first, None))

    try:
        with limited():
            if rules.commits:
                check_commits(rules, first)
            found = Budgets(replace(rules, commits=False), plain).rule(first)
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    assert isinstance(found, LazyConstraint)
    return found


def unbounded(
    text: str | os.PathLike[str], syntax: Any, start: str | None, tokens: Mapping[int, str]
) -> LazyConstraint:
    """Return the constraint of a recursive grammar with a lazy automaton.

    ``finite`` is exact if the grammar has few enough states; otherwise it has the largest depth up to 3 that fits the limits.
    """
    given = read_rules(text, syntax, start, tokens)
    automaton, narrowed = lazy_rules(*given)

    def finite() -> Constraint:
        try:
            with attempt(limits.WORK / 4):
                return Constraint(explore(automaton, limits.PART_STATES), narrowed)
        except TooManyStates:
            return bounded(*read_rules(text, syntax, start, tokens), None)

    found = LazyConstraint(automaton, narrowed, finite, partial(grammar_abstraction, automaton))
    found.program = cache(partial(program, *given))
    return found
