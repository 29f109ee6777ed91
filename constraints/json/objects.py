"""Objects as automata: members in the declared order, then all others.

A *record* is an object shape with its conditions settled name by name: the declared members in order, and the other
members by classes of names. JSON lets a name be written twice, and then the last one counts, so a member that must exist
among the undeclared ones stands last.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...errors import TooManyStates, UnsupportedConstraint
from . import strings
from .names import tell
from .pieces import Piece, Sketch
from .text import Style
from .values import ANY, NEVER, Need, Objects, Others, Strings, both

MAX_CLASSES = 256
MAX_ANY_ORDER = 12

Namer = Callable[[Need], Sequence[Strings]]
"""The strings that satisfy a need."""
Kinds = tuple[tuple[Strings, Need], ...]
"""Classes of names, and what the values of such members need."""


@dataclass(frozen=True)
class Record:
    """Members by name, the orders in which they may stand, those that must be there, the classes of others, how many
    members there are; ``last``: a member of one of these classes stands last."""

    members: tuple[tuple[str, Need], ...]
    required: frozenset[str]
    others: Kinds
    least: int = 0
    most: int | None = None
    last: Kinds | None = None
    orders: tuple[tuple[int, ...], ...] = ()

    @property
    def copies(self) -> int:
        """How often the values of members are written, about."""
        return len(self.orders) * (self.most if self.most is not None else max(1, self.least))

    @property
    def needs(self) -> list[Need]:
        """What values of members need."""
        return [need for _, need in (*self.members, *self.others, *(self.last or ()))]


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern, for any reading of it."""
    return not strings.has(name, frozenset([("pattern", pattern, False)]))


def lacks(others: Others, name: str) -> bool:
    """Whether a name is one of the others, for any reading of the patterns."""
    return name not in others.names and not any(
        strings.has(name, frozenset([("pattern", p, True)])) for p in others.patterns
    )


def fits(need: Need, name: str, namer: Namer) -> bool:
    """Whether a name as a string satisfies a need."""
    return not need or any(strings.member(shape, name) for shape in namer(need))


def need_of(shape: Objects, name: str, namer: Namer) -> Need:
    """What the member of a name needs."""
    found = dict(shape.names).get(name, ANY)
    for pattern, need in shape.patterns:
        if matches(pattern, name):
            found = both(found, need)
    for others, need in shape.others:
        if lacks(others, name):
            found = both(found, need)
    return found if fits(shape.naming, name, namer) else NEVER


def records(shape: Objects, namer: Namer, where: str) -> list[Record]:
    """The records that make up a shape. Raises ``UnsupportedConstraint``."""
    declared = tuple(dict.fromkeys([*(name for name, _ in shape.names), *shape.required]))
    if not shape.some:
        found = record(shape, declared, namer, None, where)
        return [found] if found else []
    # Each member that must exist is a declared one, or one of the others.
    result = []
    choices: list[list[str | None]] = [
        [n for n in declared if finds(finder, n) and fits(naming, n, namer)] + [None]
        for finder, naming, _ in shape.some
    ]
    for choice in itertools.islice(itertools.product(*choices), MAX_CLASSES + 1):
        narrowed, witness = replace(shape, some=()), []
        for name, some in zip(choice, shape.some, strict=True):
            if name is None:
                witness.append(some)
            else:
                met = narrowed.meet(Objects(((name, some[2]),), (name,)))
                narrowed = met if met is not None else replace(narrowed, most=-1)
        if (
            narrowed.most == -1
            or (found := record(narrowed, declared, namer, witness or None, where)) is None
        ):
            continue
        if len(witness) > 1 and found.last != ():
            raise UnsupportedConstraint("several undeclared members that must exist", path=where)
        result.append(found)
        if len(result) > MAX_CLASSES:
            raise TooManyStates("too many members of which one must exist", limit=MAX_CLASSES)
    return result


def finds(finder: Others | str, name: str) -> bool:
    """Whether the name is certainly among those meant."""
    if isinstance(finder, str):
        return strings.has(name, frozenset([("pattern", finder, True)]))
    return name not in finder.names and all(
        strings.has(name, frozenset([("pattern", p, False)])) for p in finder.patterns
    )


