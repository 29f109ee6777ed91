"""The rules of a grammar as expression trees, with checks that they are defined and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...errors import EmptyLanguage, UnsupportedConstraint
from ..automata.nfa import Nfa
from ..narrowing import Narrowing


@dataclass(frozen=True, eq=False)
class Text:
    """The words of an automaton; ``name`` is its terminal's, if it has one.

    ``commits``: as soon as the text can end, all other readings are dropped.
    """

    words: Nfa
    name: str = ""
    commits: bool = False


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a rule."""

    rule: str
    line: int = 0


@dataclass(frozen=True, eq=False)
class Series:
    """The concatenation of expressions."""

    parts: Sequence[Expression]


@dataclass(frozen=True, eq=False)
class Choice:
    """The union of expressions."""

    parts: Sequence[Expression]


@dataclass(frozen=True, eq=False)
class Repeat:
    """An expression ``low`` to ``high`` times (``high=None``: no upper bound)."""

    part: Expression
    low: int
    high: int | None


@dataclass(frozen=True, eq=False)
class Without:
    """The texts of ``part`` that are not texts of ``minus``."""

    part: Expression
    minus: Expression
    line: int = 0


Budget = tuple[int, int | None]
"""The fewest and the most tokens of a text (None: no upper bound)."""
Expression = Text | Call | Series | Choice | Repeat | Without


@dataclass(frozen=True, eq=False)
class Rules:
    """A grammar: its rules, the line of each, and its narrowings.

    ``commits``: whether it has a terminal that commits. ``budgets``: the tokens that a text of a rule takes.
    """

    rules: Mapping[str, Expression]
    lines: Mapping[str, int] = field(default_factory=dict)
    narrowed: tuple[Narrowing, ...] = ()
    commits: bool = False
    budgets: Mapping[str, Budget] = field(default_factory=dict)

    def where(self, rule: str) -> str:
        """Return the place of a rule, for messages."""
        return f"line {self.lines[rule]}" if rule in self.lines else f"rule {rule}"


def mapped(expression: Expression, change: Callable[[Text | Call | Without], Expression]) -> Expression:
    """Return an expression with each text, call and difference changed."""
    if isinstance(expression, Series | Choice):
        return type(expression)([mapped(part, change) for part in expression.parts])
    if isinstance(expression, Repeat):
        return Repeat(mapped(expression.part, change), expression.low, expression.high)
    return change(expression)


def calls(expression: Expression, left: bool = True, right: bool = True) -> Iterator[tuple[Call, bool, bool]]:
    """Yield (call, whether nothing precedes it, whether nothing follows it) in an expression."""
    if isinstance(expression, Call):
        yield expression, left, right
    elif isinstance(expression, Series):
        last = len(expression.parts) - 1
        for i, part in enumerate(expression.parts):
            yield from calls(part, left and i == 0, right and i == last)
    elif isinstance(expression, Choice):
        for part in expression.parts:
            yield from calls(part, left, right)
    elif isinstance(expression, Repeat):
        once = expression.high == 1
        yield from calls(expression.part, left and once, right and once)
    elif isinstance(expression, Without):
        yield from calls(expression.part, False, False)
        yield from calls(expression.minus, False, False)


def reachable_rules(rules: Mapping[str, Expression], start: str) -> set[str]:
    """Return the defined rules that the start rule reaches, itself included."""
    reached, stack = {start}, [start]
    while stack:
        for call, _, _ in calls(rules[stack.pop()]):
            if call.rule in rules and call.rule not in reached:
                reached.add(call.rule)
                stack.append(call.rule)
    return reached


def check(grammar: Rules, start: str) -> None:
    """Raise ``UnsupportedConstraint`` if a rule that the start reaches is undefined or never ends."""
    for name in (reached := reachable_rules(grammar.rules, start)):
        for call, _, _ in calls(grammar.rules[name]):
            if call.rule not in grammar.rules:
                raise UnsupportedConstraint(
                    f"the rule {call.rule!r} is not defined", path=f"line {call.line}"
                )
    ends = ending({rule: grammar.rules[rule] for rule in reached})
    barren = [rule for rule in grammar.rules if rule in reached - ends]
    if barren:
        rule = next((r for r in barren if not can_end(grammar.rules[r], reached)), barren[0])
        message = f"the rule {rule!r} never ends: each of its alternatives needs a rule that needs it again"
        if not can_end(grammar.rules[rule], reached):
            empty = next((t.name for t in texts(grammar.rules[rule]) if t.name and t.words.is_empty), "")
            what = f"the terminal {empty}" if empty else "part of it"
            message = f"the rule {rule!r} matches nothing: {what} matches no text"
        if start not in ends:
            raise EmptyLanguage(f"the grammar has no text: {message} (at {grammar.where(rule)})")
        raise UnsupportedConstraint(message, path=grammar.where(rule))


def ending(rules: Mapping[str, Expression]) -> set[str]:
    """Return the rules that have a text."""
    callers: dict[str, set[str]] = {rule: set() for rule in rules}
    for rule, expression in rules.items():
        for call, _, _ in calls(expression):
            callers.setdefault(call.rule, set()).add(rule)
    found: set[str] = set()
    waiting = list(rules)
    while waiting:
        rule = waiting.pop()
        if rule not in found and can_end(rules[rule], found):
            found.add(rule)
            waiting += callers[rule]
    return found


def texts(expression: Expression) -> Iterator[Text]:
    """Yield the texts in an expression, at any depth, but not those that ``Without`` removes."""
    if isinstance(expression, Text):
        yield expression
    elif isinstance(expression, Series | Choice):
        for part in expression.parts:
            yield from texts(part)
    elif isinstance(expression, Repeat | Without):
        yield from texts(expression.part)


def can_end(expression: Expression, ends: set[str]) -> bool:
    """Return whether an expression has a text, given the rules known to have one."""
    if isinstance(expression, Text):
        return not expression.words.is_empty
    if isinstance(expression, Call):
        return expression.rule in ends
    if isinstance(expression, Repeat):
        return expression.low == 0 or can_end(expression.part, ends)
    if isinstance(expression, Without):
        return can_end(expression.part, ends)
    every = all if isinstance(expression, Series) else any
    return every(can_end(part, ends) for part in expression.parts)
