"""The rules of a grammar as expression trees, with checks that they are defined and end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from ...errors import EmptyLanguage, UnsupportedConstraint
from ..automata.nfa import Nfa
from ..automata.work import spend
from ..narrowing import Narrowing
from ..program import nodes, tables
from ..program.left_recursion import nullable
from ..program.node import Kind, Node

V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class Text:
    """The texts of a node.

    ``ends_first``: they are those of a rule that ends at its first match, before other terminals that begin with it.
    ``before``: what may follow them, up to the end; None: anything.
    """

    node: Node
    ends_first: bool = False
    before: Nfa | None = None

    @cached_property
    def is_empty(self) -> bool:
        """Whether the empty text is one of them."""
        lex = self.node.kind is Kind.LEX
        return bool(self.node.tables[0].label[0] >= 0) if lex else self.node in nullable(self.node)


class Compound:
    """An expression that is made of others."""

    @cached_property
    def called(self) -> Sequence[Ref]:
        """The calls in it."""
        return [each for each in expressions(self) if isinstance(each, Ref)]


def text_of(words: Nfa, ends_first: bool = False) -> Text:
    """Return an expression of the words that an automaton accepts; ``ends_first``: see :class:`Text`."""
    return Text(nodes.lex(tables.of_nfa(words)), ends_first)


@dataclass(frozen=True, eq=False)
class Ref:
    """A reference to a rule by its name; ``line``: where it stands in the grammar."""

    rule: str
    line: int = 0


@dataclass(frozen=True, eq=False)
class Series(Compound):
    """The concatenation of expressions."""

    parts: Sequence[Expression]


@dataclass(frozen=True, eq=False)
class Choice(Compound):
    """The union of expressions."""

    parts: Sequence[Expression]


@dataclass(frozen=True, eq=False)
class Repeat(Compound):
    """An expression ``low`` to ``high`` times (``high=None``: no upper bound)."""

    part: Expression
    low: int
    high: int | None


@dataclass(frozen=True, eq=False)
class Without(Compound):
    """The texts of ``part`` that are not texts of ``minus``."""

    part: Expression
    minus: Expression
    line: int = 0


Expression = Text | Ref | Series | Choice | Repeat | Without


@dataclass(frozen=True, eq=False)
class Layout:
    """What an indenter of Lark says: the terminals of line breaks, indentation and parentheses, and the width of a tab.

    ``newline``, ``indent``, ``dedent``, ``opening``, ``closing``: names of terminals; ``tab``: columns. ``breaks``: NEWLINE up
    to its last line break, with ignored text before it. ``begun``, ``inside``: by terminal, its texts (with ignored text before
    them) at the beginning of a line, and inside parentheses. ``end``: the ignored text that may end the whole.
    """

    newline: str
    indent: str
    dedent: str
    opening: frozenset[str]
    closing: frozenset[str]
    tab: int
    breaks: Text
    begun: dict[Text, Text] = field(default_factory=dict)
    inside: dict[Text, Text] = field(default_factory=dict)
    end: Text | None = None


@dataclass(frozen=True, eq=False)
class Rules:
    """A grammar: its rules, the line of each, and its narrowings.

    ``budgets``: the most tokens of a text of a rule; ``layout``: how its blocks are indented.
    """

    rules: Mapping[str, Expression]
    lines: Mapping[str, int] = field(default_factory=dict)
    narrowed: tuple[Narrowing, ...] = ()
    budgets: Mapping[str, int] = field(default_factory=dict)
    layout: Layout | None = None

    def where(self, rule: str) -> str:
        """Return the place of a rule, for messages."""
        return f"line {self.lines[rule]}" if rule in self.lines else f"rule {rule}"


def has_empty_text(e: Expression, empty: Mapping[str, bool]) -> bool:
    """Return whether an expression has the empty text; ``empty``: the rules of which that is known."""
    match e:
        case Text():
            return e.is_empty
        case Ref():
            return empty.get(e.rule, False)
        case Repeat():
            return e.low == 0 or has_empty_text(e.part, empty)
        case Without():
            return has_empty_text(e.part, empty) and not has_empty_text(e.minus, empty)
    return (all if isinstance(e, Series) else any)(has_empty_text(part, empty) for part in e.parts)


def parts_of(expression: Expression | Compound) -> Sequence[Expression]:
    """Return the expressions that an expression is made of."""
    if isinstance(expression, Series | Choice):
        return expression.parts
    if isinstance(expression, Repeat):
        return (expression.part,)
    return (expression.part, expression.minus) if isinstance(expression, Without) else ()


def calls(expression: Expression) -> Sequence[Ref]:
    """Return the calls in an expression."""
    if isinstance(expression, Text):
        return ()
    return (expression,) if isinstance(expression, Ref) else expression.called


def expressions(*given: Expression | Compound) -> Iterator[Expression | Compound]:
    """Yield some expressions and those that they are made of, in the order in which they stand."""
    todo = list(reversed(given))
    while todo:
        yield (expression := todo.pop())
        if isinstance(expression, Compound):
            todo += reversed(parts_of(expression))


def reachable_rules(rules: Mapping[str, Expression], start: str) -> dict[str, None]:
    """Return the defined rules that the start rule reaches, itself included, in the order in which they are met."""
    reached, stack = {start: None}, [start]
    while stack:
        for call in calls(rules[stack.pop()]):
            if call.rule in rules and call.rule not in reached:
                reached[call.rule] = None
                stack.append(call.rule)
    return reached


def check(grammar: Rules, start: str) -> None:
    """Raise ``UnsupportedConstraint`` if a rule that the start reaches is undefined or never ends."""
    for name in (reached := reachable_rules(grammar.rules, start)):
        for call in calls(grammar.rules[name]):
            if call.rule not in grammar.rules:
                prose = call.rule[:1] == "<" and " " in call.rule
                what = "says in words what a rule must say" if prose else "is not defined"
                raise UnsupportedConstraint(f"the rule {call.rule!r} {what}", path=f"line {call.line}")
    rules, every = {rule: grammar.rules[rule] for rule in reached}, dict.fromkeys(reached, True)
    ends = dict.fromkeys(reached, False)
    settle(rules, ends, lambda name: can_end(rules[name], ends))
    barren = [rule for rule in grammar.rules if not ends.get(rule, True)]
    if barren:
        rule = next((r for r in barren if not can_end(rules[r], every)), barren[0])
        message = f"the rule {rule!r} never ends: each of its alternatives needs a rule that needs it again"
        if isinstance(rules[rule], Text):
            message = f"{rule!r} matches no text"
        elif not can_end(rules[rule], every):
            message = f"the rule {rule!r} matches nothing: part of it matches no text"
        if not ends[start]:
            raise EmptyLanguage(f"the grammar has no text: {message} (at {grammar.where(rule)})")
        raise UnsupportedConstraint(message, path=grammar.where(rule))
    for name, body in rules.items():
        for part in expressions(body):
            if isinstance(part, Without) and any(name in reachable_rules(rules, c.rule) for c in calls(part)):
                why = f"the rule {name!r} calls itself within x - y: take y away from a rule that it does not call"
                raise UnsupportedConstraint(why, path=f"line {part.line}")


def settle(rules: Mapping[str, Expression], known: dict[str, V], value: Callable[[str], V]) -> None:
    """Change what is known of each rule to its value, until all stay; a value depends on those of the rules that are called."""
    callers: dict[str, dict[str, None]] = {rule: {} for rule in rules}
    for rule, expression in rules.items():
        for call in calls(expression):
            callers.setdefault(call.rule, {})[rule] = None
    waiting = dict.fromkeys(known)
    while waiting:
        rule, _ = waiting.popitem()
        found = value(rule)
        spend(5)
        if found != known[rule]:
            known[rule] = found
            waiting.update(dict.fromkeys(each for each in callers[rule] if each in known))


def can_end(e: Expression, ends: Mapping[str, bool]) -> bool:
    """Return whether an expression has a text; ``ends``: the rules of which that is known."""
    match e:
        case Text():
            return not e.node.is_nothing
        case Ref():
            return ends.get(e.rule, False)
        case Repeat():
            return e.low == 0 or can_end(e.part, ends)
        case Without():
            return can_end(e.part, ends)
    return (all if isinstance(e, Series) else any)(can_end(part, ends) for part in e.parts)
