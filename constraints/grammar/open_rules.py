"""The rules of a grammar that say what may stand where an unfinished text stops, by Earley's algorithm.

    items(k)  =  (rule, what is left of it, where it began)  of all beginnings of derivations that have read k bytes

What is left is a stack of expressions. The two sides of ``x - y`` are read as ``x``, and what terminals look ahead for is not
asked: a rule too many may be named, none is missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from ..automata.work import limited, spend
from ..engine.bytes import Bytes
from ..engine.tokens import NO_STATE
from .tree import Choice, Expression, Ref, Repeat, Rules, Series, Text, Without

NAME = re.compile(r"<?[^\W\d][^\"/{]*")
"""The name of a rule; Lark's texts without one are named by themselves, and templates by what they are given."""
Left = tuple[Any, ...] | None
"""A stack: an expression, the rounds of a repeat that are over, and the stack below; None if nothing is left."""


class Item(NamedTuple):
    """A rule that began at a byte, with what is left of it."""

    rule: str
    origin: int
    left: Left


class OpenText(NamedTuple):
    """A text of a rule that has begun: its automaton's state, and the item after it."""

    text: Text
    state: int
    after: Item


def open_rules(rules: Rules, first: str, text: str, _: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the rules whose texts may go on, or begin, after the beginning of an accepted text: "rule value (line 3)".

    Rules that others call are named, not those that call them; of a text without a name, those it stands in. Raises
    ``TooManyStates`` for texts that take too much work.
    """
    with limited():
        chart = Chart(rules, first)
        stack = [each.after for each in chart.after(text.encode())][::-1]
        names, seen = dict[str, None](), set[Item]()
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            if item.rule in rules.lines and NAME.fullmatch(item.rule):
                names[item.rule] = None
            elif item.rule:
                stack += chart.waiting[item.origin][item.rule][::-1]
    return tuple(f"rule {name} (line {rules.lines[name]})" for name in names)


class Chart:
    """The items of a grammar after each byte of a text."""

    def __init__(self, rules: Rules, first: str) -> None:
        self.rules, self.first = rules.rules, first
        self.states: dict[Text, Bytes] = {}
        self.waiting: list[dict[str, list[Item]]] = []  # by byte and rule: what goes on after it

    def after(self, data: bytes) -> list[OpenText]:
        """Return the texts of rules that may go on after a text."""
        open_, found = [Item("", 0, (Ref(self.first), 0, None))], list[OpenText]()
        for at in range(len(data) + 1):
            found = self.closed(open_, found, at)
            if at == len(data):
                break
            read, open_ = list[OpenText](), []
            for each in found:
                spend(5)
                state = self.of(each.text).step(each.state, data[at])
                if state != NO_STATE:
                    read.append(each._replace(state=state))
            found = list(dict.fromkeys(read))
        return [each for each in found if self.of(each.text).allowed(each.state)]

    def of(self, text: Text) -> Bytes:
        """Return the states of a text."""
        if text not in self.states:
            self.states[text] = Bytes(text.node)
        return self.states[text]

    def closed(self, items: list[Item], read: list[OpenText], at: int) -> list[OpenText]:
        """Follow all items at a byte; return the texts that are read there."""
        waiting: dict[str, list[Item]] = defaultdict(list)
        self.waiting.append(waiting)
        empty: set[str] = set()  # rules that began and ended here
        found = dict.fromkeys(read)
        stack = [*items, *(each.after for each in read if self.of(each.text).accepting(each.state))]
        seen: set[Item] = set()
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            spend(5)
            rule, origin, left = item
            if left is None:
                if origin == at:
                    empty.add(rule)
                stack += self.waiting[origin][rule]
                continue
            e, rounds, below = left
            if isinstance(e, Text):
                states = self.of(e)
                after = item._replace(left=below)
                found[OpenText(e, states.start, after)] = None
                stack += [after] * e.is_empty
            elif isinstance(e, Ref):
                after = item._replace(left=below)
                waiting[e.rule].append(after)
                stack.append(Item(e.rule, at, (self.rules[e.rule], 0, None)))
                stack += [after] * (e.rule in empty)
            else:
                stack += [item._replace(left=each) for each in ways(e, rounds, below)]
        return list(found)


def ways(e: Expression, rounds: int, below: Left) -> list[Left]:
    """Expand a compound expression: return the stacks that may replace it, what is read first on top.

    ``rounds``: how often a repeat has been read; ``below``: the stack under the expression.
    """
    if isinstance(e, Series):
        for part in reversed(e.parts):
            below = (part, 0, below)
        return [below]
    if isinstance(e, Choice):
        return [(part, 0, below) for part in e.parts]
    if isinstance(e, Without):
        return [(e.part, 0, below)]
    assert isinstance(e, Repeat)
    over = [below] if rounds >= e.low else []
    if e.high is not None and rounds >= e.high:
        return over
    following = min(rounds + 1, e.low) if e.high is None else rounds + 1
    return [*over, (e.part, 0, (e, following, below))]
