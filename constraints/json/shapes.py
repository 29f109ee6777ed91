"""Shapes: sets of numbers, strings, arrays or objects as conjunctions of simple conditions.

Conditions on the items of an array or the members of an object are *needs*: sets of (node, sign). A value must satisfy each node
with sign ``True`` and violate each node with sign ``False``. So the intersection of two shapes is a union of conditions. Shapes
say nothing about text, the order of members or depth.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

from .exact import is_multiple

T = TypeVar("T")
Need = frozenset[tuple[int, bool]]
"""A conjunction of obligations on a value: (number of a node of the document, whether to satisfy or to violate it)."""
ANY: Need = frozenset()
"""The need that every value satisfies."""
NEVER: Need = frozenset([(-1, True)])
"""The need that no value satisfies."""


def both(a: Need, b: Need) -> Need:
    """Return the conjunction of two needs, ``NEVER`` if they contradict each other on a node."""
    if a == b or not b:
        return a
    if not a:
        return b
    joined = a | b
    if a == NEVER or b == NEVER or any((node, not sign) in joined for node, sign in b):
        return NEVER
    return joined


class Bound(NamedTuple):
    """One end of a range of numbers; ``strict`` excludes the value itself."""

    value: Decimal
    strict: bool


@dataclass(unsafe_hash=True)  # made in half the time of a frozen one
class Numbers:
    """Numbers between two bounds, with conditions and lists of values.

    ``integer``: only integers (``True``), only others (``False``), or both (``None``). ``multiples``: (step, whether the number
    must or must not be a multiple of it). ``among``: the only values allowed, if not ``None``. ``but``: values excluded.
    """

    low: Bound | None = None
    high: Bound | None = None
    integer: bool | None = None
    multiples: frozenset[tuple[Decimal, bool]] = frozenset()
    among: frozenset[Decimal] | None = None
    but: frozenset[Decimal] = frozenset()

    def meet(self, other: Numbers) -> Numbers | None:
        """Return the numbers of both shapes, ``None`` if there are certainly none."""
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
        """Return whether this shape lies within the other, as far as the conditions show."""
        return self.meet(other) == self


def inside(
    value: Decimal, low: Bound | None, high: Bound | None, integer: bool | None, multiples: frozenset[Any]
) -> bool:
    """Return whether a number satisfies bounds, integrality and multiples."""
    if low and (value < low.value or (low.strict and value == low.value)):
        return False
    if high and (value > high.value or (high.strict and value == high.value)):
        return False
    if integer is not None and (value == value.to_integral_value()) != integer:
        return False
    return all(is_multiple(value, step) == sign for step, sign in multiples)


@dataclass(unsafe_hash=True)
class Strings:
    """Strings of ``least`` to ``most`` characters, with conditions and lists of values.

    ``atoms``: properties ("pattern" or "format", its text, whether strings must have or lack it). ``among``: the only strings
    allowed, if not ``None``. ``but``: strings excluded.
    """

    least: int = 0
    most: int | None = None
    atoms: frozenset[tuple[str, str, bool]] = frozenset()
    among: frozenset[str] | None = None
    but: frozenset[str] = frozenset()

    def meet(self, other: Strings) -> Strings | None:
        """Return the strings of both shapes, ``None`` if there are certainly none."""
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
        """Return whether this shape lies within the other, as far as the conditions show."""
        return self.atoms >= other.atoms and self.meet(other) == self


class Contains(NamedTuple):
    """The condition that ``least`` to ``most`` items from position ``start`` on satisfy the need."""

    need: Need
    least: int
    most: int | None
    start: int = 0


@dataclass(unsafe_hash=True)
class Arrays:
    """Arrays of ``least`` to ``most`` items, by the need of each position and counts of items.

    ``prefix``, ``rest``: the needs of the first positions and of all later ones. ``unique``: the items must be distinct
    (``True``), must not be (``False``), or either (``None``). ``seen``, ``seen_kinds``: the number of leading positions that
    count as evaluated for ``unevaluatedItems``, and needs whose items do so anywhere. ``kind``: ``"list"`` or ``"tuple"`` where a
    syntax has both, ``None`` for either.
    """

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
        """Return the arrays of both shapes, ``None`` if there are certainly none."""
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
        """Return whether this shape lies within the other, as far as the conditions show."""
        return self.seen == other.seen and self.seen_kinds == other.seen_kinds and self.meet(other) == self

    @property
    def evaluated(self) -> Any:
        """The items that count as evaluated for ``unevaluatedItems``."""
        return self.seen, self.seen_kinds

    def at(self, position: int) -> Need:
        """Return the need of the item at a position."""
        return self.prefix[position] if position < len(self.prefix) else self.rest


class Others(NamedTuple):
    """The members whose names are not among ``names`` and match none of ``patterns``."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()


