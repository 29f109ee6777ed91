"""Shapes: sets of numbers, strings, arrays or objects as conjunctions of simple conditions.

Conditions on what is inside an array or object are *needs*: sets of (node, sign), all of which a value must satisfy (sign
``True``) or must not satisfy (``False``). So intersection is a union of conditions, and nothing about text, order or depth
enters here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

Need = frozenset[tuple[int, bool]]
"""What a value must satisfy: nodes of the document, and whether it must or must not."""
ANY: Need = frozenset()
NEVER: Need = frozenset([(-1, True)])


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
            return Numbers(integer=integer, among=among) if among else None
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
    against) distinct items. ``seen`` are the positions that have been evaluated: the first few, those of a need. ``kind``:
    ``"list"`` or ``"tuple"`` where a syntax has both, ``None`` for either."""

    prefix: tuple[Need, ...] = ()
    rest: Need = ANY
    least: int = 0
    most: int | None = None
    contains: tuple[Contains, ...] = ()
    unique: bool | None = None
    seen: float = 0
    seen_kinds: tuple[Need, ...] = ()
    kind: str | None = None

    def meet(self, other: Arrays) -> Arrays | None:
        """Arrays of both shapes, ``None`` if there are certainly none."""
        least, most = max(self.least, other.least), smaller(self.most, other.most)
        if None not in (self.unique, other.unique) and self.unique != other.unique:
            return None
        if None not in (self.kind, other.kind) and self.kind != other.kind:
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
        kind, seen = self.kind or other.kind, max(self.seen, other.seen)
        return Arrays(prefix, rest, least, most, contains, unique, seen, kinds, kind)

    def within(self, other: Arrays) -> bool:
        """Whether the shape asks for all that the other does."""
        return self.seen == other.seen and self.seen_kinds == other.seen_kinds and self.meet(other) == self

    @property
    def evaluated(self) -> Any:
        """The items that have been evaluated, for ``unevaluatedItems``."""
        return self.seen, self.seen_kinds

    def at(self, position: int) -> Need:
        """The need of the item at a position."""
        return self.prefix[position] if position < len(self.prefix) else self.rest


class Others(NamedTuple):
    """The members whose names are not among ``names`` and match none of ``patterns``."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Objects:
    """Objects by what members need: of a name, of names that match a pattern, of other names; and every name itself.

    ``some`` are members that must exist: which names (``Others``, or those that match a pattern), what the name needs as
    a string, what the value needs. ``seen`` are the members that have been evaluated (``None``: all);
    ``declares``: whether a schema has declared members, which closes the object (``closed_objects.py``).
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
    declares: bool = False
    early: tuple[str, ...] | None = field(default=None, compare=False)

    @cached_property
    def by_name(self) -> dict[str, Need]:
        """The need of each declared member, by name."""
        return dict(self.names)

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
        early = None
        if self.early is not None or other.early is not None:
            early = tuple(dict.fromkeys((*self.first_names, *other.first_names)))
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
            self.declares or other.declares,
            early,
        )

    @property
    def evaluated(self) -> Any:
        """The members that have been evaluated, for ``unevaluatedProperties``."""
        return self.seen, self.declares

    @property
    def first_names(self) -> tuple[str, ...]:
        """The names, those of a schema before those of what it combines."""
        return tuple(name for name, _ in self.names) if self.early is None else self.early

    def behind(self, late: Collection[str]) -> Objects:
        """This shape with some names moved behind the others, in the order of the schema."""
        names = sorted(self.names, key=lambda item: item[0] in late)
        return replace(self, names=tuple(names), early=self.first_names)

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
            and self.declares == other.declares
            and self.most == smaller(self.most, other.most)
        )


def smaller(a: int | None, b: int | None) -> int | None:
    """The smaller of two upper bounds (``None``: no bound)."""
    return a if b is None else b if a is None else min(a, b)


T = TypeVar("T")


def meet_sets(a: frozenset[T] | None, b: frozenset[T] | None) -> frozenset[T] | None:
    """The values in both lists (``None``: not listed)."""
    return a if b is None else b if a is None else a & b
