"""Sets of JSON values, as unions of *shapes* by type: what a schema means before it is written out as an automaton.

    Value = null? ∪ booleans ∪ (∪ number shapes) ∪ (∪ string shapes) ∪ (∪ array shapes) ∪ (∪ object shapes)

A shape is a conjunction of simple conditions. Conditions on what is inside an array or object are *needs*: sets of
(node, sign), all of which a value must satisfy (sign ``True``) or must not satisfy (``False``). So intersection is a union
of conditions, shape by shape, and nothing about text, order or depth enters here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from ...errors import TooManyStates
from .work import spend

Need = frozenset[tuple[int, bool]]
"""What a value must satisfy: nodes of the document, and whether it must or must not."""
ANY: Need = frozenset()
NEVER: Need = frozenset([(-1, True)])

MAX_SHAPES = 1_000
MAX_COMPARED = 1_000
FEW = 8


def both(a: Need, b: Need) -> Need:
    """Values of both."""
    if a == b or not b:
        return a
    if not a:
        return b
    joined = a | b
    if a == NEVER or b == NEVER or any((node, not sign) in joined for node, sign in b):
        return NEVER
    return joined


class Bound(NamedTuple):
    """One end of a range of numbers; a strict one is not in the range itself."""

    value: Decimal
    strict: bool


@dataclass(frozen=True)
class Numbers:
    """Numbers within bounds that are (or are not) integers and multiples; ``among`` and ``but`` list values."""

    low: Bound | None = None
    high: Bound | None = None
    integer: bool | None = None
    multiples: frozenset[tuple[Decimal, bool]] = frozenset()
    among: frozenset[Decimal] | None = None
    but: frozenset[Decimal] = frozenset()

    def meet(self, other: Numbers) -> Numbers | None:
        """Numbers of both shapes, ``None`` if there are none."""
        if None not in (self.integer, other.integer) and self.integer != other.integer:
            return None
        lows = [b for b in (self.low, other.low) if b]
        highs = [b for b in (self.high, other.high) if b]
        low = max(lows, default=None)
        high = min(highs, key=lambda b: (b.value, not b.strict), default=None)
        if low and high and (low.value, low.strict or high.strict) > (high.value, False):
            return None
        integer = self.integer if other.integer is None else other.integer
        multiples, but = self.multiples | other.multiples, self.but | other.but
        if any((value, not sign) in multiples for value, sign in multiples):
            return None
        among = meet_sets(self.among, other.among)
        if among is not None:
            among = frozenset(v for v in among if inside(v, low, high, integer, multiples) and v not in but)
            return Numbers(among=among) if among else None
        return Numbers(low, high, integer, multiples, None, but)

    def within(self, other: Numbers) -> bool:
        """Whether the shape asks for all that the other does."""
        return self.meet(other) == self


def inside(
    value: Decimal, low: Bound | None, high: Bound | None, integer: bool | None, multiples: frozenset[Any]
) -> bool:
    """Whether a number satisfies the conditions of a shape."""
    if low and (value < low.value or (low.strict and value == low.value)):
        return False
    if high and (value > high.value or (high.strict and value == high.value)):
        return False
    if integer is not None and (value == value.to_integral_value()) != integer:
        return False
    return all((value % step == 0) == sign for step, sign in multiples)


@dataclass(frozen=True)
class Strings:
    """Strings of some length (in characters) that have or lack properties: ("pattern" or "format", which, sign)."""

    least: int = 0
    most: int | None = None
    atoms: frozenset[tuple[str, str, bool]] = frozenset()
    among: frozenset[str] | None = None
    but: frozenset[str] = frozenset()

    def meet(self, other: Strings) -> Strings | None:
        """Strings of both shapes, ``None`` if there are certainly none."""
        least, most = max(self.least, other.least), smaller(self.most, other.most)
        if most is not None and least > most:
            return None
        atoms, but = self.atoms | other.atoms, self.but | other.but
        if any((kind, which, not sign) in atoms for kind, which, sign in atoms):
            return None
        among = meet_sets(self.among, other.among)
        if among is not None:
            among = frozenset(
                v for v in among if least <= len(v) and (most is None or len(v) <= most) and v not in but
            )
            return Strings(atoms=atoms, among=among) if among else None
        return Strings(least, most, atoms, None, but)

    def within(self, other: Strings) -> bool:
        """Whether the shape asks for all that the other does."""
        return self.atoms >= other.atoms and self.meet(other) == self


class Contains(NamedTuple):
    """Between ``least`` and ``most`` items from position ``start`` on satisfy the need."""

    need: Need
    least: int
    most: int | None
    start: int = 0


@dataclass(frozen=True)
class Arrays:
    """Arrays by what each position needs, how many items there are, and how many of a kind; ``unique`` asks for (or
    against) distinct items. ``seen`` are the positions that have been evaluated: the first few, those of a need."""

    prefix: tuple[Need, ...] = ()
    rest: Need = ANY
    least: int = 0
    most: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: bool | None = None
    seen: float = 0
    seen_kinds: tuple[Need, ...] = ()

    def meet(self, other: Arrays) -> Arrays | None:
        """Arrays of both shapes, ``None`` if there are certainly none."""
        least, most = max(self.least, other.least), smaller(self.most, other.most)
        if None not in (self.unique, other.unique) and self.unique != other.unique:
            return None
        size = max(len(self.prefix), len(other.prefix))
        prefix = tuple(both(self.at(i), other.at(i)) for i in range(size))
        rest = both(self.rest, other.rest)
        if NEVER in prefix or rest == NEVER:
            end = prefix.index(NEVER) if NEVER in prefix else size
            most = smaller(most, end)
        if most is not None and least > most:
            return None
        contains = tuple(dict.fromkeys(self.contains + other.contains))
        unique = self.unique if other.unique is None else other.unique
        kinds = tuple(dict.fromkeys(self.seen_kinds + other.seen_kinds))
        return Arrays(prefix, rest, least, most, contains, unique, max(self.seen, other.seen), kinds)

    def within(self, other: Arrays) -> bool:
        """Whether the shape asks for all that the other does."""
        return self.seen == other.seen and self.seen_kinds == other.seen_kinds and self.meet(other) == self

    def at(self, position: int) -> Need:
        """What the item at a position needs."""
        return self.prefix[position] if position < len(self.prefix) else self.rest


class Others(NamedTuple):
    """The members whose names are not among ``names`` and match none of ``patterns``."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Objects:
    """Objects by what members need: of a name, of names that match a pattern, of other names; and every name itself.

    ``some`` are members that must exist: which names (``Others``, or those that match a pattern), what the name needs as
    a string, what the value needs. ``seen`` are the members that have been evaluated (``None``: all).
    """

    names: tuple[tuple[str, Need], ...] = ()
    required: tuple[str, ...] = ()
    patterns: tuple[tuple[str, Need], ...] = ()
    others: tuple[tuple[Others, Need], ...] = ()
    naming: Need = ANY
    least: int = 0
    most: int | None = None
    some: tuple[tuple[Others | str, Need, Need], ...] = ()
    seen: Others | None = Others()  # noqa: RUF009

    def meet(self, other: Objects) -> Objects | None:
        """Objects of both shapes, ``None`` if there are certainly none."""
        least, most = max(self.least, other.least), smaller(self.most, other.most)
        names = dict(self.names)
        for name, need in other.names:
            names[name] = both(names[name], need) if name in names else need
        required = tuple(dict.fromkeys(self.required + other.required))
        if (most is not None and max(least, len(required)) > most) or any(
            names.get(n) == NEVER for n in required
        ):
            return None
        seen = None
        if self.seen is not None and other.seen is not None:
            seen = Others(self.seen.names | other.seen.names, self.seen.patterns | other.seen.patterns)
        return Objects(
            tuple(names.items()),
            required,
            tuple(dict.fromkeys(self.patterns + other.patterns)),
            tuple(dict.fromkeys(self.others + other.others)),
            both(self.naming, other.naming),
            least,
            most,
            tuple(dict.fromkeys(self.some + other.some)),
            seen,
        )

    def within(self, other: Objects) -> bool:
        """Whether the shape asks for all that the other does."""
        if len(self.required) < len(other.required) or len(self.some) < len(other.some):
            return False
        names = dict(self.names)
        return (
            all((mine := names.get(name, ANY)) >= need or mine == NEVER for name, need in other.names)
            and set(self.required) >= set(other.required)
            and set(self.some) >= set(other.some)
            and set(self.patterns) >= set(other.patterns)
            and set(self.others) >= set(other.others)
            and self.naming >= other.naming
            and (self.least, self.seen) == (max(self.least, other.least), other.seen)
            and self.most == smaller(self.most, other.most)
        )


