"""Grammars as nodes: the rules of a grammar, written as a program.

a terminal                  a table
a rule                      its expression where it is called; one that calls itself is a rule of the program
alternatives                what they begin with alike is read once
neighbours that are small   one table
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata import nfa
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..automata.work import limited, spend
from ..program import nodes, tables
from ..program.left_recursion import nullable, without_left_recursion
from ..program.node import Kind, Node
from ..program.nodes import EMPTY, NOTHING, reachable
from ..program.prune import pruned
from ..program.rewrite import rewritten
from .lazy import regular_differences
from .tree import Call, Choice, Expression, Repeat, Rules, Series, Text

MOST_JOINED = 32  # states of a table that is made of several
MOST_EMPTY = 8  # items that may be empty and are counted
MOST_PARTS = 40  # parts of a rule that is written wherever it is called


def program(rules: Rules, first: str) -> Node | None:
    """Return the node of a grammar's texts.

    None if nodes do not write some of it: rules that end at their first match, budgets of tokens, many repeats of what may be
    empty; or if that takes too much work.
    """
    if rules.commits or rules.budgets:
        return None
    try:
        with limited():
            rules, _ = regular_differences(rules, first)
            found = pruned(without_left_recursion(Writer(rules).rule(first)))
            found = pruned(rewritten(found, joined))
    except (TooManyStates, UnsupportedConstraint, RecursionError):
        return None
    return None if found is NOTHING or counts_empty_items(found) else found


def counts_empty_items(root: Node) -> bool:
    """Return whether some items may be empty and are counted far: a text has a reading for each count."""
    empty = nullable(root)
    counted = (node for node in reachable(root) if node.kind is Kind.REPEAT and node.parts[0] in empty)
    return any(max(node.low, node.high or 0) > MOST_EMPTY for node in counted)


class Writer:
    """The nodes of a grammar's rules."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules.rules
        self._known: dict[str, Node] = {}
        self._open: dict[str, Node | None] = {}
        self._texts: dict[Text, Node] = {}

    def rule(self, name: str) -> Node:
        """Return the node of a rule's texts; a rule within itself becomes one of the program."""
        if name in self._known:
            return self._known[name]
        if name in self._open:
            found = self._open[name]
            if found is None:
                found = self._open[name] = nodes.rule()
            return found
        self._open[name] = None
        body = self.node(self.rules[name])
        rule = self._open.pop(name)
        if rule is None and len(body.parts) > MOST_PARTS:
            rule = nodes.rule()
        self._known[name] = body if rule is None else nodes.define(rule, body)
        return self._known[name]

    def node(self, expression: Expression) -> Node:
        """Return the node of an expression's texts."""
        spend(5)
        if isinstance(expression, Text):
            if expression not in self._texts:
                self._texts[expression] = nodes.lex(tables.of_nfa(expression.words))
            return self._texts[expression]
        if isinstance(expression, Call):
            return self.rule(expression.rule)
        if isinstance(expression, Repeat):
            return nodes.repeat(self.node(expression.part), expression.low, expression.high)
        assert isinstance(expression, Series | Choice)
        parts = [self.node(part) for part in expression.parts]
        return nodes.seq(*parts) if isinstance(expression, Series) else factored(parts)


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
