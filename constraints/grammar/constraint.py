"""Lark, GBNF, EBNF and ABNF grammars as constraints.

``bnf.py`` and ``lark_reader.py`` read grammars; ``nodes.py`` writes them as programs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...errors import FormatError, UnsupportedConstraint
from .. import limits, narrowing, validation
from ..automata.work import limited, spend
from ..constraint import Constraint
from ..narrowing import OnNarrowed
from .bnf import read_bnf
from .definitions import cost_of_parsing
from .lark_reader import LarkReader
from .layout_reader import is_indenter
from .nodes import program
from .open_rules import captures as captured
from .open_rules import open_rules
from .sources import Paths, Sources, folders_of, read
from .tree import Rules, Without, check, expressions

SYNTAXES = ("lark", "gbnf", "ebnf", "abnf")
OTHER = re.compile(r"^\s*(?:<[^<>\n]+>|[\w-]+)\s*::=", re.MULTILINE)  # a rule in the other syntaxes


def grammar(
    text: str | os.PathLike[str],
    *,
    syntax: Literal["lark", "gbnf", "ebnf", "abnf"] = "lark",
    start: str | None = None,
    tokens: Mapping[int, str] | None = None,
    import_from: Paths = None,
    declared: Mapping[str, str] | None = None,
    postlex: Any = None,
    max_depth: int | None = None,
    captures: Sequence[str] = (),
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept the texts of a context-free grammar.

    Rules may nest to any depth. Only operations that need a finite automaton (``finite``, ``&``, ``~``) bound the depth, which
    their ``narrowed`` says. With ``max_depth`` the constraint itself is finite, with rules nested at most that deep.
    ``on_narrowed``: "warn" logs once what ``narrowed`` says, unless ``max_depth`` is given, "error" raises
    ``UnsupportedConstraint``, "ignore" says nothing.

    ``text`` is the grammar, or the path of its file. ``start`` is the rule to begin with (default: ``start`` in Lark,
    ``root`` in GBNF, the first rule in EBNF and ABNF). Rules that call themselves only at their right end, or only at their
    left, are compiled exactly, without a bound; so are chains such as ``a + b + c``. Only calls with something on both sides
    count as depth.

    A token that the grammar names (``<|call|>``, ``<think>``, ``<[128]>``) stands for its text; ``tokens`` gives the texts of
    those named by number. ``compile`` raises ``VocabularyMismatch`` if the vocabulary has no token of that text: special
    tokens get theirs by :meth:`~tractile.Vocabulary.with_special`. Other tokens that spell the text are allowed too.

    Lark grammars import from the files beside them (``%import .other (A, b)``) and from the folders ``import_from``, one or
    several; ``declared`` gives the right sides of terminals that they only declare (``%declare A``), as in
    ``declared={"A": "/[a-z]+/"}``.

    ``postlex`` is an indenter, as Lark takes it (``lark.indenter.PythonIndenter()``): its INDENT and DEDENT follow the columns of
    the lines, up to 40.

    ``captures`` names rules of a grammar in GBNF, EBNF or ABNF: the value of a text (:func:`.generate`) is then a dict of what
    each stands for, as of the named groups of a pattern: the last time, in one of the text's readings; None if it does not occur.

    A rule's text takes at most n tokens where the rule has ``[max_tokens=n]`` (see
    :meth:`~tractile.constraints.Constraint.tokens`).

    Lark grammars accept what Lark's Earley parser with ``lexer="dynamic_complete"`` accepts: ignored terminals may stand
    between terminals, and terminals with lazy repeats end at their first match. They need the extra ``tractile[grammars]``.

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
    options: dict[str, Any] = {
        "syntax": syntax,
        "start": start,
        "import_from": import_from,
        "declared": declared,
        "postlex": postlex,
    }
    rules, first = read_rules(text, tokens=tokens, **options)
    found = Constraint(program(rules, first), rules.narrowed)
    found.wanted_by = partial(open_rules, rules, first)
    if max_depth is not None:
        found = found.within(max_depth)
    if captures:
        if syntax == "lark" or any(isinstance(e, Without) for e in expressions(*rules.rules.values())):
            raise UnsupportedConstraint(
                "captures are of GBNF, EBNF and ABNF without x - y; those of Lark are in the tree of Lark's own parser",
                path="captures",
            )
        if missing := [name for name in captures if name not in rules.rules]:
            raise UnsupportedConstraint(f"captures: the grammar has no rule {missing[0]!r}", path="captures")
        found.reader = partial(captured, rules, first, list(captures))
    narrowing.report(found.narrowed, on_narrowed, chosen)
    return found


def read_rules(
    text: str | os.PathLike[str],
    syntax: str = "lark",
    start: str | None = None,
    tokens: Mapping[int, str] | None = None,
    import_from: Paths = None,
    declared: Mapping[str, str] | None = None,
    postlex: Any = None,
) -> tuple[Rules, str]:
    """Return the rules of a grammar and its start rule. Checks that all rules are defined and end.

    The arguments are those of :func:`grammar`.
    """
    validation.choice(syntax, "syntax", SYNTAXES)
    start = start and validation.check_text(start, "start")
    declared = {n: validation.check_text(side, f"declared[{n!r}]") for n, side in (declared or {}).items()}
    if postlex is not None and (syntax != "lark" or not is_indenter(postlex)):
        raise UnsupportedConstraint(
            "postlex is an indenter (lark.indenter.Indenter) for a grammar in Lark's notation; what another one does to the "
            "tokens is not known",
            path="postlex",
        )
    if syntax != "lark" and (import_from or declared):
        raise UnsupportedConstraint(
            "only Lark has %import and %declare", path="import_from" if import_from else "declared"
        )
    sources = Sources(folders=folders_of(import_from))
    if isinstance(text, os.PathLike) or (
        isinstance(text, str) and text.endswith(tuple(f".{each}" for each in SYNTAXES))
    ):
        path = Path(text)
        text, sources = read(path), Sources(path.parent, sources.folders, (str(path.resolve()),))
    if not isinstance(text, str):
        raise FormatError(f"a grammar is a text or the path of a file, not {validation.short(text)}")
    text = validation.check_text(text, "text").removeprefix("\ufeff")
    if syntax == "lark" and OTHER.search(text):
        raise UnsupportedConstraint(
            'rules are defined by "::=", which Lark does not have: give syntax="gbnf" (llama.cpp) or syntax="ebnf"',
            path="syntax",
        )
    try:
        with limited():
            if syntax == "lark":
                spend(cost_of_parsing(text))
                first = start or "start"
                rules = LarkReader(text, tokens or {}, sources, declared, postlex).rules_from(first)
                first = "" if "" in rules.rules else first
            else:
                rules = read_bnf(text, syntax, tokens or {})
                first = start or ("root" if syntax == "gbnf" else next(iter(rules.rules)))
                if syntax == "abnf":  # names are the same in either case
                    first = next((name for name in rules.rules if name.lower() == first.lower()), first)
            if first not in rules.rules:
                raise UnsupportedConstraint(f"the start rule {first!r} is not defined", path="start")
            check(rules, first)
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    return rules, first
