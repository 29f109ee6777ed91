"""The rules of a grammar as networks: small graphs with terminals and calls of rules on their arcs.

    network of a rule:  start ──(terminal | rule | nothing)──▶ … ──▶ end

Rules that need no machine of their own are inlined where they are called: short ones and those called once, unless they close
a cycle of calls. The lengths of the shortest text and of the shortest nonempty text of each rule are the least fixed point of
the grammar's equations over (min, +) (Knuth, 1977).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property

from ...errors import TooManyStates, UnsupportedConstraint
from .. import limits
from ..automata.work import spend
from .tables import Lengths, Table
from .tree import Call, Choice, Expression, Repeat, Rules, Series, Text, Without, calls, reachable_rules

SHORT = 40  # most parts of a rule that is inlined wherever it is called
LONG = 2_000  # most parts of a rule that is called once and inlined
DEEP = 60  # most levels of inlined rules
UNROLLED = 60  # most parts of a repeat that is unrolled; others are counted

Arc = tuple["Text | str | None", int]  # what is read, and the node after it


NOTHING = Lengths(math.inf, math.inf)


class Productions:
    """The rules reachable from a start rule, without ``Without``; long repeats become rules of their own."""

    def __init__(self, grammar: Rules, start: str) -> None:
        self.start = start
        self.rules: dict[str, Expression] = {}
        self.counted: dict[str, tuple[str, int, int | None]] = {}
        """Rules that count: the repeated rule, the fewest and the most repetitions (None: no upper bound)."""
        self.commits = grammar.commits
        self._tables: dict[int, Table] = {}
        self._networks: dict[str, list[list[Arc]]] = {}
        reached = reachable_rules(grammar.rules, start)
        for name, expression in grammar.rules.items():
            if name in reached:
                self.rules[name] = self._without_counts(expression, name)

    # ------------------------------------------------------------ counted repeats

    def _without_counts(self, expression: Expression, rule: str) -> Expression:
        """Replace long repeats in an expression by calls of rules that count."""
        if isinstance(expression, Series | Choice):
            return type(expression)([self._without_counts(part, rule) for part in expression.parts])
        if not isinstance(expression, Repeat):
            return expression
        part = self._without_counts(expression.part, rule)
        low, high = expression.low, expression.high
        times = low + 1 if high is None else high
        if times < 2 or times * parts_of(part) <= UNROLLED:
            return Repeat(part, low, high)
        name = f"{rule}{{{low},{'' if high is None else high}}}#{len(self.counted)}"
        if isinstance(part, Call):
            once = part.rule
        else:
            once = f"{name}.once"
            self.rules[once] = part
        self.counted[name] = once, low, high
        self.rules[name] = Repeat(Call(once), low, high)
        return Call(name)

    # ------------------------------------------------------------ terminals and lengths

    def table(self, text: Text) -> Table:
        """Return the table of a terminal's automaton."""
        found = self._tables.get(id(text))
        if found is None:
            found = self._tables[id(text)] = Table(text.words)
            found.commits = text.commits
        return found

    @cached_property
    def lengths(self) -> dict[str, Lengths]:
        """The lengths of the shortest texts of each rule."""
        found = dict.fromkeys(self.rules, NOTHING)
        callers: dict[str, list[str]] = {name: [] for name in self.rules}
        for name, expression in self.rules.items():
            for called in {call.rule for call, _, _ in calls(expression)}:
                callers[called].append(name)
        todo = deque(reversed(self.rules))  # called rules are mostly defined after those that call them
        waiting = set(todo)
        while todo:
            waiting.discard(name := todo.popleft())
            spend(5)
            now = self._measured(self.rules[name], found)
            if now != found[name]:
                found[name] = now
                todo += [caller for caller in callers[name] if caller not in waiting]
                waiting.update(callers[name])
        return found

    def _measured(self, expression: Expression, known: Mapping[str, Lengths]) -> Lengths:
        """Return the lengths of an expression's shortest texts, given those of the rules."""
        if isinstance(expression, Text):
            return self.table(expression).lengths
        if isinstance(expression, Call):
            return known[expression.rule]
        if isinstance(expression, Without):
            raise UnsupportedConstraint(
                "a difference is no part of a machine", path=f"line {expression.line}"
            )
        if isinstance(expression, Repeat):
            once = self._measured(expression.part, known)
            return times(once, expression.low, expression.high)
        parts = [self._measured(part, known) for part in expression.parts]
        if isinstance(expression, Choice):
            return Lengths(
                min((p.least for p in parts), default=math.inf),
                min((p.nonempty for p in parts), default=math.inf),
            )
        least = sum(p.least for p in parts)
        more = min((p.nonempty for p in parts), default=math.inf)
        return Lengths(least, least if least > 0 else more)

    # ------------------------------------------------------------ networks

    @cached_property
    def written_out(self) -> frozenset[str]:
        """The rules that are inlined where they are called."""
        sites: dict[str, int] = dict.fromkeys(self.rules, 0)
        called: dict[str, list[str]] = {}
        for name, expression in self.rules.items():
            called[name] = [call.rule for call, _, _ in calls(expression)]
            for other in called[name]:
                sites[other] += 1
        kept = {self.start, *self.counted, *(once for once, _, _ in self.counted.values())}
        order = postorder(called, self.start, kept)
        size, deep, found = dict[str, int](), dict[str, int](), set[str]()
        for name in order:
            within = [other for other in called[name] if other in found]
            size[name] = parts_of(self.rules[name]) + sum(size[other] for other in within)
            deep[name] = 1 + max((deep[other] for other in within), default=0)
            most = LONG if sites[name] == 1 else SHORT
            if name not in kept and size[name] <= most and deep[name] <= DEEP:
                found.add(name)
        return frozenset(found)

    def network(self, rule: str) -> list[list[Arc]]:
        """Return the arcs that leave each node of a rule's network, trimmed at the end.

        Node 0 is the start, node 1 the end.
        """
        found = self._networks.get(rule)
        if found is None:
            found = self._networks[rule] = self._network(self.rules[rule])
        return found

    def _network(self, expression: Expression) -> list[list[Arc]]:
        arcs: list[list[Arc]] = [[], []]
        lengths, inlined = self.lengths, self.written_out

        def node() -> int:
            if len(arcs) >= limits.STATES:
                raise TooManyStates(f"a rule has more than {limits.STATES} parts", limit=limits.STATES)
            arcs.append([])
            return len(arcs) - 1

        def walk(part: Expression, source: int, target: int) -> None:
            if isinstance(part, Text):
                if self.table(part).lengths.least < math.inf:
                    arcs[source].append((part, target))
            elif isinstance(part, Call):
                if part.rule in inlined:
                    walk(self.rules[part.rule], source, target)
                elif lengths[part.rule].least < math.inf:
                    arcs[source].append((part.rule, target))
            elif isinstance(part, Choice):
                for option in part.parts:
                    walk(option, source, target)
            elif isinstance(part, Series):
                here = source
                for i, each in enumerate(part.parts):
                    there = target if i == len(part.parts) - 1 else node()
                    walk(each, here, there)
                    here = there
                if not part.parts:
                    arcs[source].append((None, target))
            elif isinstance(part, Repeat):
                repeat(part, source, target)

        def repeat(part: Repeat, source: int, target: int) -> None:
            here = source
            for _ in range(part.low):
                there = node()
                walk(part.part, here, there)
                here = there
            if part.high is None:
                there = node()  # a new node for the loop, since `here` may have other arcs
                arcs[here].append((None, there))
                walk(part.part, there, there)
                here = there
            for _ in range(part.low, part.high or 0):
                arcs[here].append((None, target))
                there = node()
                walk(part.part, here, there)
                here = there
            if part.high is None or part.high >= part.low:
                arcs[here].append((None, target))

        walk(expression, 0, 1)
        spend(2 * len(arcs))
        return leading_to_the_end(arcs)


