"""The graph of an object machine, in which states within names are shared.

Two states within a name become one if the same names may follow and each leads to the same group. In a fixed order of members
that holds for all subsets before these members. The states within undeclared names are copied as one block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ....errors import TooManyStates
from ...automata.arrays import ragged_arange
from ...automata.graphs import Call, Graph
from ...automata.region import Local
from ...automata.work import spend
from .keys import Keys, State
from .members import bits
from .object_kinds import COLON, KEY, VALUE
from .objects import ObjectMachine

MANY = 16
"""The most alternatives up to which states within a name are compared."""


class Names:
    """The states of the keys within all names that are declared or in some classes.
    States from which a declared name may still come are numbered first. ``node``: the number of each state."""

    def __init__(self, keys: Keys, classes: int) -> None:
        declared = (1 << len(keys.names)) - 1
        starts = len(keys.spellings)
        order: list[State] = [keys.start(classes | declared, i) for i in range(starts)]
        number = {state: i for i, state in enumerate(order)}
        rows: list[tuple[int, int, int, int]] = []
        for here, state in enumerate(order):
            for low, high, to in keys.moves(state, classes | declared):
                if to not in number:
                    number[to] = len(order)
                    order.append(to)
                rows.append((here, low, high, number[to]))
        spend(20 * len(order))
        reach, marks = [keys.reach(state) for state in order], [keys.marks(state) for state in order]
        first = sorted(range(len(order)), key=lambda i: i >= starts and not reach[i] & declared)
        place = np.empty(len(order), np.int64)
        place[first] = np.arange(len(order))
        self.reach, self.marks = [reach[i] for i in first], [marks[i] for i in first]
        self.closing = [keys.closing(order[i]) for i in first]
        self.node = {state: int(place[i]) for state, i in number.items()}
        self.size = starts + sum(1 for each in reach[starts:] if each & declared)
        """The number of start states and states from which a declared name may come."""
        edges = np.array(rows, np.int64).reshape(-1, 4)
        edges[:, 0], edges[:, 3] = place[edges[:, 0]], place[edges[:, 3]]
        edges = edges[np.argsort(edges[:, 0], kind="stable")]
        inner, into = edges[:, 3] < self.size, edges[:, 0] < self.size
        self.next: list[list[tuple[int, int, int]]] = [[] for _ in range(self.size)]
        for source, low, high, target in edges[inner].tolist():
            self.next[source].append((low, high, target))
        self.entries, self.others = edges[into & ~inner], edges[~into]
        self.num_others = len(order) - self.size


class Writer:
    """The builder of an object machine's graph. Raises ``TooManyStates`` beyond ``most`` states."""

    def __init__(self, machine: ObjectMachine, most: int) -> None:
        self.machine, self.most = machine, most
        self.size = 0
        linear = len(machine.forms) == 1 and machine.forms[0].is_linear
        self.varying = -1 << len(machine.names) if linear else -1
        """The alternatives that may lead to different groups from different subsets, as bits."""
        self.edges: list[tuple[int, int, int, int]] = []
        self.copies: list[Int[ndarray, "edge 4"]] = []
        self.calls: list[Call] = []
        self.ends: list[int] = []
        self.numbers: dict[Any, int] = {}
        self.queue: list[Any] = []
        self.names: dict[int, Names] = machine.keys.graphs
        self.first: dict[Any, int] = {}
        self.entered: dict[
            int, list[tuple[int, int, int]]
        ] = {}  # by classes: state of the names, its number here, offset of its block
        self.blocks: dict[tuple[int, tuple[int | None, ...]], int] = {}

    def take(self, count: int) -> int:
        """Add ``count`` states and return the number of the first."""
        self.size += count
        if self.size > self.most:
            raise TooManyStates("an object has too many states", limit=self.most)
        return self.size - count

    def number(self, key: Any) -> int:
        """Return the number of a state; put a new one in the queue."""
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = self.take(1)
            self.queue.append(key)
        return found

    def state(self, local: Local) -> int:
        """Return the number of a local state of the machine."""
        if local[0] != KEY:
            return self.number(local)
        subset: int = local[1]
        allowed = self.machine.allowed(subset)
        classes = allowed >> len(self.machine.names) << len(self.machine.names)
        names = self.known(classes)
        node = names.node[local[2]]
        return self.in_name(classes, node, allowed & names.reach[node], subset)

    def known(self, classes: int) -> Names:
        """Return the names that are declared or in some classes."""
        if classes not in self.names:
            self.names[classes] = Names(self.machine.keys, classes)
        return self.names[classes]

    def in_name(self, classes: int, node: int, left: int, subset: int) -> int:
        """Return the number of a state within a name, by the alternatives that are left."""
        varying = left & self.varying
        if varying.bit_count() <= MANY:
            leads = tuple([self.machine.group(subset, 1 << mark, None) for mark in bits(varying)])
            subset = self.first.setdefault((left, leads), subset)
        return self.number((KEY, classes, node, left, subset))

    def graph(self) -> Graph:
        """Build the whole graph."""
        machine = self.machine
        start = self.state(machine.start())
        for key in self.queue:
            spend(10)
            here = self.numbers[key]
            if key[0] == KEY:
                self.write_name(here, *key[1:])
                continue
            self.edges += [(here, low, high, self.state(to)) for low, high, to in machine.moves(key)]
            self.calls += [(here, called, self.state(after)) for called, after in machine.calls(key)]
            if machine.final(key):
                self.ends.append(here)
        for classes, entered in self.entered.items():
            self.copies.append(copied(self.names[classes].entries, np.array(entered, np.int64)))
        edges = np.concatenate([np.array(self.edges, np.int64).reshape(-1, 4), *self.copies])
        spend(2 * len(self.edges) + len(edges) / 8)
        return Graph(self.size, start, edges, tuple(self.calls), tuple(self.ends))

    def write_name(self, here: int, classes: int, node: int, left: int, subset: int) -> None:
        """Add the edges of a state from which a declared name may come."""
        names = self.names[classes]
        for low, high, to in names.next[node]:
            if after := left & names.reach[to]:
                self.edges.append((here, low, high, self.in_name(classes, to, after, subset)))
        if marks := names.marks[node] & left:
            self.end_name(here, subset, marks, names.closing[node])
        if classes:
            self.entered.setdefault(classes, []).append(
                (node, here, self.others(classes, subset) - names.size)
            )

    def end_name(self, here: int, subset: int, marks: int, closing: int) -> None:
        """Add the edge of the quote after a name."""
        group, machine = self.machine.group(subset, marks, None), self.machine
        if group is not None:
            after = machine.onward(COLON, VALUE, group, 0, machine.style.colon)
            self.edges.append((here, closing, closing, self.number(after)))

    def others(self, classes: int, subset: int) -> int:
        """Return the first of the states within undeclared names.
        Subsets that lead to the same groups share these states."""
        key = classes, tuple([self.machine.group(subset, 1 << mark, None) for mark in bits(classes)])
        if key not in self.blocks:
            names = self.names[classes]
            first = self.blocks[key] = self.take(names.num_others)
            self.copies.append(moved(names.others, first - names.size))
            for i, marks in enumerate(names.marks[names.size :]):
                if marks:
                    self.end_name(first + i, subset, marks, names.closing[names.size + i])
        return self.blocks[key]


def moved(edges: Int[ndarray, "edge 4"], by: int) -> Int[ndarray, "edge 4"]:
    """Return the edges with ``by`` added to the numbers of their states."""
    return np.column_stack([edges[:, 0] + by, edges[:, 1:3], edges[:, 3] + by])


def copied(entries: Int[ndarray, "edge 4"], entered: Int[ndarray, "state 3"]) -> Int[ndarray, "edge 4"]:
    """Return copies of edges with other states.

    ``entries``: edges (source, low, high, target), sorted by source. For each row (source, new source, offset) of ``entered``,
    the edges of that source are copied: the source is replaced, and the offset is added to the target.
    """
    begin, end = (np.searchsorted(entries[:, 0], entered[:, 0], side=side) for side in ("left", "right"))
    found: Int[ndarray, "edge 4"] = entries[ragged_arange(begin, end - begin)]
    found[:, 0] = np.repeat(entered[:, 1], end - begin)
    found[:, 3] += np.repeat(entered[:, 2], end - begin)
    return found


def object_graph(machine: ObjectMachine, most: int) -> Graph:
    """Return the graph of an object machine that remembers no names.
    Raises ``TooManyStates`` beyond ``most`` states."""
    return Writer(machine, most).graph()
