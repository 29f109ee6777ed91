"""Grammars as lazy automata: context-free, with unbounded depth."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ...errors import EmptyLanguage, UnsupportedConstraint
from .. import limits, narrowing
from ..automata.abstraction import abstraction
from ..automata.lazy import Body, Configuration, Moves
from ..automata.machines import LazyMachine
from ..automata.nfa import Nfa
from ..automata.stack import Stack, StackAutomaton, merged
from ..automata.work import limited
from ..narrowing import Narrowing
from .graph_stack import GrammarAutomaton
from .machine import GrammarMachines
from .productions import Productions
from .rule_machine import RuleMachine
from .rules import compile_rules
from .source import read_rules
from .tree import Choice, Expression, Rules, Text, Without, mapped, reachable_rules


def lazy_grammar(
    text: str | os.PathLike[str],
    syntax: str = "lark",
    start: str | None = None,
    tokens: Mapping[int, str] | None = None,
) -> tuple[StackAutomaton, tuple[Narrowing, ...]]:
    """Return a lazy automaton of a context-free grammar, with its narrowings.

    The arguments are those of :func:`~.constraint.grammar`. Rules may nest to any depth. Only a rule that must be a regular
    language (the left side of ``-`` in EBNF) has a bounded depth, which the narrowings say.

    Raises what :func:`~.constraint.grammar` raises. The automaton raises ``TooManyStates`` in use if an ambiguous text has
    too many parses at one time.
    """
    return lazy_rules(*read_rules(text, syntax, start, tokens))


def lazy_rules(rules: Rules, first: str) -> tuple[StackAutomaton, tuple[Narrowing, ...]]:
    """Return :func:`lazy_grammar` of rules that are read already."""
    try:
        with limited():
            rules, narrowed = regular_differences(rules, first)
            machines = GrammarMachines(Productions(rules, first))
            automaton: StackAutomaton
            if machines.productions.lengths[first].least == float("inf"):
                raise EmptyLanguage("the grammar has no text")
            automaton = GrammarAutomaton(machines.root())
            if rules.commits:
                automaton = StackAutomaton(LazyMachine(CommittingAutomaton(machines.root())))
    except RecursionError:
        raise UnsupportedConstraint("the grammar nests too deep to be read") from None
    return automaton, narrowed


class CommittingAutomaton(GrammarAutomaton):
    """A stack automaton that drops all other readings where a committing terminal ends.

    ``drops``: whether there were any, in the moves looked at so far.
    """

    drops = False

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
                self.drops |= to != local
                if to is not None:
                    kept.append((low, end - 1, self.stack(top.machine, to, top.parent)))
        return self.bounded(merged(kept))

    def completion(self, configuration: Configuration) -> bytes:
        """Return a text from here to acceptance.

        If a terminal commits on the path that the text was made for, another text is made from there. Raises
        ``UnsupportedConstraint`` if that does not lead to acceptance.
        """
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
        return None  # a character may make a terminal commit


def grammar_abstraction(automaton: StackAutomaton, most_states: int) -> Nfa:
    """Return a finite automaton of about ``most_states`` states that accepts all texts of a lazy grammar.

    Raises ``TooManyStates``.
    """
    root = automaton.root
    assert root is not None
    if not isinstance(root, LazyMachine):
        return abstraction(root, most_states)
    inner = root.automaton
    assert isinstance(inner, StackAutomaton)
    assert inner.root is not None
    return abstraction(inner.root, most_states)


def regular_differences(grammar: Rules, start: str) -> tuple[Rules, tuple[Narrowing, ...]]:
    """Replace each ``x - y`` by its finite automaton; return the grammar and what these leave out of x."""
    found: list[Narrowing] = []

    def replaced(part: Expression) -> Expression:
        if not isinstance(part, Without):
            return part
        name = f" difference on line {part.line}"
        try:
            compiled = compile_rules(Rules({**grammar.rules, name: part}, grammar.lines), name, None)
        except EmptyLanguage:
            return Choice([])
        why = "an automaton follows rules before `-` that call themselves with text on both sides to a depth only"
        found.extend(
            Narrowing(path=rule, keyword="max_depth", asked="any depth", given=compiled.depth, why=why)
            for rule in compiled.cut
        )
        return Text(compiled.automaton)

    reached = reachable_rules(grammar.rules, start)
    rules = {name: mapped(e, replaced) if name in reached else e for name, e in grammar.rules.items()}
    return replace(grammar, rules=rules, narrowed=()), narrowing.merged(grammar.narrowed, found)
