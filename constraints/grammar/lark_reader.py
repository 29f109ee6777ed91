"""Read grammars in Lark's format as rules.

The ``lark`` package parses them; extensions that it lacks are rewritten first (``dialect.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from ...errors import ConstructionStopped, TooManyStates, UnsupportedConstraint
from ..automata import nfa
from ..automata.nfa import Nfa
from ..automata.work import spend
from ..narrowing import merged
from .dialect import Extensions, extended
from .ignored import Ignored
from .operations import TerminalReader, json_value, structured
from .readers import lark_package, short
from .sizes import count_rules, count_terminals
from .statements import Token
from .terminals import Terminal, read_terminal
from .tree import Call, Choice, Expression, Repeat, Rules, Series, Text, mapped, text_of

IMPORTED = ("common", "lark", "python", "unicode")  # grammars that come with the package


def import_own(do_import: Callable[..., None], path: Sequence[str], base: Any, *others: Any) -> None:
    """Import from one of the package's own grammars. Raise ``UnsupportedConstraint`` for any other file."""
    if base is not None or len(path) != 1 or path[0] not in IMPORTED:
        raise UnsupportedConstraint(
            f"%import of {'.'.join(path)!r}: only {', '.join(IMPORTED)} can be imported from; write the rules into the grammar"
        )
    do_import(path, base, *others)


def read_lark(text: str, start: str, tokens: Mapping[int, str]) -> Rules:
    """Return the rules of a Lark grammar.

    Ignored terminals may stand before each terminal and at the end.
    """
    lark = lark_package()
    extensions = extended(text, tokens)
    written, text = text, extensions.text
    try:
        count_terminals(text, lark.load_grammar)
        builder = lark.load_grammar.GrammarBuilder()
        builder.do_import = partial(import_own, builder.do_import)
        builder.load_grammar(text, "<string>")
        count_rules(builder)
        keep = "*" if extensions.text is not written else set()
        definitions, expansions, ignore = builder.build().compile([start, *extensions.kept], keep)
    except (TooManyStates, ConstructionStopped):
        raise
    except lark.exceptions.UnexpectedInput as error:
        raise UnsupportedConstraint(
            f"the grammar cannot be read: {short(error)}", path=f"line {error.line}"
        ) from None
    except Exception as error:  # the package lets errors of its own regular expressions through
        raise UnsupportedConstraint(
            f"the grammar cannot be read: {short(error)}", path=place(text, str(error))
        ) from None
    standing_for = read_extensions(extensions, {t.name: t.pattern for t in definitions}, lark)
    values = {name: json_value(*schema) for name, schema in extensions.schemas.items()}
    schemas = {name: Text(node, name) for name, (node, _) in values.items()}
    narrowed = merged(*(cuts for _, cuts in values.values()), extensions.narrowed)
    named = {s.name for rule in expansions for s in rule.expansion if s.is_term}
    terminals = {
        t.name: terminal(t.pattern, t.name, text)
        for t in definitions
        if t.name not in ignore and (keep != "*" or t.name in named)
    }
    terminals |= {name: Terminal(words) for name, words in standing_for.items() if name in named}
    passed = {
        t.name: terminal(t.pattern, t.name, text, ignored=True) for t in definitions if t.name in ignore
    }
    for name in ignore:
        if name in standing_for:
            passed[name] = terminals.pop(name, Terminal(standing_for[name]))
    terminals |= {
        t.name: terminal(t.pattern, t.name, text) for t in definitions if t.name in named & passed.keys()
    }
    between = Ignored(passed.values(), list(terminals.values()))
    words_of = {
        name: text_of(between.before(found.texts, name), name, name in extensions.lazy)
        for name, found in terminals.items()
    }
    at_end = text_of(between.at_the_end())
    rules: dict[str, list[Expression]] = {}
    lines: dict[str, int] = {}
    for rule in expansions:
        name = str(rule.origin.name)
        lines.setdefault(name, line_of(text, name))
        parts: list[Expression] = []
        for symbol in rule.expansion:
            if not symbol.is_term:
                parts.append(Call(str(symbol.name), lines[name]))
            elif symbol.name in words_of:
                parts.append(words_of[symbol.name])
            elif symbol.name in extensions.repeats:
                once, low, high = extensions.repeats[symbol.name]
                parts.append(Repeat(Call(once), low, high))
            elif symbol.name in extensions.grammars:
                parts += [*between.alone(lines[name]), Call(f"{symbol.name}.")]
            elif symbol.name in extensions.schemas:
                parts += [*between.alone(lines[name]), schemas[symbol.name]]
            elif symbol.name in extensions.others:
                parts.append(extensions.others[symbol.name])
            else:
                raise UnsupportedConstraint(
                    f"the terminal {symbol.name!r} has no pattern", path=f"line {lines[name]}"
                )
        rules.setdefault(name, []).append(Series(parts))
    choices: dict[str, Expression] = {name: Choice(options) for name, options in rules.items()}
    if ignore and start in choices:
        choices[""] = Series([Call(start), at_end])
    given = ((name, extensions.budgets.get(name.partition("{")[0])) for name in choices)
    budgets = {name: most for name, most in given if most is not None}
    found = Rules(choices, lines, narrowed, budgets)
    for name, text in extensions.grammars.items():
        found = with_nested(found, name, text, tokens)
    return found


