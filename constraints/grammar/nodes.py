"""Grammars as nodes: the rules of a grammar, written as a program.

a terminal                  a table
a rule                      its expression where it is called; one that calls itself is a rule of the program
alternatives                what they begin with alike is read once
repeats                     of nonempty texts only, so that each text has one count
x - y                       the texts of x within the complement of y, or a table
a budget of tokens          the rule's texts in so many tokens
neighbours that are small   one table
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...errors import EmptyLanguage, TooManyStates, UnsupportedConstraint
from .. import limits
from ..automata import dfa, nfa
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..automata.work import attempt, limited, spend
from ..engine.expansion import expanded
from ..program import nodes, tables
from ..program.left_recursion import without_empty, without_left_recursion
from ..program.node import Kind, Node
from ..program.nodes import EMPTY, NOTHING
from ..program.prune import pruned
from ..program.rewrite import rewritten
from .first_matches import with_first_matches
from .tree import (
    Call,
    Choice,
    Expression,
    Repeat,
    Rules,
    Text,
    Without,
    calls,
    has_empty_text,
    settle,
)

MOST_JOINED = 32  # states of a table that is made of several
MOST_PARTS = 40  # parts of a rule that is written wherever it is called


def program(rules: Rules, first: str) -> Node:
    """Return the node of a grammar's texts.

    Raises ``EmptyLanguage`` if there are none, ``UnsupportedConstraint`` for rules that nest too deep to be written, and for
    ``x - y`` where y is no regular language; ``TooManyStates``.
    """
    try:
        with limited():
            if any(isinstance(rule, Text) and rule.ends_first for rule in rules.rules.values()):
                rules, first = with_first_matches(rules, first)
            found = closed(rules, Call(first))
            found = pruned(rewritten(found, joined))
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    if found is NOTHING:
        raise EmptyLanguage("the grammar has no text")
    return found


def closed(rules: Rules, expression: Expression) -> Node:
    """Return the node of an expression in which no rule begins with itself or has no text."""
    return pruned(without_left_recursion(Writer(rules).node(expression)))


class Writer:
    """The nodes of a grammar's rules, of all their texts or of those that are not empty.

    A token of a part is one of the whole too, so within a budget those that are as large mean nothing: ``most`` is the
    smallest budget around an expression.
    """

    def __init__(self, rules: Rules) -> None:
        self.grammar, self.rules = rules, rules.rules
        self.empty = dict.fromkeys(self.rules, False)
        settle(self.rules, self.empty, lambda name: self.is_empty(self.rules[name]))
        self.counted = dict.fromkeys(self.rules, False)  # whether a rule has a budget or calls one that has
        settle(
            self.rules,
            self.counted,
            lambda name: (
                name in rules.budgets or any(self.counted.get(call.rule) for call in calls(self.rules[name]))
            ),
        )
        self._known: dict[tuple[str, float, bool], Node] = {}
        self._open: dict[tuple[str, float, bool], Node | None] = {}

    def is_empty(self, e: Expression) -> bool:
        """Return whether an expression has the empty text."""
        return has_empty_text(e, self.empty)

    def rule(self, name: str, most: float = math.inf, nonempty: bool = False) -> Node:
        """Return the node of a rule's texts; a rule within itself becomes one of the program."""
        key = name, most if self.counted[name] else math.inf, nonempty
        if key in self._known:
            return self._known[key]
        if key in self._open:
            found = self._open[key]
            if found is None:
                found = self._open[key] = nodes.rule()
            return found
        self._open[key] = None
        budget = self.grammar.budgets.get(name, math.inf)
        body = self.node(self.rules[name], min(most, budget), nonempty)
        if budget < most:
            body = nodes.tokens(body, 0, int(budget))
        rule = self._open.pop(key)
        if rule is None and len(body.parts) > MOST_PARTS:
            rule = nodes.rule()
        self._known[key] = body if rule is None else nodes.define(rule, body)
        return self._known[key]

    def node(self, e: Expression, most: float = math.inf, nonempty: bool = False) -> Node:
        """Return the node of an expression's texts."""
        spend(5)
        match e:
            case Text():
                return without_the_empty_text(e.node) if nonempty and e.is_empty else e.node
            case Call():
                return self.rule(e.rule, most, nonempty)
            case Repeat():
                if not self.is_empty(e.part):
                    return nodes.repeat(self.node(e.part, most), max(e.low, int(nonempty)), e.high)
                return nodes.repeat(self.node(e.part, most, True), int(nonempty), e.high)
            case Without():
                found = self.difference(e, most)
                return without_the_empty_text(found) if nonempty and self.is_empty(e) else found
            case Choice():
                return factored([self.node(part, most, nonempty) for part in e.parts])
        if not nonempty or not self.is_empty(e):
            return nodes.seq(*(self.node(part, most) for part in e.parts))
        parts = [self.node(part, most) for part in e.parts]
        spend(len(parts) ** 2 / 10)
        return factored(
            [nodes.seq(self.node(part, most, True), *parts[i + 1 :]) for i, part in enumerate(e.parts)]
        )

    def difference(self, e: Without, most: float) -> Node:
        """Return the node of the texts of one expression that are not texts of another."""
        minus = regular(closed(self.grammar, e.minus))
        if minus is None:
            raise UnsupportedConstraint(
                "what is taken away (x - y) is no regular language: write y without rules that call themselves with text on "
                "both sides",
                path=f"line {e.line}",
            )
        part = regular(closed(self.grammar, e.part))
        if part is not None:
            return nodes.lex(tables.of_nfa(dfa.difference(part, minus)))
        return nodes.within(self.node(e.part, most), tables.of_nfa(dfa.complement(minus)))


