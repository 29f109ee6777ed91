"""Context-free grammars as automata: exact where they are regular, otherwise down to a depth.

The rules that call each other are a strongly connected component (SCC) of the graph of rules. A call is *at the right* of
a rule if nothing follows it, *at the left* if nothing comes before it. An SCC all of whose calls are at the right (or all
at the left) is a finite automaton as it stands: a state for each rule (Mohri and Nederhof, 2001, section 2).

Other SCCs are cut: calls in the middle, and those at the right where there are some at the left too, go to a copy of the
SCC one level deeper, and at the last level nowhere. What remains is linear, and compiled exactly. So in

    expr: expr "+" term | term        term: NUMBER | "(" expr ")"

sums may have any length, and only the parentheses count as depth.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from ...errors import EmptyLanguage, TooManyStates, UnsupportedConstraint
from .. import limits
from ..automata import nfa
from ..automata.dfa import difference, simplify
from ..automata.nfa import Nfa
from ..automata.repeats import repeat
from ..automata.work import SIMPLIFYING, attempt
from .tree import (
    Call,
    Choice,
    Expression,
    Repeat,
    Rules,
    Series,
    Text,
    Without,
    calls,
    check,
    reachable_rules,
)

DEPTH = 3
"""The largest depth of nested rules that is tried if the user gives none."""


class Compiled(NamedTuple):
    """The automaton of a grammar.

    ``depth``: the levels that rules nest within themselves; ``cut``: the rules that lack texts because of that bound.
    """

    automaton: Nfa
    depth: int
    cut: tuple[str, ...]


def compile_rules(grammar: Rules, start: str, max_depth: int | None) -> Compiled:
    """Return the automaton of ``start`` with rules nested within themselves at most ``max_depth`` deep.

    ``max_depth=None``: the largest depth up to ``DEPTH`` that fits the limits. Raises ``UnsupportedConstraint`` with the line
    for rules that are not defined or never end, ``EmptyLanguage``, ``TooManyStates``.
    """
    if start not in grammar.rules:
        raise UnsupportedConstraint(f"the start rule {start!r} is not defined", path="start")
    check(grammar, start)
    compiler, found = GrammarCompiler(grammar), nfa.empty()
    if max_depth is not None:
        depth, found = max_depth, compiler.compile(start, max_depth)
    else:
        depth, found = 0, compiler.compile(start, 0)
        with suppress(TooManyStates):
            while compiler.cut and depth < DEPTH:
                with attempt(limits.WORK, share=0.9):
                    depth, found = depth + 1, compiler.compile(start, depth + 1)
    if found.is_empty:
        raise EmptyLanguage(f"the grammar has no text of depth {depth}; raise max_depth")
    return Compiled(found, depth, compiler.left_out(start, depth))


class GrammarCompiler:
    """The automata of rules, by rule and remaining depth. ``cut``: the calls that go one level deeper."""

    def __init__(self, grammar: Rules) -> None:
        import networkx as nx

        self.rules, self.max_depth = grammar.rules, 0
        self.memo: dict[tuple[str, int, int], Nfa] = {}
        graph = nx.MultiDiGraph()
        graph.add_nodes_from(self.rules)
        for name, expression in self.rules.items():
            for call, left, right in calls(expression):
                if call.rule in self.rules:
                    graph.add_edge(name, call.rule, call=call, left=left, right=right)
        self.component = number_components(graph)
        middle = [
            (a, b, k)
            for a, b, k, d in graph.edges(keys=True, data=True)
            if self.component[a] == self.component[b] and not (d["left"] or d["right"])
        ]
        self.cut = {graph.edges[edge]["call"] for edge in middle}
        whole = graph.copy()
        graph.remove_edges_from(middle)
        # The rest of each SCC consists of smaller SCCs; in each, all calls at one side are kept.
        self.part = number_components(graph)
        within: dict[int, list[Any]] = {}
        for a, b, data in graph.edges(data=True):
            if self.part[a] == self.part[b]:
                within.setdefault(self.part[a], []).append(data)
        self.rightward = {part for part, edges in within.items() if all(d["right"] for d in edges)}
        self.linear = set(within)
        for part, edges in within.items():
            if part not in self.rightward:
                self.cut |= {d["call"] for d in edges if not d["left"]}
        # Rules that reach other components with cut calls: their automata depend on `max_depth` too.
        cut_components: dict[int, str] = {self.component[call.rule]: call.rule for call in self.cut}
        self.above = {
            name
            for component, rule in cut_components.items()
            for name in nx.ancestors(whole, rule)
            if self.component[name] != component
        }

    def compile(self, start: str, max_depth: int) -> Nfa:
        """Return the texts of the start rule, each SCC of rules nested at most ``max_depth`` deep."""
        self.max_depth = max_depth
        return self.rule(start, max_depth)

    def rule(self, name: str, depth: int) -> Nfa:
        """Return the texts of a rule, with at most ``depth`` further levels of recursion."""
        if depth < 0:
            return nfa.empty()
        key = name, depth, self.max_depth if name in self.above else -1
        if key not in self.memo:
            part = self.part[name]
            if part in self.linear:
                found = self.one_sided(part, name, depth)
            else:
                found = self.expression(self.rules[name], name, depth)
            self.memo[key] = simplify(found)
        return self.memo[key]

    def left_out(self, start: str, max_depth: int) -> tuple[str, ...]:
        """Return the first rule, in the grammar's order, of each SCC that lacks texts because of the depth.

        An SCC whose rules accept no more at this depth than at the one before accepts no more at any depth.
        """
        self.max_depth = max_depth
        reached = reachable_rules(self.rules, start)
        cut: dict[int, list[str]] = {}
        for name in reached:
            for call, _, _ in calls(self.rules[name]):
                if call in self.cut:
                    cut.setdefault(self.component[name], []).append(call.rule)
        order = [name for name in self.rules if name in reached]
        return tuple(
            next(name for name in order if self.component[name] == component)
            for component, called in sorted(cut.items(), key=lambda item: order.index(item[1][0]))
            if not all(self.settled(name) for name in dict.fromkeys(called))
        )

    def settled(self, name: str) -> bool:
        """Return whether another level adds no text to the rule."""
        last = max(self.max_depth - 1, min(self.max_depth, 1))  # the last level but one is compiled already
        with suppress(TooManyStates), attempt(SIMPLIFYING / 10):
            before, now = self.rule(name, last - 1), self.rule(name, last)
            if before.is_deterministic and now.is_deterministic and before.num_states == now.num_states:
                return difference(now, before).is_empty  # `now` accepts at least as much
        return False

    def call(self, call: Call, caller: str, depth: int) -> Nfa:
        """Return the texts of a call."""
        if self.component[call.rule] != self.component[caller]:
            return self.rule(call.rule, self.max_depth)
        return self.rule(call.rule, depth - (call in self.cut))

    def expression(self, expression: Expression, caller: str, depth: int) -> Nfa:
        """Return the texts of an expression that takes no part in a linear recursion."""
        if isinstance(expression, Text):
            return expression.words
        if isinstance(expression, Call):
            return self.call(expression, caller, depth)
        if isinstance(expression, Repeat):
            part = self.expression(expression.part, caller, depth)
            return repeat(part, expression.low, expression.high)
        if isinstance(expression, Without):
            self.require_exact(expression)
            part, minus = (self.expression(e, caller, depth) for e in (expression.part, expression.minus))
            return difference(part, minus)
        parts = [self.expression(part, caller, depth) for part in expression.parts]
        return nfa.concat(parts) if isinstance(expression, Series) else nfa.union(parts)

    def require_exact(self, expression: Without) -> None:
        """Raise ``UnsupportedConstraint`` if the right side of ``-`` has a depth bound.

        The bound would remove too few texts.
        """
        reached = [call for call, _, _ in calls(expression.minus)]
        seen = {call.rule for call in reached}
        for call in reached:
            if call in self.cut:
                raise UnsupportedConstraint(
                    f"what is taken away calls {call.rule!r}, which is known to a depth only",
                    path=f"line {expression.line}",
                )
            fresh = [c for c, _, _ in calls(self.rules[call.rule]) if c in self.cut or c.rule not in seen]
            seen.update(c.rule for c in fresh)
            reached += fresh

    def one_sided(self, part: int, name: str, depth: int) -> Nfa:
        """Return the automaton of mutually left-linear or right-linear rules.

        Each rule is a state. For right-linear rules its texts lead from that state to the end, for left-linear ones from the
        start to that state.
        """
        members = [rule for rule in self.rules if self.part[rule] == part]
        state = {rule: i + 1 for i, rule in enumerate(members)}  # state 0 is the end, or the start
        rightward, size = part in self.rightward, len(state) + 1
        arcs: list[tuple[int, Nfa | None, int]] = []

        def recursive(expression: Expression) -> bool:
            return any(self.part.get(c.rule) == part and c not in self.cut for c, _, _ in calls(expression))

        def walk(expression: Expression, caller: str, source: int, target: int) -> None:
            nonlocal size
            if not recursive(expression):
                arcs.append((source, self.expression(expression, caller, depth), target))
            elif isinstance(expression, Call):
                arcs.append(
                    (source, None, state[expression.rule])
                    if rightward
                    else (state[expression.rule], None, target)
                )
            elif isinstance(expression, Choice):
                for option in expression.parts:
                    walk(option, caller, source, target)
            elif isinstance(expression, Repeat):  # at most once
                if expression.low == 0:
                    arcs.append((source, None, target))
                walk(expression.part, caller, source, target)
            elif isinstance(expression, Series):
                inner = list(range(size, size + len(expression.parts) - 1))
                size += len(inner)
                ends = [source, *inner, target]
                for item, here, there in zip(expression.parts, ends[:-1], ends[1:], strict=True):
                    walk(item, caller, here, there)

        for rule in members:
            walk(self.rules[rule], rule, *((state[rule], 0) if rightward else (0, state[rule])))
        return nfa.network(size, arcs, *((state[name], 0) if rightward else (0, state[name])))


def number_components(graph: Any) -> dict[str, int]:
    """Return the number of the strongly connected component of each rule."""
    import networkx as nx

    return {rule: i for i, rules in enumerate(nx.strongly_connected_components(graph)) for rule in rules}
