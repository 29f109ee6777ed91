"""What an object shape asks of each member name, and the forms of objects, which say it name by name.

The needs of declared members, the classes of undeclared names, the orders of members, and the members that can satisfy the
condition that one must exist.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from ...errors import TooManyStates
from .. import limits
from ..automata.work import spend
from . import strings
from .counted_patterns import pattern_shapes
from .shapes import ANY, NEVER, Need, Objects, Others, Strings, both
from .text import is_text

if TYPE_CHECKING:
    from .needs import Needs

MANY_NAMES = 4_096
"""Names times shapes with undeclared members beyond which each of these tells only its own names apart."""
Kinds = tuple[tuple[Strings, Need], ...]
"""Classes of undeclared names, each with the need of the values of such members."""
Some = tuple[Others, Need, Need]
"""A member that must exist: which names, the need of the name, the need of the value."""


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern."""
    return any(strings.member(shape, name) for shape in pattern_shapes(pattern, True))


def lacks(others: Others, name: str) -> bool:
    """Return whether a name is in ``others``: not listed there, and matching none of its patterns."""
    return name not in others.names and not any(matches(p, name) for p in others.patterns)


def fits(need: Need, name: str, needs: Needs) -> bool:
    """Return whether a name, as a string, satisfies a need."""
    return not need or any(strings.member(shape, name) for shape in needs.names(need))


def need_of(shape: Objects, name: str, needs: Needs) -> Need:
    """Return the need of the value of a member, ``NEVER`` if its name is not allowed."""
    if shape.naming and not fits(shape.naming, name, needs):
        return NEVER
    found = shape.by_name.get(name, ANY)
    for pattern, need in shape.patterns:
        if matches(pattern, name):
            found = both(found, need)
    for others, need in shape.others:
        if lacks(others, name):
            found = both(found, need)
    return found


def narrowings(
    shape: Objects, some: Sequence[Some], declared: tuple[str, ...], needs: Needs
) -> list[tuple[Objects, tuple[Some, ...]]]:
    """Split a shape into cases by how the members that must exist are provided.

    In each case each of them is a declared member, which is then required, or stays listed beside the shape as an undeclared one.
    Raises ``TooManyStates``.
    """
    if not some:
        return [(shape, ())]
    ways: dict[tuple[Objects, tuple[Some, ...]], None] = {(shape, ()): None}
    for finder, naming, need in some:
        names = [n for n in declared if lacks(finder, n) and fits(naming, n, needs)]
        found: dict[tuple[Objects, tuple[Some, ...]], None] = {}
        for narrowed, witness in ways:
            spend(20 * (1 + len(names)))
            known = {name: narrowed.by_name.get(name, ANY) for name in names}
            joined = {name: both(known[name], need) for name in names}
            if any(name in known and joined[name] == known[name] for name in narrowed.required):
                found[narrowed, witness] = None  # the shape requires such a member anyway
                continue
            for name in names:
                if joined[name] != NEVER and need_of(narrowed, name, needs) != NEVER:
                    way = narrowed.meet(Objects(((name, need),), (name,)))
                    if way is not None and need_of(way, name, needs) != NEVER:
                        found[way, witness] = None
            found[narrowed, (*witness, (finder, naming, need))] = None
        if len(found) > limits.ALTERNATIVES:
            raise TooManyStates("too many members of which one must exist", limit=limits.ALTERNATIVES)
        ways = found
    return list(ways)


def witnesses(others: Kinds, witness: Sequence[Some], needs: Needs) -> Kinds:
    """Return the classes of undeclared members, each narrowed to members that satisfy all of ``witness`` at once."""
    found = others
    for finder, naming, need in witness:
        found = tuple(
            (name, joined)
            for kind, value in found
            for limit in finder_names(finder, naming, needs)
            if (name := kind.meet(limit))
            and (joined := both(value, need)) != NEVER
            and not strings.empty(name)
        )
    return found


def finder_names(finder: Others, naming: Need, needs: Needs) -> list[Strings]:
    """Return the names that a member that must exist may have, as shapes."""
    found = [Strings(but=finder.names)]
    for pattern in finder.patterns:
        found = meets(found, pattern_shapes(pattern, False))
    return meets(found, needs.names(naming)) if naming else found


def meets(some: Sequence[Strings], others: Sequence[Strings]) -> list[Strings]:
    """Return the intersection of two unions of string shapes."""
    return [met for one in some for other in others if (met := one.meet(other)) is not None]


def orders(names: list[str], shape: Objects) -> tuple[tuple[int, ...], ...]:
    """Return the orders in which a shape declares its members, as indices into ``names``.

    They are the order of ``properties`` (where a schema combines others: as the schema reads, and with its own members first)
    and, where ``required`` lists its names in another order, that order followed by the rest. Names that only other shapes
    declare come last.
    """
    place = {name: i for i, name in enumerate(names)}
    ways = dict.fromkeys((tuple(name for name, _ in shape.names), shape.early))
    found = dict.fromkeys(
        tuple(dict.fromkeys(place[n] for n in (*way, *shape.required, *names) if n in place))
        for way in ways
        if way is not None
    )
    declared = next(iter(found))
    required = [place[name] for name in shape.required]
    if required != sorted(required, key=declared.index):
        found[tuple(dict.fromkeys((*required, *declared)))] = None
    return tuple(found)


