"""Objects as automata: all records of one place are written together, name by name.

A *run* (``runs.py``) goes through one record. Its *place* is what has been written: how far along each order, or in any
order the set of members written. A state between two members is the set of runs that what is written so far may belong
to, so records that differ in one member share the others. Where that would be too many sets, the records are written one
by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...errors import TooManyStates
from ..automata.work import spend
from .names import Others, tell
from .objects import Record
from .runs import DECLARED, NO_MEMBERS, Run, State, Way
from .shapes import Need
from .sketches import Sketch
from .text import Style

MANY = 16  # members, of which no two states are compared
MANY_HUBS = 1_000  # states between members of several records, where members have any order


class Writer:
    """Writes the objects of some records together."""

    def __init__(self, records: Sequence[Record], style: Style, way: Way) -> None:
        self.style = style
        self.numbers: dict[object, int] = {}
        self.runs = [Run(record, way, self.number) for record in records]
        declared = tuple(dict.fromkeys(name for r in records for name in r.declared))
        kinds = tuple(dict.fromkeys(k for r in records for k, _ in (*r.others, *(r.last or ()))))
        self.names = tell(declared, kinds)
        mark: dict[Any, int] = {name: i for i, name in enumerate((*declared, *kinds))}
        self.marks = [[mark[name] for name, _ in run.alternatives] for run in self.runs]
        few = 8 * (sum(run.size for run in self.runs) + 8)
        self.limit = 1 << 20 if len(records) == 1 else few if way == DECLARED else max(few, MANY_HUBS)
        self.sketch = Sketch()
        self.states: dict[tuple[int, ...], int] = {}
        self.queue: list[tuple[int, ...]] = []
        self.groups: list[list[tuple[Need, int]]] = []
        self.hub_of: dict[frozenset[State], int] = {}
        self.group_of: dict[frozenset[tuple[Need, int]], int] = {}
        self.tables: list[tuple[dict[int, list[tuple[Need, State]]], bool]] = []
        self.known: dict[tuple[int, int], int] = {}
        self.first: dict[tuple[int, Any], int] = {}
        self.values: dict[int, int] = {}
        self.others: dict[int, int] = {}  # by hub: the first state within names that are not listed
        self.copies: list[tuple[int, int, int]] = []  # of edges into such states
        self.futures: dict[object, State] = {}

    def state(self, *key: int) -> int:
        """The state of a key; a new one is put in the queue."""
        if key not in self.states:
            spend(10)
            self.states[key] = self.sketch.state()
            self.queue.append(key)
        return self.states[key]

    def number(self, key: object) -> int:
        """A number for a thing, the same for equal things."""
        return self.numbers.setdefault(key, len(self.numbers))

    def hub(self, states: set[State]) -> int:
        """The number of a set of runs; of runs that may go on alike one is kept."""
        given = frozenset(states)
        if given not in self.hub_of:
            kept = frozenset(
                self.futures.setdefault(self.runs[r].future(p, n), (r, p, n)) for r, p, n in given
            )
            if kept not in self.hub_of:
                self.hub_of[kept] = len(self.tables)
                self.tables.append(self.ways(kept))
                if len(self.tables) > self.limit:
                    raise TooManyStates("too many ways to go on with an object", limit=self.limit)
            self.hub_of[given] = self.hub_of[kept]
        return self.hub_of[given]

    def ways(self, states: frozenset[State]) -> tuple[dict[int, list[tuple[Need, State]]], bool]:
        """What may come next in a set of runs, by marks: what the values need and the runs after; and whether the object
        may end."""
        found: dict[int, list[tuple[Need, State]]] = {}
        done = False
        for r, place, count in states:
            run, marks = self.runs[r], self.marks[r]
            alternatives, over = run.next(place, count)
            spend(20 + len(alternatives) * (3 + len(run.alternatives) / 1_000))
            done |= over
            counts = run.counts(count)
            for i, after in zip(alternatives, run.afters(alternatives, place), strict=True):
                onward = count if not counts else run.counted(i, count)
                found.setdefault(marks[i], []).append((run.alternatives[i][1], (r, after, onward)))
        return found, done

    def group(self, marks: int, hub: int) -> int:
        """What the values of members with these marks need, and where each leads: a number for them."""
        if (marks, hub) not in self.known:
            spend(9)
            found: dict[Need, set[State]] = {}
            for mark in bits(marks):
                for need, state in self.tables[hub][0].get(mark, ()):
                    found.setdefault(need, set()).add(state)
            reached = [(need, self.hub(states)) for need, states in found.items()]
            key = frozenset(reached)
            if key not in self.group_of:
                self.group_of[key] = len(self.groups)
                self.groups.append(reached)
            self.known[marks, hub] = self.group_of[key]
        return self.known[marks, hub]

    def alike(self, marks: int, hub: int) -> int:
        """The first hub from which members with these marks lead where they do from this one; of many marks it itself."""
        if marks.bit_count() > MANY:
            return hub
        if (marks, hub) not in self.first:
            leads = tuple(self.group(1 << mark, hub) for mark in bits(marks))
            self.first[marks, hub] = self.first.setdefault((marks, leads), hub)
        return self.first[marks, hub]

    def write(self) -> Sketch:
        """The texts of the objects. Raises ``TooManyStates``."""
        start = self.sketch.read(0, b"{")
        if self.style.blank:
            self.sketch.blank(start)
        self.between(
            start, self.hub({(r, run.start, NO_MEMBERS) for r, run in enumerate(self.runs)}), first=True
        )
        rules: list[Callable[..., None]] = [self.between, self.spell]
        for kind, *key in self.queue:
            rules[kind](self.states[kind, *key], *key)
        if self.names.others is not None:
            self.sketch.copied = self.names.others.copies(self.copies)
        return self.sketch

    def between(self, here: int, hub: int, first: bool = False) -> None:
        """Between members: an end, or a comma (unless nothing is there yet) and the quote of the next name."""
        ways, done = self.tables[hub]
        allowed = sum(1 << mark for mark in ways)
        if done:
            self.sketch.read(here, b"}", -1)
        if not first and self.style.blank:
            self.sketch.blank(here)
        if not (allowed := allowed & self.names.reach[0]):
            return
        if not first:
            here = self.sketch.read(here, self.style.comma)
            if self.style.blank:
                self.sketch.blank(here)
        self.sketch.read(here, b'"', self.state(1, 0, allowed, hub))

    def spell(self, here: int, node: int, allowed: int, hub: int) -> None:
        """Within a name of which some alternatives are left."""
        if marks := self.names.marks[node] & allowed:
            self.member(here, self.group(marks, hub))
        reach, edges, states = self.names.reach, self.sketch.edges, self.states
        for low, high, target in self.names.edges[node]:
            if left := allowed & reach[target]:
                like = self.first.get((left, hub))
                key = (1, target, left, self.alike(left, hub) if like is None else like)
                state = states.get(key)
                edges.append((here, low, high, self.state(*key) if state is None else state))
        others = self.names.others
        if others is not None and allowed & others.mark:
            like = self.alike(others.mark, hub)
            if like not in self.others:
                self.other(like, others)
            self.copies.append((node, here, self.others[like]))

    def other(self, hub: int, others: Others) -> None:
        """All states within names that are not listed, which lead where they do from a hub."""
        spend(10 * others.size)
        first = self.others[hub] = self.sketch.size
        self.sketch.size += others.size
        self.copies += [(others.begin + i, first + i, first) for i in range(others.size - 1)]
        self.member(first + others.size - 1, self.group(others.mark, hub))

    def member(self, here: int, group: int) -> None:
        """After a name: the colon and the value, which is written once for all names that lead there."""
        if self.style.blank:
            self.sketch.blank(here)
        known = group in self.values
        state = self.values[group] if known else self.values.setdefault(group, self.sketch.state())
        self.sketch.read(here, self.style.colon, state)
        if known:
            return
        if self.style.blank:
            self.sketch.blank(state)
        for need, hub in self.groups[group]:
            self.sketch.place(state, need, self.state(0, hub))


def bits(marks: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while marks:
        low = marks & -marks
        yield low.bit_length() - 1
        marks ^= low


def write(records: Sequence[Record], style: Style, way: Way) -> list[Sketch]:
    """The texts of the objects of some records: those of all, or of one each. Raises ``TooManyStates``."""
    if not records:
        return []
    try:
        return [Writer(records, style, way).write()]
    except TooManyStates:
        if len(records) == 1:
            raise
        return [Writer([record], style, way).write() for record in records]
