"""Lower bounds of the tokens across a region, from the texts that must still be read in it.

    tokens that end in the region    ≥  Σ over the texts of  min over nodes n, n' of  cost(n, n')
    tokens that begin in the region  ≥  Σ over the texts of  min over nodes n, n' of  cost(n, n') + [n' ≠ root] − [n ≠ root]

where the texts are disjoint parts of the region (:class:`~..automata.region.ToCome`): the members that an object must still
have. The costs are those of crossings of the parts, from each node at which they may be entered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from ...circuits.automaton import UNREACHABLE
from .. import limits
from ..automata.region import Local, Machine, ToCome
from .token_dag import TokenDag

DEEPER = 4  # nested crossings that a lower bound counts as, by the Python calls it takes


class Exhausted(Exception):
    """The search has visited as many positions as it may."""


class TooDeep(Exhausted):
    """Too many crossings are nested. ``go_on`` finds what the innermost one was asked for, and then the search can go on."""

    def __init__(self, go_on: Callable[[], object]) -> None:
        super().__init__()
        self.go_on = go_on


class Ways(Protocol):
    """A crossing: see :class:`~.crossings.Crossing`."""

    begin: tuple[Local, int]
    closed: bool

    def level(self, cost: int) -> Sequence[int]:
        """Return the nodes at which the region can end with ``cost`` tokens and not with fewer."""


class Regions(Protocol):
    """The part of :class:`~.crossings.Crossings` that lower bounds use."""

    dag: TokenDag
    left: int
    visited: int

    def of(self, machine: Machine, local: Local, node: int, bottom: bool = False) -> Ways:
        """Return the crossing from a local state to the end of a machine's region.
        With ``bottom`` a token must end there too."""


class LowerBounds:
    """Lower bounds of crossings, from the texts that must still be read in a region.

    ``crossings`` are those of such texts, apart from those of a search. ``depth``: how many crossings are nested now.
    """

    def __init__(self, crossings: Regions) -> None:
        self.crossings, self.depth = crossings, 0
        self._machines: dict[int, Machine] = {}  # kept alive: their ids are in keys
        self._of: dict[tuple[int, Local, bool], tuple[int, int]] = {}
        self._parts: dict[tuple[Machine, bool], tuple[int, int]] = {}
        self._first: dict[tuple[int, Local], frozenset[int] | None] = {}

    def of(self, machine: Machine, local: Local, bottom: bool = False) -> tuple[int, int]:
        """Return lower bounds of the tokens that end, and that begin, up to the end of a region.
        With ``bottom`` the region's end must be the end of a token."""
        key = (id(machine), local, bottom)
        found = self._of.get(key)
        if found is None:
            self._machines[id(machine)] = machine
            self._of[key] = 0, 0  # the answer to a recursive call
            sums = [self._together(each, bottom) for each in machine.to_come(local)]
            found = self._of[key] = tuple(map(min, zip(*sums, strict=True))) if sums else (0, 0)
        return found

    def _together(self, texts: ToCome, bottom: bool) -> tuple[int, int]:
        """Return the fewest tokens that end, and that begin, in texts that must all come."""
        whole, begun = [
            [(self._part(followed), self._part(last, bottom)) for followed, last in some] for some in texts
        ]
        sums = []
        for k in (0, 1):
            found = sum(followed[k] for followed, _ in whole + begun)
            other = int(bottom and k == 0)  # at least, of another text that is the last
            found += min([other, *(last[k] - followed[k] for followed, last in whole + begun)])
            sums.append(max(0, found - max([max(each[k] for each in pair) for pair in begun], default=0)))
        return sums[0], sums[1]

    def _part(self, part: Machine, bottom: bool = False) -> tuple[int, int]:
        """Return the fewest tokens that end, and that begin, in one text, whatever stands around it."""
        key = (part, bottom)
        if key not in self._parts:
            self._parts[key] = 0, 0
            left, depth = self.crossings.left, self.depth
            self.crossings.left, self.depth = 5 * limits.POSITIONS, depth + DEEPER
            try:
                self._parts[key] = self._across(part, bottom)
            finally:
                self.crossings.left, self.depth = left, depth
        return self._parts[key]

    def _across(self, part: Machine, bottom: bool) -> tuple[int, int]:
        dag, start, kinds = self.crossings.dag, part.start(), dict[object, int]()
        first = self.first(part, start)
        for node in [dag.root, *dag.nodes_after(part.begins_after)]:
            children = dag.children(node)
            read = children if first is None else sorted(first & children.keys())
            kinds.setdefault((node == dag.root, dag.ends[node], *((b, children[b]) for b in read)), node)
        ways = [self.crossings.of(part, start, node, bottom) for node in kinds.values()]
        ending = beginning = UNREACHABLE
        cost = 0
        with suppress(Exhausted):
            while cost < limits.POSITIONS and (ending == UNREACHABLE or cost <= beginning):
                for way in ways:
                    if ends := way.level(cost):
                        ending = min(ending, cost)
                        begun = cost + (dag.root not in ends) - (way.begin[1] != dag.root)
                        beginning = min(beginning, begun)
                if all(way.closed for way in ways):
                    break
                cost += 1
        return min(ending, cost), max(0, min(beginning, cost - 1))

    def may_begin(self, machine: Machine, local: Local, children: dict[int, int]) -> bool:
        """Return whether a machine can read a byte of ``children``, or need not read any."""
        first = self.first(machine, local)
        return first is None or any(byte in children for byte in first)

    def first(self, machine: Machine, local: Local) -> frozenset[int] | None:
        """Return the bytes that may come first; ``None`` if the region may end without a byte."""
        machine = machine.divided()
        key = (id(machine), local)
        if key not in self._first:
            self._machines[id(machine)] = machine
            self._first[key] = None
            self._first[key] = self._bytes(machine, local)
        return self._first[key]

    def _bytes(self, machine: Machine, local: Local) -> frozenset[int] | None:
        if machine.final(local):
            return None
        found = {byte for low, high in machine.first_bytes(local) for byte in range(low, high + 1)}
        for called, _ in machine.calls(local):
            more = self.first(called, called.start())
            if more is None:
                return None
            found |= more
        return frozenset(found)