def smaller(a: int | None, b: int | None) -> int | None:
    """The smaller of two upper bounds (``None``: no bound)."""
    return a if b is None else b if a is None else min(a, b)


T = TypeVar("T")


def meet_sets(a: frozenset[T] | None, b: frozenset[T] | None) -> frozenset[T] | None:
    """The values in both lists (``None``: not listed)."""
    return a if b is None else b if a is None else a & b


class Value(NamedTuple):
    """A set of JSON values."""

    null: bool = False
    boolean: frozenset[bool] = frozenset()
    number: tuple[Numbers, ...] = ()
    string: tuple[Strings, ...] = ()
    array: tuple[Arrays, ...] = ()
    object: tuple[Objects, ...] = ()

    @property
    def shapes(self) -> tuple[tuple[Any, ...], ...]:
        """The shapes of numbers, strings, arrays and objects."""
        return self.number, self.string, self.array, self.object


NOTHING = Value()
EVERYTHING = Value(True, frozenset([False, True]), (Numbers(),), (Strings(),), (Arrays(),), (Objects(),))


def meet(a: Value, b: Value) -> Value:
    """Values of both. Raises ``TooManyStates`` where there would be too many shapes."""
    if a is EVERYTHING or b is EVERYTHING:
        return b if a is EVERYTHING else a
    return Value(
        a.null and b.null,
        a.boolean & b.boolean,
        meet_shapes(a.number, b.number),
        meet_shapes(a.string, b.string),
        meet_shapes(a.array, b.array),
        meet_shapes(a.object, b.object),
    )