def with_nested(outer: Rules, name: str, text: str, tokens: Mapping[int, str]) -> Rules:
    """Add the rules of a nested grammar to those around it; the rule ``NAME.`` begins it."""
    spend(2 * len(text))
    line = f"line {1 + len(text) - len(text.lstrip(chr(10)))}"
    inner = read_lark(text, "start", tokens)
    if "start" not in inner.rules:
        raise UnsupportedConstraint("the grammar within the grammar (%lark) has no rule 'start'", path=line)

    def renamed(part: Expression) -> Expression:
        return Call(f"{name}.{part.rule}", part.line) if isinstance(part, Call) else part

    rules = {f"{name}.{rule}": mapped(expression, renamed) for rule, expression in inner.rules.items()}
    if "" not in inner.rules:
        rules[f"{name}."] = Call(f"{name}.start", inner.lines["start"])
    return Rules(
        {**outer.rules, **rules},
        {**outer.lines, **{f"{name}.{rule}": line for rule, line in inner.lines.items()}},
        merged(outer.narrowed, inner.narrowed),
        {**outer.budgets, **{f"{name}.{rule}": budget for rule, budget in inner.budgets.items()}},
    )


def read_extensions(extensions: Extensions, patterns: dict[str, Any], lark: Any) -> dict[str, Nfa]:
    """Return the texts of the declared terminals that are regular languages."""

    def literal(token: Token) -> str:
        try:
            written = lark.Token("STRING" if token.text[0] == '"' else "REGEXP", token.text)
            return str(lark.load_grammar._literal_to_pattern(written).to_regexp())
        except (lark.exceptions.GrammarError, AssertionError) as error:
            raise UnsupportedConstraint(str(error), path=f"line {token.line}") from None

    def pattern(name: str) -> str | None:
        return str(patterns[name].to_regexp()) if name in patterns else None

    reader = TerminalReader(extensions, literal, pattern)
    found = {name: structured(*value) for name, value in extensions.regexes.items()}
    found |= {name: reader.read(body) for name, body in extensions.terminals.items()}
    found |= {name: reader.lazy(lazy) for name, lazy in extensions.lazy.items()}
    return found


def terminal(pattern: Any, name: str, text: str, ignored: bool = False) -> Terminal:
    """Read a terminal; ``ignored``: as an ignored one. Raises ``UnsupportedConstraint`` with the line."""
    try:
        if pattern.type == "str" and not pattern.flags and pattern.value:
            return Terminal(nfa.literal(pattern.value.encode()))
        return read_terminal(pattern.to_regexp(), ignored)
    except UnsupportedConstraint as error:
        line, shown = line_of(text, name), name
        if name.startswith("__") and pattern.raw:  # written within a rule
            lines = (i for i, each in enumerate(text.splitlines(), 1) if pattern.raw in each)
            line, shown = next(lines, line), pattern.raw
        raise UnsupportedConstraint(f"the terminal {shown}: {error}", path=f"line {line}") from None


def place(text: str, message: str) -> str:
    """Return the line that a message of ``lark`` gives, or the line of the rule that it names."""
    if found := re.search(r"line (\d+)", message):
        return f"line {found[1]}"
    names = re.findall(r"'(\w+)'|in (?:rule|terminal) (\w+)", message)
    lines = [line_of(text, a or b, anywhere=bool(a)) for a, b in names]
    return f"line {max(lines, default=0)}"


def line_of(text: str, name: str, anywhere: bool = False) -> int:
    """Return the line on which a rule or terminal is defined, or with ``anywhere`` last named; 0 if none."""
    if not anywhere:
        return first_lines(text).get(name, 0)
    lines = [i for i, line in enumerate(text.splitlines(), 1) if re.search(rf"\b{re.escape(name)}\b", line)]
    return lines[-1] if lines else 0


@lru_cache(maxsize=1)
def first_lines(text: str) -> dict[str, int]:
    """Return the first line that begins with each name."""
    found: dict[str, int] = {}
    for i, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*[?!]?(\w+)", line):
            found.setdefault(match[1], i)
    return found
