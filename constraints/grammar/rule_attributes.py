"""Attributes of rules in xgrammar's EBNF: ``rule[lazy, max_tokens=5] ::= …``.

max_tokens=n    the texts of the rule take at most n tokens
max_chars=n     they have at most n characters                    for rules whose texts are a regular language
lazy            they end at their first match                     for these, too
capture, temperature                                              change no text
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from ...errors import UnsupportedConstraint
from .. import limits, validation
from ..automata import dfa, utf8
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from .rules import GrammarCompiler, compile_rules
from .tree import Rules, Text, check, reachable_rules

HEAD = re.compile(r"([\w-]+|<.*>)(?:\[(.*)\])?", re.DOTALL)
Attributes = Mapping[str, str]
HARMLESS = {"capture", "temperature"}
REGULAR = {"lazy", "max_chars"}


def head_of(text: str, line: int) -> tuple[str, Attributes]:
    """Return the name of a rule, and its attributes as they are written. Raises ``UnsupportedConstraint``."""
    match = HEAD.fullmatch(text)
    assert match is not None
    found: dict[str, str] = {}
    for part in match[2].split(",") if match[2] else ():
        name, _, value = (each.strip() for each in part.partition("="))
        if name not in {"max_tokens", *REGULAR, *HARMLESS} or name in found:
            raise UnsupportedConstraint(
                f"the attribute {part.strip()!r} of {match[1]!r} is not supported", path=f"line {line}"
            )
        if name.startswith("max_") and not (value.isdecimal() and int(value) <= limits.COUNT):
            raise UnsupportedConstraint(
                f"{name} of {match[1]!r} is a number, not {validation.short(value)}", path=f"line {line}"
            )
        found[name] = value
    return match[1], found


def with_attributes(grammar: Rules, given: Mapping[str, Attributes]) -> Rules:
    """Return a grammar whose rules have these attributes."""
    rules, budgets = dict(grammar.rules), dict(grammar.budgets)
    for name, attributes in given.items():
        if "max_tokens" in attributes:
            budgets[name] = 0, int(attributes["max_tokens"])
        if attributes.keys() & REGULAR:
            words = regular(grammar, name, given)
            if "max_chars" in attributes:
                letters = repeat(utf8.utf8(utf8.EVERY), 0, int(attributes["max_chars"]))
                words = dfa.intersect(words, dfa.simplify(letters))
            if "lazy" in attributes:
                words = dfa.first_matches(words)
            rules[name] = Text(dfa.minimize(words), name, "lazy" in attributes)
    commits = any("lazy" in attributes for attributes in given.values())
    return replace(grammar, rules=rules, budgets=budgets, commits=commits)


def regular(grammar: Rules, name: str, given: Mapping[str, Attributes]) -> Nfa:
    """Return the texts of a rule that calls no rule with attributes and does not nest."""
    check(grammar, name)
    reached = reachable_rules(grammar.rules, name)
    rules = {each: expression for each, expression in grammar.rules.items() if each in reached}
    bound = [each for each in reached if each != name and given.get(each, {}).keys() - HARMLESS]
    if GrammarCompiler(Rules(rules)).cut or bound or not grammar.budgets.keys().isdisjoint(reached):
        raise UnsupportedConstraint(
            f"lazy and max_chars need a rule whose texts are a regular language; {name!r} nests, or calls a rule with attributes",
            path=grammar.where(name),
        )
    return dfa.simplify(compile_rules(Rules(rules, grammar.lines), name, None).automaton)