def meet_shapes(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """The shapes of both unions that may have values."""
    if not a or not b:
        return ()
    if b == EVERYTHING.shapes[FIELD[type(a[0])]]:
        return a
    if a == EVERYTHING.shapes[FIELD[type(a[0])]]:
        return b
    spend(10 * len(a) * len(b))
    found = dict.fromkeys(shape for x in a for y in b if (shape := x.meet(y)) is not None)
    return limited(widest(tuple(found)))


def widest(shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shapes without those that lie within another, as far as that shows; a few shapes are left as they are."""
    if not FEW < len(shapes) <= MAX_COMPARED:
        return shapes
    kept: list[Any] = []
    for shape in shapes:
        spend(3 * len(kept))
        if not any(shape.within(other) for other in kept):
            kept = [other for other in kept if not other.within(shape)]
            kept.append(shape)
    return tuple(kept)


def join(*values: Value, absorb: bool = True) -> Value:
    """Values of any of them. ``absorb``: a shape that has every value of its type takes in all others."""
    boolean: frozenset[bool] = frozenset()
    return Value(
        any(v.null for v in values),
        boolean.union(*(v.boolean for v in values)),
        join_shapes([v.number for v in values], absorb),
        join_shapes([v.string for v in values], absorb),
        join_shapes([v.array for v in values], absorb),
        join_shapes([v.object for v in values], absorb),
    )


def join_shapes(unions: Sequence[Any], absorb: bool) -> Any:
    """The shapes of all unions."""
    found = dict.fromkeys(shape for union in unions for shape in union)
    if absorb and len(found) > 1:
        whole = EVERYTHING.shapes[FIELD[type(next(iter(found)))]][0]
        if whole in found:
            return (whole,)
    return limited(tuple(found))


def only(kind: str, shapes: Iterable[Any], sign: bool) -> Value:
    """Values of one type with these shapes; if ``sign`` also all values of other types."""
    replaced: Any = {kind: tuple(shapes)}
    return (EVERYTHING if sign else NOTHING)._replace(**replaced)


def limited(shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shapes, unless there are too many."""
    if len(shapes) > MAX_SHAPES:
        raise TooManyStates("a schema combines too many alternatives", limit=MAX_SHAPES)
    return shapes


FIELD: dict[type, int] = {Numbers: 0, Strings: 1, Arrays: 2, Objects: 3}
