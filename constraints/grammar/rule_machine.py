"""The machine of a rule: a lazy subset construction over bytes and rules.

**Left recursion** is removed: ``A → α | A β`` becomes ``α β*`` (the left-corner transform, Rosenkrantz and Lewis, 1970).
Mutually left-recursive rules form one machine that reads bottom-up: it begins with anything that begins one of them, and at
the
end of a rule ``D`` it continues after each call of ``D`` that begins a rule.

**Right recursion** leaves nothing on the stack: a machine that can only end is dropped when it calls. So is a machine that
calls its own rule at its end if everything it could do afterwards the callee can do itself
(``E → E + E``: L(E) (+ E)* = L(E)).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from ...errors import TooManyStates
from .. import limits
from ..automata.region import Local, LocalBody, Machine, Region
from .free_text import body_of
from .productions import Arc, Productions
from .tables import Table
from .tree import Text

if TYPE_CHECKING:
    from .machine import GrammarMachines


Label = Text | str | None
Within = tuple[Table, int, int]
"""A position within a terminal: its automaton, a state of it, and the node after the terminal."""
State = int | Within
Range = tuple[int, int, int]
NOWHERE: frozenset[State] = frozenset()
Edge = tuple[int, int, frozenset[State], frozenset[State], bool]
"""(low, high, target states, target states if the terminal can only end, whether it commits)"""
Ending = tuple[int, int, int, int | None, bool]
"""An ``Edge`` whose targets are local states."""


def closure(productions: Productions, network: list[list[Arc]], nodes: Iterable[int]) -> list[int]:
    """Return the nodes reached without reading."""
    found = dict.fromkeys(nodes)
    todo = list(found)
    while todo:
        for label, target in network[todo.pop()]:
            if target not in found and skippable(productions, label):
                found[target] = None
                todo.append(target)
    return list(found)


def skippable(productions: Productions, label: Label) -> bool:
    """Return whether an arc may be passed without reading."""
    if label is None:
        return True
    if isinstance(label, str):
        return productions.lengths[label].least == 0
    return productions.table(label).is_nullable


def bounded(text: bytes, times: int) -> bytes:
    """Repeat a text. Raises ``TooManyStates`` beyond ``limits.LENGTH`` bytes."""
    if len(text) * times > limits.LENGTH:
        raise TooManyStates(f"the shortest text has more than {limits.LENGTH} bytes", limit=limits.LENGTH)
    return text * times


class RuleMachine(Region):
    """The nonempty texts of a rule.

    ``group``: the rules that are mutually left-recursive with the rule, which comes first; empty if it is not left-recursive.
    """

    def __init__(self, machines: GrammarMachines, rule: str, group: tuple[str, ...] = ()) -> None:
        self.machines, self.rule, self.group = machines, rule, frozenset(group)
        self.productions = machines.productions
        members = group or (rule,)
        self.arcs: list[list[Arc]] = []
        first: dict[str, int] = {}
        for member in members:
            first[member] = at = len(self.arcs)
            network = self.productions.network(member)
            self.arcs += [[(label, t + at) for label, t in leaving] for leaving in network]
        self.end = first[rule] + 1
        beginnings = closure(self.productions, self.arcs, first.values())
        for node in beginnings if group else ():
            for label, target in list(self.arcs[node]):
                if label in self.group:  # a rule that begins another: after its end, the other continues
                    self.arcs[first[label] + 1].append((None, target))
        self._closures: dict[int, frozenset[State]] = {}
        self._sets: list[frozenset[State]] = []
        self._number: dict[frozenset[State], int] = {}
        self._moves: list[Sequence[Range] | None] = []
        self._bodies: dict[int, LocalBody | None] = {}
        self._endings: list[Sequence[Ending]] = []
        self._calls: list[Sequence[tuple[Machine, int]] | None] = []
        self._entered: dict[Within, frozenset[State]] = {}
        self.arcs.append([])
        self.only_end = len(self.arcs) - 1  # the node after a tail call, where the machine can only end
        self._local(frozenset(beginnings))  # local state 0 is the start, and nothing leads back to it
        self._number.clear()

    def __repr__(self) -> str:
        return f"RuleMachine({self.rule})"

    # ------------------------------------------------------------ the subset construction

    def _local(self, states: frozenset[State]) -> int:
        found = self._number.get(states)
        if found is None:
            found = self._number[states] = len(self._sets)
            self._sets.append(states)
            self._endings.append(())
            self._moves.append(None)
            self._calls.append(None)
        return found

    def _behind(self, node: int) -> frozenset[State]:
        """Return the epsilon closure of a node."""
        found = self._closures.get(node)
        if found is None:
            found = frozenset(closure(self.productions, self.arcs, [node]))
            self._closures[node] = found
        return found

    def _enter(self, table: Table, state: int, node: int) -> frozenset[State]:
        """Return the states after a terminal's automaton enters a state."""
        key = (table, state, node)
        found = self._entered.get(key)
        if found is None:
            found = self._behind(node) if state in table.ends else frozenset()
            if table.rows[state]:
                found |= {key}
            self._entered[key] = found
        return found

    def _edges(self, table: Table, state: int, node: int) -> list[Edge]:
        """Return the edges out of a state of a terminal."""
        return [
            (
                low,
                high,
                self._enter(table, to, node),
                NOWHERE if table.rows[to] else self._behind(node),
                table.commits and to in table.ends,
            )
            for low, high, to in table.rows[state]
        ]

    def endings(self, local: Local) -> Sequence[Ending]:
        """Return the moves with the targets if terminals can only end, and whether one commits."""
        self.moves(local)
        return self._endings[local]

    def start(self) -> Local:
        return 0

    def moves(self, local: Local) -> Sequence[Range]:
        at: int = local
        found = self._moves[at]
        if found is None:
            edges: list[Edge] = []
            for state in self._sets[at]:
                if isinstance(state, int):
                    for label, node in self.arcs[state]:
                        if label is not None and not isinstance(label, str):
                            table = self.productions.table(label)
                            for begin in table.starts:
                                edges += self._edges(table, begin, node)
                else:
                    edges += self._edges(*state)
            ranges = disjoint(edges)
            found = self._moves[at] = [
                (a, b, self._local(ended if committed else to)) for a, b, to, ended, committed in ranges
            ]
            if self.productions.commits:
                self._endings[at] = [
                    (a, b, self._local(to), self._local(ended) if ended else None, committed)
                    for a, b, to, ended, committed in ranges
                ]
        return found

    def calls(self, local: Local) -> Sequence[tuple[Machine, int]]:
        at: int = local
        found = self._calls[at]
        if found is None:
            after: dict[str, set[State]] = {}
            for state in self._sets[at]:
                if isinstance(state, int):
                    for label, node in self.arcs[state]:
                        if isinstance(label, str) and not (at == 0 and label in self.group):
                            after.setdefault(label, set()).update(self._after_call(label, node))
            found = self._calls[at] = [
                (self.machines.machine(rule), self._local(frozenset(after[rule]))) for rule in sorted(after)
            ]
        return found

    def _after_call(self, rule: str, node: int) -> frozenset[State]:
        """Return the states after a call.

        After a call of its own rule at its end, the machine can only end if the callee can do all that it could.
        """
        after = self._behind(node)
        if rule == self.rule and self.end in after and after <= self._behind(self.end):
            return frozenset([self.only_end])
        return after

    def final(self, local: Local) -> bool:
        states = self._sets[local]
        return bool(local and (self.end in states or self.only_end in states))

    def body(self, local: Local) -> LocalBody | None:
        if local not in self._bodies:
            self._bodies[local] = body_of(
                local, self.moves, lambda at: bool(self.final(at) or self.calls(at))
            )
        return self._bodies[local]

    def after_letters(self, local: Local, count: int) -> Local:
        return local

    # ------------------------------------------------------------ shortest texts

    def completion(self, local: Local) -> bytes:
        if self.final(local):
            return b""
        if local == 0:
            texts = [
                (length + self._distance[node], label, node)
                for state in self._sets[0]
                if isinstance(state, int)
                for label, node in self.arcs[state]
                if label is not None and not (isinstance(label, str) and label in self.group)
                for length in [self._weight(label)]
            ]
            _, label, node = min(texts, key=lambda item: item[0])
            return self._read(label) + self._from(node)
        best = min(self._sets[local], key=self._distance_of)
        if isinstance(best, int):
            return self._from(best)
        table, within, node = best
        return table.shortest[within] + self._from(node)

    def _distance_of(self, state: State) -> float:
        if isinstance(state, int):
            return self._distance[state]
        table, within, node = state
        return len(table.shortest[within]) + self._distance[node]

    def _weight(self, label: Text | str) -> float:
        """Return the length of the shortest nonempty text of an arc."""
        if isinstance(label, str):
            return self.productions.lengths[label].nonempty
        return self.productions.table(label).lengths.nonempty

    def _read(self, label: Text | str) -> bytes:
        """Return the shortest nonempty text of an arc."""
        if isinstance(label, str):
            if self.productions.lengths[label].nonempty > limits.LENGTH:
                return bounded(b"x", limits.LENGTH + 1)
            called = self.machines.machine(label)
            return called.completion(called.start())
        text = self.productions.table(label).nonempty
        assert text is not None
        return text

    def _from(self, node: int) -> bytes:
        """Return the shortest text from a node to the end."""
        found = []
        while node not in (self.end, self.only_end):
            label, node = self._paths[1][node]
            if label is not None:
                found.append(self._read(label))
        return b"".join(found)

    @property
    def _distance(self) -> list[float]:
        return self._paths[0]

    @cached_property
    def _paths(self) -> tuple[list[float], list[tuple[Label, int]]]:
        """For each node, the length of the shortest text to the end and its first arc (Dijkstra, 1959)."""
        before: list[list[tuple[int, float, Label]]] = [[] for _ in self.arcs]
        for source, leaving in enumerate(self.arcs):
            for label, target in leaving:
                if label is None or skippable(self.productions, label):
                    before[target].append((source, 0, None))
                else:
                    before[target].append((source, self._weight(label), label))
        distance = [math.inf] * len(self.arcs)
        following: list[tuple[Label, int]] = [(None, -1)] * len(self.arcs)
        distance[self.end] = distance[self.only_end] = 0
        todo = [(0.0, self.end)]
        while todo:
            length, node = heapq.heappop(todo)
            if length > distance[node]:
                continue
            for source, weight, label in before[node]:
                if length + weight < distance[source]:
                    distance[source], following[source] = length + weight, (label, node)
                    heapq.heappush(todo, (length + weight, source))
        return distance, following


def disjoint(edges: list[Edge]) -> list[Edge]:
    """Split overlapping edges into disjoint byte ranges; each has the union of the targets of the edges that cover it."""
    edges.sort(key=lambda edge: edge[0])
    cuts = sorted({edge[0] for edge in edges} | {edge[1] + 1 for edge in edges})
    found: list[Edge] = []
    at, active = 0, list[Edge]()
    for low, end in pairwise(cuts):
        active = [edge for edge in active if edge[1] >= low]
        while at < len(edges) and edges[at][0] == low:
            active.append(edges[at])
            at += 1
        if not active:
            continue
        ended = active[0][3] if len(active) == 1 else NOWHERE.union(*[edge[3] for edge in active])
        committed = any(edge[4] for edge in active)
        states = active[0][2] if len(active) == 1 else NOWHERE.union(*[edge[2] for edge in active])
        result = (states, ended, committed)
        if found and found[-1][1] == low - 1 and found[-1][2:] == result:
            found[-1] = (found[-1][0], end - 1, *result)
        else:
            found.append((low, end - 1, *result))
    return found
