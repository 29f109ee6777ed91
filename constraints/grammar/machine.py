"""The rules of a grammar as machines that call one another: a pushdown automaton.

A machine reads the nonempty texts of its rule; if a rule may be empty, its callers may skip it. So no machine begins without
reading, and cycles of rules that may be empty do not loop. The local states are sets of nodes of the network
(``productions.py``): a lazy subset construction over bytes and rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

from ..automata.region import Local, Machine, Region
from .productions import Productions
from .rule_machine import RuleMachine, bounded, closure

ANY = -1  # the count is forgotten


class GrammarMachines:
    """The machines of a grammar's rules, each built when it is first called."""

    def __init__(self, productions: Productions) -> None:
        self.productions = productions
        self._machines: dict[str, Machine] = {}
        self._left: dict[str, tuple[str, ...]] = {}

    def root(self) -> Machine:
        """Return the machine of all texts of the start rule, the empty one included."""
        return Root(self, self.productions.start)

    def machine(self, rule: str) -> Machine:
        """Return the machine of the nonempty texts of a rule."""
        found = self._machines.get(rule)
        if found is None:
            group = self.group(rule)
            if rule in self.productions.counted and not group:
                found = CountMachine(self, rule)
            else:
                found = RuleMachine(self, rule, group)
            self._machines[rule] = found
        return found

    def group(self, rule: str) -> tuple[str, ...]:
        """Return the rules that are mutually left-recursive with this one; none if it is not left-recursive."""
        after = self._reached(rule)
        if rule not in after:
            return ()
        return (rule, *(other for other in after if other != rule and rule in self._reached(other)))

    def _reached(self, rule: str) -> dict[str, None]:
        """Return the rules that a rule may begin with, transitively."""
        found = dict[str, None]()
        todo = [rule]
        while todo:
            for other in self.left_calls(todo.pop()):
                if other not in found:
                    found[other] = None
                    todo.append(other)
        return found

    def left_calls(self, rule: str) -> tuple[str, ...]:
        """Return the rules that a rule may call before it reads anything else."""
        if rule not in self._left:
            if rule in self.productions.counted:
                self._left[rule] = (self.productions.counted[rule][0],)
            else:
                network = self.productions.network(rule)
                labels = (
                    label for node in closure(self.productions, network, [0]) for label, _ in network[node]
                )
                self._left[rule] = tuple(dict.fromkeys(label for label in labels if isinstance(label, str)))
        return self._left[rule]


class Root(Region):
    """All texts of a rule, the empty one included."""

    def __init__(self, machines: GrammarMachines, rule: str) -> None:
        self.machines, self.rule = machines, rule
        self.lengths = machines.productions.lengths[rule]

    def start(self) -> Local:
        return 0

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return ()

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if local or self.lengths.nonempty == math.inf:
            return ()
        return ((self.machines.machine(self.rule), 1),)

    def final(self, local: Local) -> bool:
        return bool(local == 1 or self.lengths.least == 0)

    def completion(self, local: Local) -> bytes:
        if self.final(local):
            return b""
        called = self.machines.machine(self.rule)
        return called.completion(called.start())


class CountMachine(Region):
    """A repeated rule; the local state is the number of repetitions read, or ``ANY`` in a guide that forgets it."""

    def __init__(self, machines: GrammarMachines, rule: str, start: int = 0) -> None:
        self.machines, self.rule, self._start = machines, rule, start
        self.once, self.low, self.high = machines.productions.counted[rule]
        if machines.productions.lengths[self.once].least == 0:
            self.low = 0  # missing repetitions can be empty

    def start(self) -> Local:
        return self._start

    def coarse(self, level: int) -> Machine:
        return self._uncounted if level and self._start != ANY else self

    @cached_property
    def _uncounted(self) -> Machine:
        return CountMachine(self.machines, self.rule, ANY)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return ()

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        count: int = local
        if count == self.high:
            return ()
        if count == ANY:
            return ((self.machines.machine(self.once), ANY),)
        after = count + 1 if self.high is not None else min(count + 1, max(self.low, 1))
        return ((self.machines.machine(self.once), after),)

    def final(self, local: Local) -> bool:
        return bool(local == ANY or local >= max(self.low, 1))

    def completion(self, local: Local) -> bytes:
        missing = max(self.low, 1) - local
        if missing <= 0 or local == ANY:
            return b""
        called = self.machines.machine(self.once)
        return bounded(called.completion(called.start()), missing)

    def view(self, local: Local, reach: int) -> Local:
        more = reach + 1 if self.high is None else min(self.high - local, reach + 1)
        return (min(max(self.low - local, 0), reach + 1), more, local == 0)