def record(
    shape: Objects,
    declared: tuple[str, ...],
    namer: Namer,
    witness: list[tuple[Others | str, Need, Need]] | None,
    where: str,
) -> Record | None:
    """The record of a shape, ``None`` if no object has it."""
    members = tuple((name, need_of(shape, name, namer)) for name in declared)
    required = frozenset(shape.required)
    if any(need == NEVER and name in required for name, need in members):
        return None
    members = tuple((name, need) for name, need in members if need != NEVER)
    others = kinds(shape, frozenset(declared), namer)
    last: Kinds | None = None
    if witness:
        found = others
        for finder, naming, need in witness:
            atoms = [("pattern", finder, True)] if isinstance(finder, str) else []
            if isinstance(finder, Others):
                atoms = [("pattern", p, False) for p in finder.patterns]
            but = finder.names if isinstance(finder, Others) else frozenset()
            limits = [Strings(atoms=frozenset(atoms), but=but)]
            if naming:
                limits = [s for limit in limits for n in namer(naming) if (s := limit.meet(n))]
            found = tuple(
                (name, joined)
                for kind, value in found
                for limit in limits
                if (name := kind.meet(limit))
                and (joined := both(value, need)) != NEVER
                and not strings.empty(name)
            )
        if not found:
            return None
        last = found
    sure = len(required) + (last is not None)
    if shape.most is not None and sure > shape.most:
        return None
    least = shape.least if shape.least > sure else 0
    if least and not others and least > len(members):
        return None
    if others and (least > len(required) + 1 or (least and last)):
        raise UnsupportedConstraint(
            "minProperties that undeclared members would have to make up: their names may not differ",
            path=where,
        )
    most = shape.most
    if most is not None and not others and most >= len(members):
        most = None
    return Record(
        members, required, others, least, most, last, orders([n for n, _ in members], shape.required)
    )


