"""The terminals that may follow each rule of a grammar (FOLLOW of LL parsers)."""

from __future__ import annotations

from ..program.nodes import EMPTY
from . import tree
from .tree import Choice, Expression, Ref, Repeat, Rules, Series, Text

Texts = frozenset[Text]
END = Text(EMPTY)
"""The end of a text."""


class Following:
    """The terminals that may begin each rule (``first``) and that may follow it (``follow``)."""

    def __init__(self, grammar: Rules, start: str) -> None:
        rules = {name: grammar.rules[name] for name in tree.reachable_rules(grammar.rules, start)}
        self.empty = dict.fromkeys(rules, False)
        tree.settle(rules, self.empty, lambda name: tree.has_empty_text(rules[name], self.empty))
        self.first: dict[str, Texts] = dict.fromkeys(rules, frozenset())
        tree.settle(rules, self.first, lambda name: self.begins(rules[name]))
        self.follow: dict[str, Texts] = dict.fromkeys(rules, frozenset())
        self.follow[start] = frozenset([END])
        todo = dict.fromkeys(rules)
        while todo:
            name, _ = todo.popitem()
            for rule, after in self.calls(rules[name], self.follow[name]):
                if not after <= self.follow[rule]:
                    self.follow[rule] |= after
                    todo[rule] = None

    def begins(self, e: Expression) -> Texts:
        """Return the terminals that may begin an expression."""
        match e:
            case Text():
                return frozenset([e])
            case Ref():
                return self.first[e.rule]
            case Choice():
                return frozenset().union(*map(self.begins, e.parts))
            case Series():
                found: Texts = frozenset()
                for part in e.parts:
                    found |= self.begins(part)
                    if not tree.has_empty_text(part, self.empty):
                        break
                return found
        return frozenset() if isinstance(e, Repeat) and e.high == 0 else self.begins(e.part)

    def calls(self, e: Expression, after: Texts) -> list[tuple[str, Texts]]:
        """Return the rules that an expression calls, with what may follow each; ``after``: what may follow the expression."""
        match e:
            case Text():
                return []
            case Ref():
                return [(e.rule, after)]
            case Choice():
                return [each for part in e.parts for each in self.calls(part, after)]
            case Series():
                found = []
                for part in reversed(e.parts):
                    found += self.calls(part, after)
                    begins = self.begins(part)
                    after = begins | after if tree.has_empty_text(part, self.empty) else begins
                return found
            case Repeat():
                if e.high == 0:
                    return []
                return self.calls(e.part, after if e.high == 1 else after | self.begins(e.part))
        return self.calls(e.part, after)
