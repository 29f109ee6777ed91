"""Rules with a token budget (``rule[max_tokens=n]``, ``!<token>``): what calls them as constraints with budgets of parts.

    constraint(e) = grammar(e)                                          if e calls no rule with a budget
                    constraint(A) + constraint(B), constraint(A) | …    for A B, A | B; repeat(…) for repeats
                    constraint(body).tokens(at_most=n)                  for a rule with a budget of n

A budget of n makes those inside it of n or more redundant, since a token of an inner part is one of the outer part too. So a
rule with a budget may be recursive. It may not be called from the middle of a recursive rule without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import add, or_

from ...errors import TooManyStates, UnsupportedConstraint
from .. import limits
from ..automata.lazy import explore
from ..automata.work import spend
from ..constraint import Constraint
from .lazy import CommittingAutomaton
from .machine import GrammarMachines
from .productions import Productions
from .tree import Call, Choice, Expression, Repeat, Rules, Series, calls, reachable_rules

Plain = Callable[[Rules, str], Constraint]


class Budgets:
    """The constraints of a grammar's rules; ``plain`` makes that of a grammar without budgets."""

    def __init__(self, rules: Rules, plain: Plain) -> None:
        self.rules, self.plain = rules, plain
        self._known: dict[tuple[str, float], Constraint | None] = {}
        self.least = least_budgets(rules)

    def limited(self, expression: Expression, bound: float) -> bool:
        """Return whether an expression calls a rule with a budget below ``bound``."""
        return any(self.least.get(call.rule, math.inf) < bound for call, _, _ in calls(expression))

    def rule(self, name: str, bound: float = math.inf) -> Constraint:
        """Return the texts of a rule within a part of at most ``bound`` tokens."""
        if (name, bound) not in self._known:
            self._known[name, bound] = None
            low, most = limits_of(self.rules, name)
            found = self._unlimited(name, min(bound, most))
            if low or most < bound:
                found = found.tokens(*self.rules.budgets[name][::-1])
            self._known[name, bound] = found
        found_or_open = self._known[name, bound]
        if found_or_open is None:
            raise UnsupportedConstraint(
                f"{name!r} calls itself with text on both sides, and a part whose tokens are counted (max_tokens, !<token>, "
                "<[^1]>): write repeats with *, + or {n,m}, or give max_tokens to the outermost rule",
                path=self.rules.where(name),
            )
        return found_or_open

    def _unlimited(self, name: str, bound: float) -> Constraint:
        """Return the texts of a rule without its own budget: ``A = B | A C`` is ``B C*``."""
        expression = self.rules.rules[name]
        options = expression.parts if isinstance(expression, Choice) else [expression]
        if not self.limited(expression, bound):
            return self.expression(Call(name), bound, itself=True)
        for end in (0, -1):
            more = [rest for option in options if (rest := without(option, name, end)) is not None]
            if more:
                once = Choice([option for option in options if without(option, name, end) is None])
                parts = [self.expression(once, bound), self.expression(Choice(more), bound).repeat(0)]
                return balanced(add, parts if end == 0 else parts[::-1])
        return self.expression(expression, bound)

    def expression(self, expression: Expression, bound: float, itself: bool = False) -> Constraint:
        """Return the texts of an expression; ``itself``: of the call of a rule whose budget is known."""
        if itself or not self.limited(expression, bound):
            name = expression.rule if isinstance(expression, Call) else " part"
            rules = {**self.rules.rules, " part": expression}
            reached = reachable_rules(rules, name)
            spend(20 * len(reached) + len(rules) / 4)
            rules = {each: rules[each] for each in rules if each in reached}
            return self.plain(replace(self.rules, rules=rules, budgets={}), name)
        if isinstance(expression, Call):
            return self.rule(expression.rule, bound)
        if isinstance(expression, Repeat):
            return self.expression(expression.part, bound).repeat(expression.low, expression.high)
        assert isinstance(expression, Series | Choice)
        kind, parts = type(expression), list(expression.parts)
        if kind is Choice:
            parts.sort(key=lambda part: self.limited(part, bound))
        found = list[Constraint]()
        for limited, group in groupby(parts, lambda part: self.limited(part, bound)):
            some = list(group)
            found += (
                [self.expression(p, bound) for p in some] if limited else [self.expression(kind(some), bound)]
            )
        return balanced(add if kind is Series else or_, found)


def balanced(
    combine: Callable[[Constraint, Constraint], Constraint], parts: Sequence[Constraint]
) -> Constraint:
    """Combine constraints in a row, in a tree of small depth."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return combine(balanced(combine, parts[:middle]), balanced(combine, parts[middle:]))


def limits_of(grammar: Rules, rule: str) -> tuple[int, float]:
    """Return the fewest and the most tokens of a rule."""
    low, most = grammar.budgets.get(rule, (0, None))
    return low, math.inf if most is None else most


def least_budgets(grammar: Rules) -> dict[str, float]:
    """Return the smallest budget among each rule and those that it calls; one with a lower limit, -1, is below any other."""
    callers: dict[str, set[str]] = {}
    for name, expression in grammar.rules.items():
        for call, _, _ in calls(expression):
            callers.setdefault(call.rule, set()).add(name)
    budgets = {
        rule: -1 if low else most for rule in grammar.budgets for low, most in [limits_of(grammar, rule)]
    }
    found: dict[str, float] = {}
    for rule in sorted(budgets, key=budgets.__getitem__):
        todo = [rule]
        while todo:
            name = todo.pop()
            if name not in found:
                found[name] = budgets[rule]
                todo += callers.get(name, ())
    return found


def without(option: Expression, name: str, end: int) -> Expression | None:
    """Return an alternative without the call of a rule at its left (0) or right (-1) end; None if there is none."""
    parts = list(option.parts) if isinstance(option, Series) else [option]
    if not parts or not isinstance(parts[end], Call) or parts[end].rule != name:  # type: ignore[union-attr]
        return None
    del parts[end]
    return Series(parts)


def check_commits(rules: Rules, first: str) -> None:
    """Raise ``UnsupportedConstraint`` unless nothing else can go on wherever a rule ends at its first match."""
    automaton = CommittingAutomaton(GrammarMachines(Productions(rules, first)).root())
    try:
        explore(automaton, limits.PART_STATES)
    except TooManyStates:
        automaton.drops = True
    if automaton.drops:
        raise UnsupportedConstraint(
            "beside parts whose tokens are counted, rules that end at their first match (lazy, suffix, stop) may stand only "
            "where nothing else could go on: write what stands beside them without the text that ends them"
        )
