"""Ways through one object: which members may come next, with the freedom that their order has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from .objects import Record
from .shapes import Need

Place = tuple[int, ...]
Count = tuple[int, int, bool]
"""How many members there are, up to the most; how many of them surely differ in name, up to the least; whether one of
these is undeclared (the names of two such may be equal, and then the members are one)."""
State = tuple[int, Place, Count]
"""A run, its place, and how many members there are."""
NO_MEMBERS: Count = (0, 0, False)
CLOSING: Place = (-2,)
LAST: Place = (-3,)


class Way(NamedTuple):
    """Whether declared members stand in any order, each once; whether undeclared ones stand also before all of them, or
    anywhere between them, or only after them."""

    free: bool
    others: Literal["last", "ends", "anywhere"]

    def states(self, record: Record, sizes: Sizes) -> int:
        """About how many states a record takes."""
        if self.free:
            places = 1 << len(record.members)
            total = (places + 1) // 2 * sizes.declared
        else:
            places = len(record.orders) * len(record.members) + 1
            total = len(record.orders) * sizes.declared
        total += sizes.others * {"last": 1, "ends": min(2, places), "anywhere": places}[self.others]
        return total * (record.most if record.most is not None else max(1, record.least))


class Sizes(NamedTuple):
    """About how many states the members of a record take, each written once: declared ones, undeclared ones."""

    declared: int
    others: int

    @classmethod
    def of(cls, record: Record, size: Mapping[Need, int]) -> Sizes:
        """Those of a record, by what values of members take."""
        return cls(
            sum(size[need] + len(name) + 10 for name, need in record.members),
            sum(size[need] + 10 for _, need in (*record.others, *(record.last or ()))),
        )


def states_of_all(
    way: Way, records: Sequence[Record], measured: Sequence[Sizes], size: Mapping[Need, int]
) -> int:
    """About how many states the records of one place take, of which those in any order share what is written so far;
    ``measured``: what the members of each take."""
    apart = sum(map(way.states, records, measured))
    if not way.free or len(records) < 2:
        return apart
    members = {member for record in records for member in record.members}
    others = {other for record in records for other in (*record.others, *(record.last or ()))}
    places = 1 << len({name for name, _ in members})
    shared = places // 2 * sum(size[need] + len(name) + 10 for name, need in members)
    shared += {"last": 1, "ends": 2, "anywhere": places}[way.others] * sum(
        size[need] + 10 for _, need in others
    )
    return min(apart, shared * max(r.most if r.most is not None else max(1, r.least) for r in records))


DECLARED = Way(False, "last")
ANY_ORDER = Way(True, "anywhere")
OPEN = Way(False, "anywhere"), Way(False, "ends")
"""The ways with undeclared members also before or between the others, the freest first."""
FREE = ANY_ORDER, Way(True, "ends"), Way(True, "last")
"""The ways with declared members in any order, the freest first."""


class Run:
    """A way through one record. Alternatives are its members, then the classes of others, then those of which one must
    exist (a *witness*). A later member of the witness's name would replace it, so after it come only members that cannot
    have its name, or are witnesses too, or nothing does. ``number`` gives equal things equal numbers."""

    def __init__(self, record: Record, way: Way, number: Callable[[object], int]) -> None:
        self.record, self.way = record, way
        self.size = len(record.members)
        witnesses = record.last or ()
        self.alternatives: tuple[tuple[Any, Need], ...] = (*record.members, *record.others, *witnesses)
        self.needed = [name in record.required for name, _ in record.members]
        self.others = range(self.size, self.size + len(record.others))
        self.final = range(self.others.stop, len(self.alternatives))
        self.apart = [
            i
            for i, (kind, _) in zip(self.others, record.others, strict=True)
            if all(kind.meet(witness) is None for witness, _ in witnesses)
        ]
        self.must = sum(1 << i for i, must in enumerate(self.needed) if must)
        self.witness = 1 << self.size if witnesses and way == ANY_ORDER else 0
        ordered = record.orders or (tuple(range(self.size)),)
        self.orders = () if way.free else tuple(Order(order, self, number) for order in ordered)
        self.start: Place = (0,) if way.free else (0,) * len(self.orders)
        told = (record.members, *self.needed) if way.free else ()
        self.kind = number((record.others, record.last, told))

    def counts(self, count: Count) -> bool:
        """Whether a further member changes the count."""
        return self.record.most is not None or count[1] < self.record.least

    def counted(self, i: int, count: Count) -> Count:
        """The count after an alternative."""
        members, differ, undeclared = count
        if self.record.most is not None:
            members = min(members + 1, self.record.most)
        if differ < self.record.least:
            differ += i < self.size or not undeclared
            undeclared = differ < self.record.least and (undeclared or i >= self.size)
        return members, differ, undeclared

    def next(self, place: Place, count: Count) -> tuple[list[int], bool]:
        """The alternatives that may come next, and whether the object may end."""
        if place == CLOSING:
            return [], count[1] >= self.record.least
        done, witnessed, allowed = place == LAST, False, set[int]()
        if self.way.free and not done:
            done, witnessed = place[0] & self.must == self.must, bool(place[0] & self.witness)
            allowed = {i for i in range(self.size) if not place[0] >> i & 1}
        elif not done:
            for order, behind in zip(self.orders, place, strict=True):
                if behind >= 0:
                    allowed.update(order.members[behind : order.stops[behind]])
                    done |= order.free[behind]
        if done or self.is_open(place):
            allowed.update(self.apart if witnessed else self.others)
        if done or self.witness:
            allowed.update(self.final)
        if self.record.most is not None and count[0] >= self.record.most:
            allowed = set()
        return sorted(allowed), done and (self.record.last is None or witnessed) and count[
            1
        ] >= self.record.least

    def is_open(self, place: Place) -> bool:
        """Whether others may stand at a place, and members after them."""
        return self.way.others == "anywhere" or (self.way.others == "ends" and place == self.start)

    def afters(self, alternatives: list[int], place: Place) -> list[Place]:
        """The places after alternatives that may come next."""
        if len(self.orders) == 1 and place != LAST:  # most often, and then quick
            places, size = self.orders[0].places, self.size
            return [(places[i] + 1,) if i < size else self.after(i, place) for i in alternatives]
        return [self.after(i, place) for i in alternatives]

    def after(self, i: int, place: Place) -> Place:
        """The place after an alternative."""
        if i in self.final:
            return (place[0] | self.witness,) if self.witness else CLOSING
        if i >= self.size and self.is_open(place):
            return place
        if i >= self.size and self.way.free:
            return LAST
        if self.way.free:
            return (place[0] | 1 << i,)
        return tuple([order.after(i, behind) for order, behind in zip(self.orders, place, strict=True)])

    def future(self, place: Place, count: Count) -> object:
        """What may still come: the same for runs that need not be told apart."""
        if place == CLOSING:
            return CLOSING, count[1] >= self.record.least
        rest: Any = place
        if not self.way.free and place != LAST:
            ways = zip(self.orders, place, strict=True)
            rest = frozenset(order.rests[behind] for order, behind in ways if behind >= 0)
        left = None if self.record.most is None else self.record.most - count[0]
        return rest, self.kind, left, self.record.least - count[1], count[2]


class Order:
    """One order of members. By how many of them lie behind: where those that may come next stop (after the first that must
    be there), whether there is none that must, and a number for all that are left."""

    def __init__(self, members: tuple[int, ...], run: Run, number: Callable[[object], int]) -> None:
        self.members, self.size = members, len(members)
        self.places = {i: place for place, i in enumerate(members)}
        self.stops, self.free, self.rests = [self.size], [True], [number(())]
        for place, i in reversed(list(enumerate(members))):
            must = run.needed[i]
            self.stops.append(place + 1 if must else self.stops[-1])
            self.free.append(not must and self.free[-1])
            self.rests.append(number((run.record.members[i], must, self.rests[-1])))
        for table in (self.stops, self.free, self.rests):
            table.reverse()

    def after(self, i: int, behind: int) -> int:
        """How many members lie behind after an alternative, −1 where it may not come; after one of the others: all."""
        if behind < 0:
            return -1
        if i not in self.places:
            return self.size if self.free[behind] else -1
        return self.places[i] + 1 if behind <= self.places[i] < self.stops[behind] else -1