def kinds(needs: Needs, shape: Objects, declared: frozenset[str]) -> Kinds:
    """Return the classes of undeclared names that are allowed, split by the patterns that they match.
    Raises ``TooManyStates``."""
    if is_closed(shape):
        return ()
    patterns = {p for p, _ in shape.patterns} | {p for o, _ in shape.others for p in o.patterns}
    if not patterns and not shape.naming:  # one class: all other names
        need = reduce(both, [inner for _, inner in shape.others], ANY)
        return () if need == NEVER else ((Strings(but=declared), need),)
    naming = needs.names(shape.naming) if shape.naming else (Strings(),)
    left = tuple([limit for limit in naming if limit.among is None or not limit.among <= declared])
    closing = frozenset([others.patterns for others, inner in shape.others if inner == NEVER])
    result = []
    for cell, found in needs.cells(left, tuple(sorted(patterns)), closing):
        asked = [inner for pattern, inner in shape.patterns if pattern in found]
        asked += [inner for others, inner in shape.others if not others.patterns & found]
        need = reduce(both, asked, ANY)
        if need != NEVER and (kind := needs.without(cell, declared)) is not None:
            result.append((kind, need))
    return tuple(result)


def cells(
    naming: Sequence[Strings], patterns: Sequence[str], closing: Collection[frozenset[str]]
) -> list[tuple[Strings, frozenset[str]]]:
    """Return the classes of names that some shapes allow, split by the patterns that they match, which are given with each.
    ``closing``: sets of patterns of each of which a name must match one. Raises ``TooManyStates``."""
    found = [(name, frozenset[str]()) for name in naming if not strings.empty(name)]
    for i, pattern in enumerate(patterns):
        split = []
        decided = [each for each in closing if each.isdisjoint(patterns[i + 1 :])]
        spend(100 * len(found))
        for cell, matched in found:
            for sign, now in ((True, matched | {pattern}), (False, matched)):
                if not any(map(now.isdisjoint, decided)):
                    parts = meets([cell], pattern_shapes(pattern, sign))
                    split += [(part, now) for part in parts if not strings.empty(part)]
        if len(split) > limits.ALTERNATIVES:
            raise TooManyStates("too many patterns of names overlap", limit=limits.ALTERNATIVES)
        found = split
    return found


# ---------------------------------------------------------------- name by name


class Form(NamedTuple):
    """An object shape with its conditions resolved name by name.

    Attributes
    ----------
    names
        The names told apart.
    needs
        By name told apart, the need of the value of such a member.
    required
        The names that must be there, by number.
    others
        The classes of all other names, each with the need of the values of such members.
    some
        The other members of which one must be there, each time.
    least, most
        Bounds on the number of members, ``most=None`` for no bound; ``least=0`` if the required members are enough.
    orders
        The orders of the names, by number; empty if any order is allowed.
    """

    names: tuple[str, ...]
    needs: tuple[Need, ...]
    required: frozenset[int]
    others: Kinds
    some: tuple[Some, ...]
    least: int
    most: int | None
    orders: tuple[tuple[int, ...], ...]


def forms(needs: Needs, shapes: Sequence[Objects]) -> list[Form]:
    """Return the ways to write objects of some shapes. None has a name with a lone surrogate, which UTF-8 cannot write.

    Forms with undeclared members also list the names that other shapes declare, up to :data:`MANY_NAMES` in all.
    """
    shapes = tuple(dict.fromkeys(shapes)) if len(shapes) > 1 else shapes
    closed = [is_closed(shape) for shape in shapes]
    size = closed.count(False)
    shared = names_of(needs, shapes) if size else ()
    alone = size * len(shared) > MANY_NAMES
    found = []
    for shape, is_alone in zip(shapes, closed, strict=True):
        names = names_of(needs, [shape]) if alone or is_alone else shared
        plain = replace(shape, some=()) if shape.some else shape
        for case, some in narrowings(plain, shape.some, names, needs):
            found += form(needs, case, some, names)
    return found


def is_closed(shape: Objects) -> bool:
    """Return whether objects of a shape have declared names only: no pattern and no other name is allowed."""
    return bool(shape.others) and any(need == NEVER and not others.patterns for others, need in shape.others)


def form(needs: Needs, shape: Objects, some: tuple[Some, ...], names: tuple[str, ...]) -> list[Form]:
    """Return the form of a shape, beside the members ``some`` that must exist; no form if a required member has no value."""
    number = {name: i for i, name in enumerate(names)}
    each = tuple([need_of(shape, name, needs) if is_text(name) else NEVER for name in names])
    required = frozenset([number[name] for name in shape.required])
    if any(each[i] == NEVER for i in required):
        return []
    least = 0 if not some and shape.least <= len(required) else shape.least
    others = kinds(needs, shape, frozenset(names))
    declared = orders(list(names), shape) if needs.order == "declared" else ()
    return [Form(names, each, required, others, some, least, shape.most, declared)]


def names_of(needs: Needs, shapes: Sequence[Objects]) -> tuple[str, ...]:
    """Return the names that an object tells apart one by one.
    They are the declared ones and those listed in conditions on names, such as ``propertyNames`` with ``enum``."""
    names = dict.fromkeys([name for shape in shapes for name, _ in shape.names])
    names |= dict.fromkeys([name for shape in shapes for name in shape.required])
    for shape in shapes:
        listed = list(needs.names(shape.naming)) if shape.naming else []
        for finder, naming, _ in shape.some:
            listed += finder_names(finder, naming, needs)
            names |= dict.fromkeys(sorted(finder.names))
        for others, _ in shape.others:
            names |= dict.fromkeys(sorted(others.names))
        for limit in listed:
            names |= dict.fromkeys(sorted(limit.but if limit.among is None else limit.among))
        if shape.least or shape.some:
            for kind, _ in kinds(needs, shape, frozenset(names)):
                names |= dict.fromkeys(strings.few(kind))
    return tuple(names)