def times(once: Lengths, low: int, high: int | None) -> Lengths:
    """Return the lengths of the shortest texts of a repeat."""
    if high is not None and high < low:
        return NOTHING
    least = once.least * low if low else 0.0
    nonempty = least if least > 0 else (once.nonempty if high != 0 else math.inf)
    return Lengths(least, nonempty)


def parts_of(expression: Expression) -> int:
    """Count the arcs of an expression's network, approximately."""
    if isinstance(expression, Series | Choice):
        return 1 + sum(map(parts_of, expression.parts))
    if isinstance(expression, Repeat):
        times = expression.low + 1 if expression.high is None else expression.high
        return 1 + times * parts_of(expression.part)
    return 1


def postorder(called: Mapping[str, list[str]], start: str, kept: set[str]) -> list[str]:
    """Return the rules reached from ``start`` in postorder of the call graph: those that a rule calls come before it.

    Rules to which a back edge leads, that is, recursive ones, are added to ``kept``.
    """
    order, entered, left = list[str](), {start}, set[str]()
    stack: list[tuple[str, Iterator[str]]] = [(start, iter(called[start]))]
    while stack:
        name, rest = stack[-1]
        other = next(rest, None)
        if other is None:
            stack.pop()
            left.add(name)
            order.append(name)
        elif other not in entered:
            entered.add(other)
            stack.append((other, iter(called[other])))
        elif other not in left:
            kept.add(other)
    return order


def leading_to_the_end(arcs: list[list[Arc]]) -> list[list[Arc]]:
    """Drop the arcs to nodes from which the end cannot be reached."""
    before: list[list[int]] = [[] for _ in arcs]
    for source, leaving in enumerate(arcs):
        for _, target in leaving:
            before[target].append(source)
    alive, todo = {1}, [1]
    while todo:
        for source in before[todo.pop()]:
            if source not in alive:
                alive.add(source)
                todo.append(source)
    return [[(label, t) for label, t in leaving if t in alive] for leaving in arcs]
