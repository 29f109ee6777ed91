"""Lark, GBNF and EBNF grammars as constraints.

``readers.py`` and ``lark_reader.py`` read grammars; ``nodes.py`` writes them as programs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Literal

from .. import limits, narrowing, validation
from ..constraint import Constraint
from ..narrowing import OnNarrowed
from .nodes import program
from .source import read_rules


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

    Rules may nest to any depth. Only operations that need a finite automaton (``finite``, ``&``, ``~``) bound the depth, which
    their ``narrowed`` says. With ``max_depth`` the constraint itself is finite, with rules nested at most that deep.
    ``on_narrowed``: "warn" logs once what ``narrowed`` says, unless ``max_depth`` is given, "error" raises
    ``UnsupportedConstraint``, "ignore" says nothing.

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
    again = partial(grammar, text, syntax=syntax, start=start, tokens=tokens, on_narrowed="ignore")
    found = Constraint(program(rules, first), rules.narrowed, again)
    if max_depth is not None:
        found = found.within(max_depth)
    narrowing.report(found.narrowed, on_narrowed, chosen)
    return found
