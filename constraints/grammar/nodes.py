"""Grammars as nodes: the rules of a grammar, written as a program.

a terminal                  a table
a rule                      its expression where it is called; one that calls itself is a rule of the program
alternatives                what they begin with alike is read once
repeats                     of nonempty texts only, so that each text has one count
x - y                       the texts of x within the complement of y, or a table
an indented block           a rule of the program, written once and then for each column (``columns.py``)
a budget of tokens          the rule's texts in so many tokens
a repeat of a small table   a table, if that is small, too
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...errors import EmptyLanguage, TooManyStates, UnsupportedConstraint
from .. import limits
from ..automata import dfa
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..automata.work import attempt, limited, spend
from ..engine.expansion import expanded
from ..program import nodes, tables
from ..program.left_recursion import without_empty, without_left_recursion
from ..program.node import Kind, Node
from ..program.nodes import NOTHING
from ..program.prune import pruned
from . import tree
from .columns import is_block, with_columns
from .first_matches import with_first_matches
from .layout import with_indentation
from .obligations import with_look_ahead
from .tree import Choice, Expression, Ref, Repeat, Rules, Series, Text, Without

MOST_REPEATED = 32  # states of a table that stands for a repeat
MOST_PARTS = 40  # parts of a rule that is written wherever it is called
DEEPEST = 30  # rules within one another that are written at once; those below become rules of the program, written later


def program(rules: Rules, first: str) -> Node:
    """Return the node of a grammar's texts.

    Raises ``EmptyLanguage`` if there are none, ``UnsupportedConstraint`` for rules that nest too deep to be written, and for
    ``x - y`` where y is no regular language; ``TooManyStates``.
    """
    try:
        with limited():
            layout = rules.layout
            texts = [each for each in tree.expressions(*rules.rules.values()) if isinstance(each, Text)]
            if layout is not None:
                rules, first = with_indentation(rules, first, layout)
            looks = any(text.before is not None for text in texts)
            ends_first = any(text.ends_first for text in texts)
            if looks and ends_first:
                raise UnsupportedConstraint(
                    "rules that end at their first match (lazy, suffix, stop) beside terminals that look ahead are not read: "
                    "write what follows into a rule"
                )
            if looks:
                rules, first = with_look_ahead(rules, first)
            if ends_first:
                rules, first = with_first_matches(rules, first)
            found = closed(rules, Ref(first))
            if layout is not None:
                found = with_columns(found, layout.tab)
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    if found is NOTHING:
        raise EmptyLanguage("the grammar has no text")
    return found


def closed(rules: Rules, expression: Expression) -> Node:
    """Return the node of an expression in which no rule begins with itself or has no text."""
    return pruned(without_left_recursion(RuleWriter(rules).written(expression)))


class RuleWriter:
    """The nodes of a grammar's rules, of all their texts or of those that are not empty.

    A token of a part is one of the whole too, so within a budget those that are as large mean nothing: ``most`` is the
    smallest budget around an expression.
    """

    def __init__(self, rules: Rules) -> None:
        self.grammar, self.rules = rules, rules.rules
        self.empty = dict.fromkeys(self.rules, False)
        tree.settle(self.rules, self.empty, lambda name: self.is_empty(self.rules[name]))
        self.counted = dict.fromkeys(self.rules, False)  # whether a rule has a budget or calls one that has
        if rules.budgets:
            tree.settle(self.rules, self.counted, self.counts)
        self._known: dict[tuple[str, float, bool], Node] = {}
        self._open: dict[tuple[str, float, bool], Node | None] = {}
        # By the id of an expression, which is kept.
        self._written: dict[tuple[int, float, bool], tuple[Expression, Node]] = {}
        self._later: list[tuple[str, float, bool]] = []

    def counts(self, name: str) -> bool:
        """Return whether a rule has a budget, or calls one that is known to count."""
        called = (call.rule for call in tree.calls(self.rules[name]))
        return name in self.grammar.budgets or any(map(self.counted.get, called))

    def is_empty(self, e: Expression) -> bool:
        """Return whether an expression has the empty text."""
        return tree.has_empty_text(e, self.empty)

    def written(self, e: Expression) -> Node:
        """Return the node of an expression's texts, with all rules that it needs."""
        found = self.node(e)
        while self._later:
            name, most, nonempty = key = self._later.pop()
            rule = self._known.pop(key)
            self._open[key] = rule
            self._known[key] = nodes.define(rule, self.body(name, most, nonempty))
            del self._open[key]
        return found

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
        if len(self._open) >= DEEPEST:
            self._later.append(key)
            self._known[key] = nodes.rule()
            return self._known[key]
        self._open[key] = None
        body = self.body(name, most, nonempty)
        rule = self._open.pop(key)
        if rule is None and (len(body.parts) > MOST_PARTS or is_block(body)):
            rule = nodes.rule()
        self._known[key] = body if rule is None else nodes.define(rule, body)
        return self._known[key]

    def body(self, name: str, most: float, nonempty: bool) -> Node:
        """Return the node of what a rule stands for."""
        budget = self.grammar.budgets.get(name, math.inf)
        body = self.node(self.rules[name], min(most, budget), nonempty)
        if budget < most:
            body = nodes.tokens(body, 0, int(budget))
        return body

    def node(self, e: Expression, most: float = math.inf, nonempty: bool = False) -> Node:
        """Return the node of an expression's texts."""
        if isinstance(e, Text):
            return without_the_empty_text(e.node) if nonempty and e.is_empty else e.node
        if isinstance(e, Ref):
            return self.rule(e.rule, most, nonempty)
        key = id(e), most, nonempty
        if key not in self._written:  # a part that may be empty is asked for twice, and so are its parts
            self._written[key] = e, self.made(e, most, nonempty)
        return self._written[key][1]

    def made(self, e: Series | Choice | Repeat | Without, most: float, nonempty: bool) -> Node:
        """Return the node of an expression's texts, anew."""
        spend(5 * (1 + len(tree.parts_of(e))))
        match e:
            case Repeat():
                is_empty = self.is_empty(e.part)
                low = 0 if is_empty else e.low
                return repeated(self.node(e.part, most, is_empty), max(low, int(nonempty)), e.high)
            case Without():
                found = self.difference(e, most)
                return without_the_empty_text(found) if nonempty and self.is_empty(e) else found
            case Choice():
                return factored([self.node(part, most, nonempty) for part in e.parts])
        if not nonempty or not self.is_empty(e):
            return nodes.seq(*[self.node(part, most) for part in e.parts])
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
    groups: dict[Node | None, list[tuple[Node, ...]]] = {}
    for option in flat:
        parts = option.parts if option.kind is Kind.SEQ else (option,)
        groups.setdefault(parts[0] if parts else None, []).append(parts)
    if len(groups) == len(flat):
        return nodes.alt(*flat)
    return nodes.alt(
        *(
            nodes.seq(*alike[0])
            if len(alike) == 1 or first is None
            else nodes.seq(first, factored([nodes.seq(*parts[1:]) for parts in alike]))
            for first, alike in groups.items()
        )
    )


def repeated(part: Node, low: int, high: int | None) -> Node:
    """Return the node of ``low`` to ``high`` texts of ``part`` in a row; as one table if it is small, so that guides count."""
    found = nodes.repeat(part, low, high)
    most = low if high is None else high
    if (
        found.kind is not Kind.REPEAT
        or part.kind is not Kind.LEX
        or max(most, part.tables[0].num_states) > MOST_REPEATED
    ):
        return found
    table = tables.of_nfa(repeat(tables.to_nfa(part.tables[0]), low, high))
    fits = table is not None and table.num_states <= MOST_REPEATED and table.is_deterministic
    return nodes.lex(table) if fits else found