def orders(names: list[str], required: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """The orders in which the members are declared: that of ``properties``; and where ``required`` lists its names in
    another order, that of ``required`` and then the rest."""
    place = {name: i for i, name in enumerate(names)}
    first = [place[name] for name in required]
    declared = tuple(range(len(names)))
    if first == sorted(first):
        return (declared,)
    return declared, (*first, *(i for i in declared if names[i] not in required))


def kinds(shape: Objects, declared: frozenset[str], namer: Namer) -> Kinds:
    """The classes of undeclared names that the shape tells apart and allows. A name about which readings of a pattern
    differ is in no class."""
    naming = namer(shape.naming) if shape.naming else [Strings()]
    open_cells = [
        (cell, frozenset[str]()) for n in naming if (cell := n.meet(Strings(but=declared))) is not None
    ]
    patterns = dict.fromkeys(
        [p for p, _ in shape.patterns] + [p for o, _ in shape.others for p in sorted(o.patterns)]
    )
    for pattern in patterns:
        split = []
        for cell, found in open_cells:
            for sign in (True, False):
                part = cell.meet(Strings(atoms=frozenset([("pattern", pattern, sign)])))
                if part is not None and not (len(patterns) > 3 and strings.empty(part)):
                    split.append((part, found | {pattern} if sign else found))
        if len(split) > MAX_CLASSES:
            raise TooManyStates("too many patterns of names overlap", limit=MAX_CLASSES)
        open_cells = split
    result = []
    for cell, found in open_cells:
        need = ANY
        for pattern, inner in shape.patterns:
            if pattern in found:
                need = both(need, inner)
        for others, inner in shape.others:
            if not others.patterns & found:
                need = both(need, inner)
        if need != NEVER and not strings.empty(cell):
            result.append((cell, need))
    return tuple(result)


# ---------------------------------------------------------------- as automata


class Writer:
    """Writes the objects of one record. A *place* is what has been written: how far along each order (−1: the members do
    not stand so), or in any order the set of those written (bits). The count of members goes up to a cap, or to 1."""

    def __init__(self, record: Record, style: Style, value: Callable[[Need], Piece], any_order: bool) -> None:
        self.record, self.style, self.any_order = record, style, any_order
        self.size = len(record.members)
        self.cap = record.most if record.most is not None else max(1, record.least)
        alternatives = (*record.members, *record.others, *(record.last or ()))
        self.values = [value(need) for _, need in alternatives]
        classes = (*record.others, *(record.last or ()))
        self.names = tell(tuple(name for name, _ in record.members), tuple(kind for kind, _ in classes))
        self.needed = [name in record.required for name, _ in record.members]
        self.others = range(self.size, self.size + len(record.others))
        self.final = range(self.others.stop, len(alternatives))
        self.orders = record.orders or (tuple(range(self.size)),)
        start = tuple(0 for _ in self.orders)
        self.places: list[tuple[int, ...]] = [start]
        self.known = {start: 0}
        self.sketch = Sketch()
        self.states: dict[tuple[int, ...], int] = {}
        self.queue: list[tuple[int, ...]] = []

    def state(self, *key: int) -> int:
        """The state of a key; a new one is put in the queue."""
        if key not in self.states:
            self.states[key] = self.sketch.state()
            self.queue.append(key)
        return self.states[key]

    def next(self, place: int, count: int) -> tuple[int, bool]:
        """The alternatives (bits) that may come next, and whether the object may end."""
        done, allowed = False, 0
        if self.any_order:
            allowed = ~place & ((1 << self.size) - 1)
            done = all(place >> i & 1 for i, needed in enumerate(self.needed) if needed)
        for order, behind in () if self.any_order else zip(self.orders, self.places[place], strict=True):
            if behind >= 0:
                coming = self.coming(order, behind)
                allowed |= sum(1 << i for i in coming)
                done |= not (coming and self.needed[coming[-1]])
        if done or self.any_order:
            allowed |= sum(1 << i for i in self.others)
        if done:
            allowed |= sum(1 << i for i in self.final)
        if self.record.most is not None and count >= self.cap:
            allowed = 0
        return allowed, done and self.record.last is None and count >= self.record.least

    def coming(self, order: tuple[int, ...], behind: int) -> tuple[int, ...]:
        """The members that may come next in an order: up to the first that must be there."""
        for end in range(behind, self.size):
            if self.needed[order[end]]:
                return order[behind : end + 1]
        return order[behind:]

    def after(self, i: int, place: int) -> int:
        """The place after a member."""
        if self.any_order:
            return place if i >= self.size else place | 1 << i
        found = []
        for order, behind in zip(self.orders, self.places[place], strict=True):
            coming = self.coming(order, behind) if behind >= 0 else ()
            if i >= self.size:
                over = behind >= 0 and not (coming and self.needed[coming[-1]])
                found.append(self.size if over else -1)
            else:
                found.append(order.index(i) + 1 if i in coming else -1)
        if len(found) > 1 and len({f for f in found if f >= 0}) == 1 and self.size in found:
            found = [self.size] * len(found)
        return self.number(tuple(found))

    def number(self, place: tuple[int, ...]) -> int:
        """The number of a place in some orders."""
        if place not in self.known:
            self.known[place] = len(self.places)
            self.places.append(place)
        return self.known[place]

    def write(self) -> Piece:
        """The texts of the objects. Raises ``TooManyStates``."""
        sketch, style = self.sketch, self.style
        start = sketch.read(0, b"{")
        if style.blank:
            sketch.blank(start)
        self.hub(start, 0, 0)
        for kind, *key in self.queue:
            (self.hub, self.spell, self.member, self.close, self.rest)[kind](self.states[kind, *key], *key)
        return sketch.finish()

    def hub(self, here: int, place: int, count: int) -> None:
        """Between members: an end, or a comma (unless nothing is there yet) and the quote of the next name."""
        allowed, done = self.next(place, count)
        if done:
            self.sketch.read(here, b"}", -1)
        if count and self.style.blank:
            self.sketch.blank(here)
        if not (allowed := allowed & self.names.reach[0]):
            return
        if count:
            here = self.sketch.read(here, self.style.comma)
            if self.style.blank:
                self.sketch.blank(here)
        self.sketch.read(here, b'"', self.state(1, 0, allowed, place, min(count + 1, self.cap)))

    def spell(self, here: int, node: int, allowed: int, place: int, count: int) -> None:
        """Within a name of which some alternatives are left."""
        for i in bits(self.names.marks[node] & allowed):
            self.member(here, i, self.after(i, place), count)
        for low, high, target in self.names.edges[node]:
            if left := allowed & self.names.reach[target]:
                if left & (left - 1):
                    state = self.state(1, target, left, place, count)
                else:  # one is left: where it leads is all that matters of the place
                    i = left.bit_length() - 1
                    state = self.state(4, target, i, self.after(i, place), count)
                self.sketch.edges.append((here, low, high, state))

    def rest(self, here: int, node: int, i: int, place: int, count: int) -> None:
        """Within a name that can only be one; the place is the one after it."""
        if self.names.marks[node]:
            self.member(here, i, place, count)
        for low, high, target in self.names.edges[node]:
            if self.names.reach[target] >> i & 1:
                self.sketch.edges.append((here, low, high, self.state(4, target, i, place, count)))

    def member(self, here: int, i: int, place: int, count: int) -> None:
        """After a name: the colon and the value."""
        if self.style.blank:
            self.sketch.blank(here)
        here = self.sketch.read(here, self.style.colon)
        if self.style.blank:
            self.sketch.blank(here)
        self.sketch.place(
            here, self.values[i], self.state(3) if i in self.final else self.state(0, place, count)
        )

    def close(self, here: int) -> None:
        """After the last member."""
        self.sketch.read(here, b"}", -1)
        if self.style.blank:
            self.sketch.blank(here)


def bits(number: int) -> list[int]:
    """The places of the ones."""
    return [i for i in range(number.bit_length()) if number >> i & 1]


def write(record: Record, style: Style, value: Callable[[Need], Piece], any_order: bool) -> Piece:
    """The texts of a record's objects. Raises ``TooManyStates``."""
    if any_order and len(record.members) > MAX_ANY_ORDER:
        raise TooManyStates(
            f"any order of {len(record.members)} members needs too many states", limit=2**MAX_ANY_ORDER
        )
    return Writer(record, style, value, any_order).write()