@dataclass(unsafe_hash=True)
class Objects:
    """Objects of ``least`` to ``most`` members, by the needs of names and values.

    ``names``, ``patterns``, ``others``: the needs of the values of members with a name, with a name that matches a pattern, with
    any other name. ``naming``: the need of every name, as a string. ``some``: members that must exist: which names, the need
    of the name as a string, the need of the value.

    ``seen``: the names and patterns of members that count as evaluated for ``unevaluatedProperties`` (``None``: all members).
    ``declares``: whether a schema has declared members, which closes the object (``closed_objects.py``). ``early``: a second
    order of the names, the schema's own before those of the schemas that it combines (``None``: as ``names``). ``by_name``: the
    needs of ``names``.
    """

    names: tuple[tuple[str, Need], ...] = ()
    required: tuple[str, ...] = ()
    patterns: tuple[tuple[str, Need], ...] = ()
    others: tuple[tuple[Others, Need], ...] = ()
    naming: Need = ANY
    least: int = 0
    most: int | None = None
    some: tuple[tuple[Others, Need, Need], ...] = ()
    seen: Others | None = Others()  # noqa: RUF009
    declares: bool = False
    early: tuple[str, ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self.by_name = dict(self.names)

    def meet(self, other: Objects) -> Objects | None:
        """Return the objects of both shapes, ``None`` if there are certainly none."""
        least, most = max(self.least, other.least), smaller(self.most, other.most)
        names = self.by_name if self.names or not other.names else other.by_name
        if self.names and other.names:
            names = names.copy()
            for name, need in other.names:
                names[name] = both(names[name], need) if name in names else need
        required = one_after_another(self.required, other.required)
        if (most is not None and max(least, len(required)) > most) or NEVER in map(names.get, required):
            return None
        seen = None
        if self.seen is not None and other.seen is not None:
            seen = Others(self.seen.names | other.seen.names, self.seen.patterns | other.seen.patterns)
        early = None
        if self.early is not None or other.early is not None:
            early = tuple(dict.fromkeys((*self.first_names, *other.first_names)))
        return Objects(
            tuple(names.items()) if self.names and other.names else self.names or other.names,
            required,
            one_after_another(self.patterns, other.patterns),
            one_after_another(self.others, other.others),
            both(self.naming, other.naming),
            least,
            most,
            one_after_another(self.some, other.some),
            seen,
            self.declares or other.declares,
            early,
        )

    @property
    def evaluated(self) -> Any:
        """The members that count as evaluated for ``unevaluatedProperties``."""
        return self.seen, self.declares

    @property
    def first_names(self) -> tuple[str, ...]:
        """The names, the schema's own before those of the schemas that it combines."""
        return tuple(name for name, _ in self.names) if self.early is None else self.early

    def behind(self, late: Collection[str]) -> Objects:
        """Return this shape with some names moved behind the others.
        ``early`` keeps their present order."""
        names = sorted(self.names, key=lambda item: item[0] in late)
        return replace(self, names=tuple(names), early=self.first_names)

    def within(self, other: Objects) -> bool:
        """Return whether this shape lies within the other, as far as the conditions show."""
        if (
            len(self.required) < len(other.required)
            or len(self.some) < len(other.some)
            or self.least < other.least
            or self.declares != other.declares
            or self.most != smaller(self.most, other.most)
        ):
            return False
        needs = self.by_name.get
        for name, need in other.names:  # most shapes are told apart here
            if need and not ((mine := needs(name, ANY)) >= need or mine == NEVER):
                return False
        return (
            set(self.required) >= set(other.required)
            and set(self.some) >= set(other.some)
            and set(self.patterns) >= set(other.patterns)
            and set(self.others) >= set(other.others)
            and self.naming >= other.naming
            and self.seen == other.seen
        )


def one_after_another(a: tuple[T, ...], b: tuple[T, ...]) -> tuple[T, ...]:
    """Return the elements of two tuples, each once; in neither alone is one there twice."""
    return tuple(dict.fromkeys(a + b)) if a and b else a or b


def smaller(a: int | None, b: int | None) -> int | None:
    """Return the smaller of two upper bounds (``None``: no bound)."""
    return a if b is None else b if a is None else min(a, b)


def meet_sets(a: frozenset[T] | None, b: frozenset[T] | None) -> frozenset[T] | None:
    """Return the values in both lists (``None``: no list, every value)."""
    return a if b is None else b if a is None else a & b
