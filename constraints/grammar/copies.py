"""Copies of the rules of a grammar for the states of an automaton that reads terminals (Bar-Hillel, Perles and Shamir, 1961).

    A        becomes  A[p → q], the texts of A that lead from the state p to q
    A B      becomes  the union over r of  A[p → r] B[r → q]

Only the states that are reached are written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable

from ...errors import UnsupportedConstraint
from ..automata.work import spend
from .tree import Choice, Expression, Ref, Repeat, Rules, Series, Text, Without

MOST_COUNTED = 200  # repetitions that are written one by one, where states change within a counted repeat
Copies = dict[Hashable, Expression]
"""Expressions by the state to which their texts lead."""
Key = tuple[str, Hashable]


class Copier(ABC):
    """Copies rules, from the start rule on; see the module."""

    def __init__(self, grammar: Rules) -> None:
        self.grammar = grammar
        self.given = dict(grammar.rules)
        self.lines = dict(grammar.lines)
        self.budgets = dict(grammar.budgets)
        self.ends: dict[Key, dict[Hashable, None]] = {}  # the states to which a rule leads, from a state on
        self.extra: dict[str, Expression] = {}
        self.writing = False  # the states that are reached are known, and copies are written
        self._callers: dict[Key, dict[Key, None]] = {}
        self._todo: list[Key] = []
        self._now: Key = ("", None)
        self._names: dict[tuple[Key, Hashable], str] = {}
        self._repeats: dict[tuple[Expression, int, int | None], str] = {}

    @abstractmethod
    def text(self, text: Text, state: Hashable) -> Copies:
        """Return the texts of a terminal by the state to which they lead."""

    def copied(self, start: str, state: Hashable) -> tuple[Rules, str]:
        """Return the rules that the start rule needs from a state on, and its name."""
        self.call(Ref(start), state)
        while self._todo:
            self._now = key = self._todo.pop()
            found = dict.fromkeys(self.rule(*key))
            if found.keys() - self.ends[key].keys():
                self.ends[key] |= found
                self._todo += [caller for caller in self._callers[key] if caller in self.ends]
        rules, self.writing = self.extra, True
        for name, before in list(self.ends):
            copies = self.rule(name, before)
            for after in self.ends[name, before]:
                rules[self.name((name, before), after)] = copies[after]
        first = f"{start} of all states"
        rules[first] = Choice(
            [call for after, call in self.call(Ref(start), state).items() if self.may_end(after)]
        )
        return Rules(rules, self.lines, self.grammar.narrowed, self.budgets), first

    @abstractmethod
    def may_end(self, state: Hashable) -> bool:
        """Return whether a text may end in a state."""

    def rule(self, name: str, state: Hashable) -> Copies:
        """Return the copies of what a rule stands for."""
        return self.copies(self.given[name], state)

    def name(self, key: Key, after: Hashable) -> str:
        """Return the name of a copy."""
        if (key, after) not in self._names:
            new = self._names[key, after] = f"{key[0]} copy {len(self._names)}"
            for table in (self.lines, self.budgets):
                if key[0] in table:
                    table[new] = table[key[0]]
        return self._names[key, after]

    def copies(self, e: Expression, state: Hashable) -> Copies:
        """Return an expression's copies from a state on."""
        spend(2)
        match e:
            case Text():
                return self.text(e, state)
            case Ref():
                return self.call(e, state)
            case Choice():
                return joined([self.copies(part, state) for part in e.parts])
            case Repeat():
                return self.repeat(e, state)
            case Series():
                return self.series(e, state)
            case Without():
                raise UnsupportedConstraint(
                    "x - y is not read beside look-ahead and indentation", path=f"line {e.line}"
                )

    def call(self, e: Ref, state: Hashable) -> Copies:
        """Return a call's copies."""
        key = e.rule, state
        if key not in self.ends:
            self.ends[key] = {}
            self._callers[key] = {}
            self._todo.append(key)
        self._callers[key][self._now] = None
        return {after: Ref(self.name(key, after), e.line) for after in self.ends[key]}

    def series(self, e: Series, state: Hashable) -> Copies:
        """Return a concatenation's copies."""
        found: dict[Hashable, list[Expression]] = {state: []}
        for part in e.parts:
            ways: list[Copies] = []
            for between, before in found.items():
                copies = self.copies(part, between)
                ways.append({after: Series([*before, copy]) for after, copy in copies.items()})
            found = {after: [way] for after, way in joined(ways).items()}
        return {after: Series(parts) for after, parts in found.items()}

    def repeat(self, e: Repeat, state: Hashable) -> Copies:
        """Return a repeat's copies: a repeat where the state stays, else its first item and the rest."""
        part = {} if e.high == 0 else self.copies(e.part, state)
        if not part:
            return {} if e.low else {state: Series([])}
        if set(part) == {state}:
            return {state: Repeat(part[state], e.low, e.high)}
        key = e.part, e.low, e.high
        if key not in self._repeats:
            if max(e.low, e.high or 0) > MOST_COUNTED:
                raise UnsupportedConstraint(
                    f"a repeat with counts over {MOST_COUNTED} is not read beside look-ahead and indentation"
                )
            self._repeats[key] = name = f"repeat {len(self._repeats)}"
            rest = Repeat(e.part, max(e.low - 1, 0), e.high and e.high - 1)
            more = e.part if e.high == 1 else Series([e.part, rest])
            self.given[name] = Choice([more, *([] if e.low else [Series([])])])
        return self.call(Ref(self._repeats[key]), state)


def joined(ways: list[Copies]) -> Copies:
    """Return the union of copies, state by state."""
    found: dict[Hashable, list[Expression]] = {}
    for way in ways:
        for after, copy in way.items():
            found.setdefault(after, []).append(copy)
    return {after: parts[0] if len(parts) == 1 else Choice(parts) for after, parts in found.items()}