def without_the_empty_text(node: Node) -> Node:
    """Return the nonempty texts of a terminal or difference."""
    match node.kind:
        case Kind.LEX:
            return nodes.lex(without_empty(node.tables[0]))
        case Kind.TOKENS:
            return nodes.tokens(without_the_empty_text(node.parts[0]), max(node.low, 1), node.high)
    return nodes.within(node, without_empty(tables.table([(0, 0, 255, 0)], [0])))


def regular(node: Node) -> Nfa | None:
    """Return the automaton of a node's texts; None if they are no regular language, or one that is not found to be."""
    try:
        with attempt(limits.WORK / 10):
            return expanded(node, limits.PART_STATES).plain
    except TooManyStates:
        return None


def factored(options: Sequence[Node]) -> Node:
    """Return the union of some nodes, in which those that begin with one node share it."""
    flat = [one for option in options for one in (option.parts if option.kind is Kind.ALT else (option,))]
    if len(flat) < 2:
        return nodes.alt(*flat)
    groups: dict[Node | None, list[Node]] = {}
    for option in flat:
        parts = option.parts if option.kind is Kind.SEQ else (option,)
        groups.setdefault(parts[0] if parts else None, []).append(nodes.seq(*parts[1:]))
    return nodes.alt(
        *(EMPTY if first is None else nodes.seq(first, factored(rests)) for first, rests in groups.items())
    )


# ---------------------------------------------------------------- tables of several


def joined(node: Node) -> Node:
    """Return a node with a table for those of its parts that are tables and neighbours, if that table is small."""
    match node.kind:
        case Kind.ALT:
            small = [part for part in node.parts if is_small(part)]
            one = (
                lex(nfa.union([tables.to_nfa(part.tables[0]) for part in small])) if len(small) > 1 else None
            )
            if one is not None:
                return nodes.alt(one, *(part for part in node.parts if part not in small))
        case Kind.REPEAT if is_small(node.parts[0]) and node.parts[1] is EMPTY:
            high = node.high if node.high is not None else node.low
            if high <= MOST_JOINED:
                return lex(repeat(tables.to_nfa(node.parts[0].tables[0]), node.low, node.high)) or node
        case Kind.SEQ:
            parts: list[Node] = []
            for part in node.parts:
                one = None
                if parts and is_small(part) and is_small(parts[-1]):
                    one = lex(nfa.concat([tables.to_nfa(each.tables[0]) for each in (parts[-1], part)]))
                if one is None:
                    parts.append(part)
                else:
                    parts[-1] = one
            return nodes.seq(*parts)
    return node


def is_small(node: Node) -> bool:
    """Return whether a node is a small table."""
    return node.kind is Kind.LEX and node.tables[0].num_states <= MOST_JOINED


def lex(words: Nfa) -> Node | None:
    """Return the node of an automaton's texts, None if its table is not small."""
    found = tables.of_nfa(words)
    fits = found is not None and found.num_states <= MOST_JOINED and found.is_deterministic
    return nodes.lex(found) if fits else None
