"""Objects as automata: all records of one place are written together, name by name.

A *run* goes through one record. Its *place* is what has been written: how far along each order, or in any order the set
of members written. A state between two members is the set of runs that what is written so far may belong to, so records
that differ in one member share the others. Where that would be too many sets, the records are written one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import TooManyStates
from .names import tell
from .objects import Record
from .pieces import Piece, Sketch, either
from .text import Style
from .values import Need
from .work import spend

MANY = 8  # members, of which no two states are compared

Place = tuple[int, ...]
State = tuple[int, Place, int]
"""A run, its place, and how many members there are, up to a cap."""
CLOSING: Place = (-2,)


class Run:
    """A way through one record. Alternatives are its members, then the classes of others, then those of the last."""

    def __init__(self, record: Record, any_order: bool) -> None:
        self.record, self.any_order = record, any_order
        self.size = len(record.members)
        self.cap = record.most if record.most is not None else max(1, record.least)
        self.alternatives: tuple[tuple[Any, Need], ...] = (
            *record.members,
            *record.others,
            *(record.last or ()),
        )
        self.needed = [name in record.required for name, _ in record.members]
        self.others = range(self.size, self.size + len(record.others))
        self.final = range(self.others.stop, len(self.alternatives))
        self.orders = record.orders or (tuple(range(self.size)),)
        self.start: Place = (0,) if any_order else tuple(0 for _ in self.orders)

    def next(self, place: Place, count: int) -> tuple[list[int], bool]:
        """The alternatives that may come next, and whether the object may end."""
        if place == CLOSING:
            return [], True
        done, allowed = False, set[int]()
        if self.any_order:
            allowed = {i for i in range(self.size) if not place[0] >> i & 1}
            done = not any(self.needed[i] for i in allowed)
        for order, behind in () if self.any_order else zip(self.orders, place, strict=True):
            if behind >= 0:
                coming = self.coming(order, behind)
                allowed.update(coming)
                done |= not (coming and self.needed[coming[-1]])
        if done or self.any_order:
            allowed.update(self.others)
        if done:
            allowed.update(self.final)
        if self.record.most is not None and count >= self.cap:
            allowed = set()
        return sorted(allowed), done and self.record.last is None and count >= self.record.least

    def coming(self, order: tuple[int, ...], behind: int) -> tuple[int, ...]:
        """The members that may come next in an order: up to the first that must be there."""
        for end in range(behind, self.size):
            if self.needed[order[end]]:
                return order[behind : end + 1]
        return order[behind:]

    def after(self, i: int, place: Place) -> Place:
        """The place after an alternative."""
        if i in self.final:
            return CLOSING
        if self.any_order:
            return place if i >= self.size else (place[0] | 1 << i,)
        found = []
        for order, behind in zip(self.orders, place, strict=True):
            coming = self.coming(order, behind) if behind >= 0 else ()
            if i >= self.size:
                over = behind >= 0 and not (coming and self.needed[coming[-1]])
                found.append(self.size if over else -1)
            else:
                found.append(order.index(i) + 1 if i in coming else -1)
        return tuple(found)

    def future(self, place: Place, count: int) -> object:
        """What may still come: the same for runs that need not be told apart."""
        if place == CLOSING:
            return CLOSING
        record = self.record
        rest: Any = (place, record.members, tuple(self.needed))
        if not self.any_order:
            rest = frozenset(
                tuple((*record.members[i], self.needed[i]) for i in order[behind:])
                for order, behind in zip(self.orders, place, strict=True)
                if behind >= 0
            )
        left = None if record.most is None else record.most - count
        return rest, record.others, record.last, left, max(0, record.least - count)


class Writer:
    """Writes the objects of some records together."""

    def __init__(
        self, records: Sequence[Record], style: Style, value: Callable[[Need], Piece], any_order: bool
    ) -> None:
        self.style, self.value = style, value
        self.runs = [Run(record, any_order) for record in records]
        declared = tuple(dict.fromkeys(name for r in records for name in r.declared))
        kinds = tuple(dict.fromkeys(k for r in records for k, _ in (*r.others, *(r.last or ()))))
        self.names = tell(declared, kinds)
        number: dict[Any, int] = {name: i for i, name in enumerate((*declared, *kinds))}
        self.marks = [[number[name] for name, _ in run.alternatives] for run in self.runs]
        self.limit = 8 * (sum(run.size for run in self.runs) + 8) if len(records) > 1 else 1 << 20
        self.sketch = Sketch()
        self.states: dict[tuple[int, ...], int] = {}
        self.queue: list[tuple[int, ...]] = []
        self.hubs: list[frozenset[State]] = []
        self.groups: list[list[tuple[Need, int]]] = []
        self.numbers: dict[object, int] = {}
        self.known: dict[tuple[int, int], int] = {}
        self.first: dict[tuple[int, Any], int] = {}
        self.values: dict[int, int] = {}
        self.futures: dict[object, State] = {}

    def state(self, *key: int) -> int:
        """The state of a key; a new one is put in the queue."""
        if key not in self.states:
            spend(20)
            self.states[key] = self.sketch.state()
            self.queue.append(key)
        return self.states[key]

    def hub(self, states: set[State]) -> int:
        """The number of a set of runs; of runs that may go on alike one is kept."""
        kept = frozenset(self.futures.setdefault(self.runs[r].future(p, n), (r, p, n)) for r, p, n in states)
        if kept not in self.numbers:
            self.numbers[kept] = len(self.hubs)
            self.hubs.append(kept)
            spend(50)
            if len(self.hubs) > self.limit:
                raise TooManyStates("too many ways to go on with an object", limit=self.limit)
        return self.numbers[kept]

    def group(self, marks: int, hub: int) -> int:
        """What the values of members with these marks need, and where each leads: a number for them."""
        if (marks, hub) in self.known:
            return self.known[marks, hub]
        found: dict[Need, set[State]] = {}
        for r, place, count in self.hubs[hub]:
            run = self.runs[r]
            for i in run.next(place, count)[0]:
                if marks >> self.marks[r][i] & 1:
                    onward = (r, run.after(i, place), min(count + 1, run.cap))
                    found.setdefault(run.alternatives[i][1], set()).add(onward)
        reached = [(need, self.hub(states)) for need, states in found.items()]
        key = frozenset(reached)
        if key not in self.numbers:
            self.numbers[key] = len(self.groups)
            self.groups.append(reached)
        self.known[marks, hub] = self.numbers[key]
        return self.numbers[key]

    def alike(self, marks: int, hub: int) -> int:
        """The first hub from which members with these marks lead where they do from this one; of many marks it itself."""
        if marks.bit_count() > MANY:
            return hub
        if (marks, hub) not in self.first:
            leads = tuple(self.group(1 << i, hub) for i in range(marks.bit_length()) if marks >> i & 1)
            self.first[marks, hub] = self.first.setdefault((marks, leads), hub)
        return self.first[marks, hub]

    def write(self) -> Piece:
        """The texts of the objects. Raises ``TooManyStates``."""
        start = self.sketch.read(0, b"{")
        if self.style.blank:
            self.sketch.blank(start)
        self.between(start, self.hub({(r, run.start, 0) for r, run in enumerate(self.runs)}), first=True)
        rules: list[Callable[..., None]] = [self.between, self.spell]
        for kind, *key in self.queue:
            rules[kind](self.states[kind, *key], *key)
        return self.sketch.finish()

    def between(self, here: int, hub: int, first: bool = False) -> None:
        """Between members: an end, or a comma (unless nothing is there yet) and the quote of the next name."""
        allowed, done = 0, False
        for r, place, count in self.hubs[hub]:
            alternatives, over = self.runs[r].next(place, count)
            done |= over
            for i in alternatives:
                allowed |= 1 << self.marks[r][i]
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
        for low, high, target in self.names.edges[node]:
            if left := allowed & self.names.reach[target]:
                state = self.state(1, target, left, self.alike(left, hub))
                self.sketch.edges.append((here, low, high, state))

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
            self.sketch.place(state, self.value(need), self.state(0, hub))


def write(records: list[Record], style: Style, value: Callable[[Need], Piece], few: int) -> Piece:
    """The texts of the objects of some records, in any order if there are at most so ``few`` members. Raises
    ``TooManyStates``."""
    most = max((len(record.members) for record in records), default=0)
    any_order = most <= few
    if not records:
        return either([])
    try:
        return Writer(records, style, value, any_order).write()
    except TooManyStates:
        if len(records) == 1:
            raise
        return either(Writer([record], style, value, any_order).write() for record in records)
