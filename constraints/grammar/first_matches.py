"""Rules that end at their first match, beside other terminals that may stand at the same place.

Where a text of such a rule (``[lazy]``, ``[suffix=…]``, ``[stop=…]``) begins another terminal, that terminal is given up: of a
terminal X beside the rules T,

    X without those of its texts that begin with one of T, but such as T ends too and X cannot go on from

What stands at the same place depends on what calls a rule and on what follows it, so rules are copied for each such case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa
from ..automata.work import spend
from ..program import nodes, tables
from ..program.node import Kind
from . import tree
from .tree import Choice, Expression, Ref, Repeat, Rules, Series, Text, Without

Texts = frozenset[Text]
NONE: Texts = frozenset()


def with_first_matches(grammar: Rules, start: str) -> tuple[Rules, str]:
    """Return the rules of a grammar in which no terminal runs over the end of a rule that ends at its first match."""
    rules = {name: without_itself(name, e) for name, e in grammar.rules.items()}
    copier = FirstMatchCopier(replace(grammar, rules=rules), start)
    first = copier.rule(start, NONE, NONE)
    return Rules(copier.rules, copier.lines, grammar.narrowed, copier.budgets), first


def without_itself(name: str, e: Expression) -> Expression:
    """Return the expression of a rule that does not begin with itself: ``A = B | A C`` is ``B C*``."""
    options = e.parts if isinstance(e, Choice) else [e]
    more = [rest for option in options if (rest := after_itself(name, option)) is not None]
    once = [option for option in options if after_itself(name, option) is None]
    return Series([Choice(once), Repeat(Choice(more), 0, None)]) if more else e


def after_itself(name: str, option: Expression) -> Expression | None:
    """Return what follows the call of a rule that begins an alternative; None if none does."""
    first, *rest = option.parts if isinstance(option, Series) and option.parts else [option]
    return Series(rest) if isinstance(first, Ref) and first.rule == name else None


class FirstMatchCopier:
    """Copies rules so that each copy knows the terminals that may begin in its place, and after it; see the module."""

    def __init__(self, grammar: Rules, start: str) -> None:
        self.grammar = grammar
        self.rules: dict[str, Expression] = {}
        self.lines = dict(grammar.lines)
        self.budgets = dict(grammar.budgets)
        reached = tree.reachable_rules(grammar.rules, start)
        rules = {name: grammar.rules[name] for name in reached}
        self.empty = dict.fromkeys(reached, False)
        self.first = dict.fromkeys(reached, NONE)
        self.more = dict.fromkeys(reached, NONE)
        tree.settle(rules, self.empty, lambda name: self.is_empty(rules[name]))
        tree.settle(rules, self.first, lambda name: self.begins(rules[name]))
        tree.settle(rules, self.more, lambda name: self.goes_on(rules[name]))
        self.refuse_left_recursion(rules)
        self._names: dict[tuple[str, Texts, Texts], str] = {}
        self._cut: dict[tuple[Text, Texts], Text] = {}

    # ------------------------------------------------------------ which of these rules begin where

    def is_empty(self, e: Expression) -> bool:
        """Return whether an expression has the empty text."""
        return tree.has_empty_text(e, self.empty)

    def begins(self, e: Expression) -> Texts:
        """Return the rules that end at their first match and may begin an expression."""
        match e:
            case Text():
                return frozenset([e]) if e.ends_first else NONE
            case Ref():
                return self.first.get(e.rule, NONE)
            case Repeat() | Without():
                return self.begins(e.part)
            case Choice():
                return NONE.union(*map(self.begins, e.parts))
        return self.in_a_row(e.parts, NONE)

    def in_a_row(self, parts: Sequence[Expression], after: Texts) -> Texts:
        """Return what may begin some parts and what follows them."""
        found = NONE
        for part in parts:
            found |= self.begins(part)
            if not self.is_empty(part):
                return found
        return found | after

    def goes_on(self, e: Expression) -> Texts:
        """Return what may begin after a text of an expression, within it."""
        match e:
            case Ref():
                return self.more.get(e.rule, NONE)
            case Repeat():
                return self.goes_on(e.part) | (self.begins(e.part) if e.high != 1 else NONE)
            case Choice():
                return NONE.union(*map(self.goes_on, e.parts))
            case Series():
                return self.after(e.parts)
        return NONE

    def after(self, parts: Sequence[Expression]) -> Texts:
        """Return what may begin after some parts, within them."""
        found = NONE
        for part in reversed(parts):
            found |= self.goes_on(part)
            if not self.is_empty(part):
                break
            found |= self.begins(part)
        return found

    def refuse_left_recursion(self, rules: Mapping[str, Expression]) -> None:
        """Raise ``UnsupportedConstraint`` if rules begin with each other: what goes on after one is not known."""
        begun: dict[str, frozenset[str]] = {name: frozenset() for name in self.empty}
        tree.settle(rules, begun, lambda name: frozenset(self.rules_first(rules[name], begun)))
        for name, first in begun.items():
            if name in first:
                raise UnsupportedConstraint(
                    f"{name!r} begins with itself through other rules, beside rules that end at their first match (lazy, suffix, "
                    "stop): write repeats with *, + or {n,m}",
                    path=self.grammar.where(name),
                )

    def rules_first(self, e: Expression, begun: Mapping[str, frozenset[str]]) -> Iterator[str]:
        """Yield the rules that may begin an expression, and those that may begin these."""
        if isinstance(e, Ref):
            yield e.rule
            yield from begun[e.rule]
        for part in tree.parts_of(e):
            yield from self.rules_first(part, begun)
            if isinstance(e, Series) and not self.is_empty(part):
                return

    # ------------------------------------------------------------ copies

    def rule(self, name: str, beside: Texts, after: Texts) -> str:
        """Return the name of the copy of a rule for terminals that may begin ``beside`` it, or ``after`` it."""
        key = name, beside, after
        if key not in self._names:
            spend(10)
            new = self._names[key] = f"{name} beside {len(self._names)}" if self._names else name
            if name in self.grammar.lines:
                self.lines[new] = self.grammar.lines[name]
            if name in self.budgets:
                self.budgets[new] = self.budgets[name]
            self.rules[new] = Choice([])
            self.rules[new] = self.copy(self.grammar.rules[name], beside, after)
        return self._names[key]

    def copy(self, e: Expression, beside: Texts, after: Texts) -> Expression:
        """Return the copy of an expression."""
        match e:
            case Text():
                return self.cut(e, beside)
            case Ref():
                return Ref(self.rule(e.rule, beside, after), e.line)
            case Choice():
                beside |= self.begins(e)
                return Choice([self.copy(part, beside, after) for part in e.parts])
            case Repeat():
                return self.copied_repeat(e, beside, after)
            case Without():
                return Without(self.copy(e.part, beside, after), self.copy(e.minus, NONE, NONE), e.line)
        found = []
        for i, part in enumerate(e.parts):
            now = self.in_a_row(e.parts[i:], after) | self.after(e.parts[:i])
            if all(map(self.is_empty, e.parts[:i])):
                now |= beside
            found.append(self.copy(part, now, self.in_a_row(e.parts[i + 1 :], after)))
        return Series(found)

    def copied_repeat(self, e: Repeat, beside: Texts, after: Texts) -> Expression:
        """Return the copy of a repeat: its first item, those that must follow and those that may."""
        own = self.begins(e.part) | self.goes_on(e.part)
        ends = after if e.low == 0 else NONE
        head = beside | self.begins(e.part) | ends
        if head == own == own | after:
            return Repeat(self.copy(e.part, own, own), e.low, e.high)
        most = None if e.high is None else e.high - max(e.low, 1)
        found: list[Expression] = [self.copy(e.part, head, own | after)]
        if e.low > 1:
            found.append(Repeat(self.copy(e.part, own, own | after), e.low - 1, e.low - 1))
        if most != 0:
            found.append(Repeat(self.copy(e.part, own | after, own | after), 0, most))
        return Repeat(Series(found), 0, 1) if e.low == 0 else Series(found)

    def cut(self, text: Text, beside: Texts) -> Text:
        """Return a terminal without its texts that begin with a text of a neighbour, which would have matched first."""
        others = frozenset(other for other in beside if other is not text)
        if not others:
            return text
        if (text, others) not in self._cut:
            self._cut[text, others] = unshadowed(text, others)
        return self._cut[text, others]


def unshadowed(text: Text, others: Texts) -> Text:
    """Return a terminal without its texts that begin with a text of one of the others: there the other would have matched first.

    A text that the other has as well stays where the terminal cannot go on after it: both end there.
    """
    # in an order that is the same in every process, as that of a set of them is not
    known = sorted((other.node.tables[0] for other in others), key=lambda found: found.edges.tobytes())
    begun = nfa.union(map(tables.to_nfa, known))
    longer = nfa.concat([begun, nfa.byte_ranges([(0, 255)]), nfa.ANYTHING])
    if text.node.kind is not Kind.LEX:
        return Text(nodes.within(text.node, tables.of_nfa(dfa.complement(longer))))
    words = tables.to_nfa(text.node.tables[0])
    gone = longer
    if not text.ends_first:
        plain = dfa.minimize(words)
        last = [state for state in plain.accept.tolist() if not plain.rows[state]]
        gone = nfa.union([longer, dfa.difference(begun, plain.between(accept=last))])
    if dfa.intersect(words, gone).is_empty:
        return text
    return tree.text_of(dfa.difference(words, gone), text.ends_first)
