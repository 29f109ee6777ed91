"""Grammars as lazy automata: context-free, without a depth."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ...errors import EmptyLanguage, UnsupportedConstraint
from .. import limits, narrowing
from ..automata import dfa
from ..automata.abstraction import abstraction
from ..automata.lazy import Body, Configuration, Moves
from ..automata.machines import LazyMachine
from ..automata.nfa import Nfa
from ..automata.stack import Stack, StackAutomaton, merged
from ..automata.work import limited
from ..narrowing import Narrowing
from ..regex.lookaround import erase
from .graph_stack import GrammarAutomaton
from .machine import GrammarMachines
from .productions import Productions
from .rule_machine import RuleMachine
from .rules import compile_rules
from .source import read_rules
from .terminal_context import MARKS, MarkedAutomaton
from .tree import Choice, Expression, Repeat, Rules, Series, Text, Without, reachable_rules


def lazy_grammar(
    text: str | os.PathLike[str],
    syntax: str = "lark",
    start: str | None = None,
    tokens: Mapping[int, str] | None = None,
) -> tuple[StackAutomaton, tuple[Narrowing, ...]]:
    """The texts of a context-free grammar, as a lazy automaton, with what that leaves out.

    The arguments are those of :func:`~.constraint.grammar`. Rules may lie within themselves to any depth. Only where a rule
    must be a regular language (what stands before ``-`` in EBNF) is it followed to a depth, which ``narrowed`` says.

    Raises what :func:`~.constraint.grammar` raises, and ``TooManyStates`` while it is used, where an ambiguous text can be
    understood in too many ways at the same time.
    """
    try:
        with limited():
            rules, first, places = read_rules(text, syntax, start, tokens)
            rules, narrowed = regular_differences(rules, first)
            machines = GrammarMachines(Productions(rules, first))
            automaton: StackAutomaton
            if machines.productions.lengths[first].least == float("inf"):
                raise EmptyLanguage("the grammar has no text")
            allowed = places.allowed()
            automaton = GrammarAutomaton(machines.root())
            if rules.commits:
                if allowed is not None:
                    raise UnsupportedConstraint(
                        "rules that end at their first match (lazy, suffix, stop) do not go with terminals that look beside them"
                    )
                automaton = StackAutomaton(LazyMachine(CommittingAutomaton(machines.root())))
            if allowed is not None:
                marked = MarkedAutomaton(automaton, allowed, limits.ALTERNATIVES)
                automaton = StackAutomaton(LazyMachine(marked))
                if marked.start() is None:
                    raise EmptyLanguage("the grammar has no text: its terminals never stand where they may")
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    return automaton, narrowed


class CommittingAutomaton(GrammarAutomaton):
    """A stack automaton in which, where a terminal ends that commits, those that could go on are given up."""

    def moves(self, configuration: Configuration) -> Moves:
        active, _ = self.active(configuration)
        arcs = [
            (top, *ending)
            for top in active
            if isinstance(top.machine, RuleMachine)
            for ending in top.machine.endings(top.local)
        ]
        cuts = sorted({arc[1] for arc in arcs} | {arc[2] + 1 for arc in arcs})
        kept: list[tuple[int, int, Stack]] = []
        for low, end in pairwise(cuts):
            over = [arc for arc in arcs if arc[1] <= low <= arc[2]]
            committed = any(arc[5] for arc in over)
            for top, _, _, local, ended, _ in over:
                to = ended if committed else local
                if to is not None:
                    kept.append((low, end - 1, self.stack(top.machine, to, top.parent)))
        return self.bounded(merged(kept))

    def completion(self, configuration: Configuration) -> bytes:
        """A text from here to acceptance. Where a terminal commits on the way that the text was made for, another is made
        from there. Raises ``UnsupportedConstraint`` where that leads nowhere."""
        found = bytearray()
        for _ in range(limits.POSITIONS):
            for byte in super().completion(configuration):
                to = next(
                    (move.target for move in self.moves(configuration) if move.low <= byte <= move.high), None
                )
                if to is None:
                    break
                configuration = to
                found.append(byte)
            else:
                if self.accepting(configuration):
                    return bytes(found)
        raise UnsupportedConstraint(
            f"after {bytes(found)!r} nothing can go on that a rule with [lazy], [suffix] or [stop] does not take"
        )

    def completions(self, configuration: Configuration) -> Sequence[bytes]:
        return (self.completion(configuration),)

    def body(self, configuration: Configuration) -> Body | None:
        return None  # letters may trigger a rule


def grammar_abstraction(automaton: StackAutomaton, most_states: int) -> Nfa:
    """A finite automaton that accepts all texts of a lazy grammar, of at most about ``most_states`` states.

    Where terminals look beside them, the abstraction of the words is met with what they allow. Raises ``TooManyStates``.
    """
    root = automaton.root
    assert root is not None
    if not isinstance(root, LazyMachine):
        return abstraction(root, most_states)
    inner = root.automaton
    if isinstance(inner, MarkedAutomaton):
        assert inner.words.root is not None
        found = dfa.intersect(abstraction(inner.words.root, most_states), inner.allowed.nfa)
        for mark in MARKS:
            found = erase(found, mark)
        return dfa.minimize(found)
    assert isinstance(inner, StackAutomaton)
    assert inner.root is not None
    return abstraction(inner.root, most_states)


def regular_differences(grammar: Rules, start: str) -> tuple[Rules, tuple[Narrowing, ...]]:
    """The grammar with the finite automata of ``x - y`` in their places, and what these leave out of x."""
    found: list[Narrowing] = []

    def replaced(expression: Expression) -> Expression:
        if isinstance(expression, Without):
            name = f" difference on line {expression.line}"
            try:
                compiled = compile_rules(
                    Rules({**grammar.rules, name: expression}, grammar.lines), name, None
                )
            except EmptyLanguage:
                return Choice([])
            why = "an automaton follows rules before `-` that call themselves with text on both sides to a depth only"
            found.extend(
                Narrowing(path=rule, keyword="max_depth", asked="any depth", given=compiled.depth, why=why)
                for rule in compiled.cut
            )
            return Text(compiled.automaton)
        if isinstance(expression, Series | Choice):
            return type(expression)([replaced(part) for part in expression.parts])
        if isinstance(expression, Repeat):
            return Repeat(replaced(expression.part), expression.low, expression.high)
        return expression

    reached = reachable_rules(grammar.rules, start)
    rules = {name: replaced(e) if name in reached else e for name, e in grammar.rules.items()}
    return Rules(rules, grammar.lines, commits=grammar.commits), narrowing.merged(grammar.narrowed, found)
