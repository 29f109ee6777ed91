"""The rules of a grammar that say what may stand where a text stops, and their texts in a whole one, by Earley's algorithm.

    items(k)  =  (rule, what is left of it, where it began)  of all beginnings of derivations that have read k bytes

What is left is a stack of expressions. The two sides of ``x - y`` are read as ``x``, and what terminals look ahead for is not
asked: a rule too many may be named, none is missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...errors import FormatError
from ..automata.work import limited, spend
from ..engine.bytes import Bytes
from ..engine.tokens import NO_STATE
from ..validation import short
from .tree import Choice, Expression, Ref, Repeat, Rules, Series, Text, Without

NAME = re.compile(r"<?[^\W\d][^\"/{]*")
"""The name of a rule; Lark's texts without one are named by themselves, and templates by what they are given."""
Left = tuple[Any, ...] | None
"""A stack: an expression, the rounds of a repeat that are over, and the stack below; None if nothing is left."""
Trail = tuple[Any, ...] | None
"""What an item has read: the trail before its last rule, this rule, its first byte and its end, and its own trail."""


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
        going = chart.after(text.encode())
        stack = [each.after for each in going if chart.of(each.text).allowed(each.state)][::-1]
        names, seen = dict[str, None](), set[Item]()
        while stack:
            item = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            if item.rule in rules.lines and NAME.fullmatch(item.rule):
                names[item.rule] = None
            elif item.rule:
                stack += [each for each, _ in chart.waiting[item.origin][item.rule][::-1]]
    return tuple(f"rule {name} (line {rules.lines[name]})" for name in names)


def captures(rules: Rules, first: str, names: Sequence[str], text: str) -> dict[str, str | None]:
    """Return the last text of each of some rules in a reading of a text, None for none. Without one raise ``FormatError``."""
    chart, data, found = Chart(rules, first), text.encode(), dict.fromkeys(names)
    with limited():
        chart.after(data)
    if chart.whole is None:
        raise FormatError(f"{short(text)} is no text of the grammar")
    trails, seen = [chart.whole], set[int]()  # a trail that several rules share is followed once
    while trails:
        if (trail := trails.pop()) is not None and id(trail) not in seen:
            seen.add(id(trail))
            before, rule, start, end, own = trail
            if rule in found and found[rule] is None:
                found[rule] = data[start:end].decode()
            trails += [before, own]
    return found


class Chart:
    """The items of a grammar after each byte of a text."""

    def __init__(self, rules: Rules, first: str) -> None:
        self.rules, self.first = rules.rules, first
        self.states: dict[Text, Bytes] = {}
        # By byte and rule: what goes on after it.
        self.waiting: list[dict[str, list[tuple[Item, Trail]]]] = []
        self.whole: Trail = None  # of a text of the grammar

    def after(self, data: bytes) -> dict[OpenText, Trail]:
        """Return the texts of rules that may go on after a text, or have ended there; of several trails to one, the first."""
        open_: list[tuple[Item, Trail]] = [(Item("", 0, (Ref(self.first), 0, None)), None)]
        found = self.closed(open_, {}, 0)
        for at, byte in enumerate(data, 1):
            read = dict[OpenText, Trail]()
            for each, trail in found.items():
                spend(5)
                state = self.of(each.text).step(each.state, byte)
                if state != NO_STATE:
                    read.setdefault(each._replace(state=state), trail)
            found = self.closed([], read, at)
        return found

    def of(self, text: Text) -> Bytes:
        """Return the states of a text."""
        if text not in self.states:
            self.states[text] = Bytes(text.node)
        return self.states[text]

    def closed(
        self, items: list[tuple[Item, Trail]], read: dict[OpenText, Trail], at: int
    ) -> dict[OpenText, Trail]:
        """Follow all items at a byte; return the texts that are read there."""
        waiting: dict[str, list[tuple[Item, Trail]]] = defaultdict(list)
        self.waiting.append(waiting)
        self.whole, empty = None, dict[str, Trail]()  # empty: the rules that began and ended here
        found, seen = dict(read), set[Item]()
        ended = [(one.after, trail) for one, trail in read.items() if self.of(one.text).accepting(one.state)]
        stack = [*items, *ended]
        while stack:
            item, trail = stack.pop()
            if item in seen:
                continue
            seen.add(item)
            spend(5)
            rule, origin, left = item
            if left is None:
                self.whole = self.whole if rule else trail
                if origin == at:
                    empty[rule] = trail
                stack += [(each, (old, rule, origin, at, trail)) for each, old in self.waiting[origin][rule]]
                continue
            e, rounds, below = left
            after = item._replace(left=below)
            if isinstance(e, Text):
                states = self.of(e)
                found.setdefault(OpenText(e, states.start, after), trail)
                stack += [(after, trail)] * e.is_empty
            elif isinstance(e, Ref):
                waiting[e.rule].append((after, trail))
                stack.append((Item(e.rule, at, (self.rules[e.rule], 0, None)), None))
                if e.rule in empty:
                    stack.append((after, (trail, e.rule, at, at, empty[e.rule])))
            else:
                stack += [(item._replace(left=each), trail) for each in ways(e, rounds, below)]
        return found


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
