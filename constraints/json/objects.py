"""Object shapes, settled name by name.

A *record* is an object shape with its conditions settled name by name: the declared members in order, and the other
members by classes of names. JSON lets a name be written twice, and then the last one counts, so a member that must exist
among the undeclared ones stands last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata.work import spend
from ..narrowing import Narrowing
from . import strings
from .shapes import ANY, NEVER, Need, Objects, Others, Strings, both

MAX_CLASSES = 256

Namer = Callable[[Need], Sequence[Strings]]
"""The strings that satisfy a need."""
Kinds = tuple[tuple[Strings, Need], ...]
"""Classes of names, and what the values of such members need."""
Some = tuple[Others | str, Need, Need]
"""A member that must exist: which names, what the name needs as a string, what the value needs."""


@dataclass(frozen=True)
class Record:
    """Members by name, the orders in which they may stand, those that must be there, the classes of others, how many
    members there are (of which undeclared ones make up one of ``least``); ``last``: a member of one of these classes stands
    last; all names that have a place; ``shared``: whether that member does for several that must exist; ``narrowed``: what
    else it lacks of its shape."""

    members: tuple[tuple[str, Need], ...]
    required: frozenset[str]
    others: Kinds
    least: int = 0
    most: int | None = None
    last: Kinds | None = None
    orders: tuple[tuple[int, ...], ...] = ()
    declared: tuple[str, ...] = ()
    shared: bool = False
    narrowed: tuple[Narrowing, ...] = ()

    @property
    def needs(self) -> list[Need]:
        """What values of members need."""
        return [need for _, need in (*self.members, *self.others, *(self.last or ()))]


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern."""
    return strings.has(name, frozenset([("pattern", pattern, True)]))


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
    found = shape.by_name.get(name, ANY)
    for pattern, need in shape.patterns:
        if matches(pattern, name):
            found = both(found, need)
    for others, need in shape.others:
        if lacks(others, name):
            found = both(found, need)
    return found if fits(shape.naming, name, namer) else NEVER


def declared_names(shapes: Sequence[Objects], namer: Namer) -> tuple[str, ...]:
    """The names that any of the shapes declares, in the order in which they do; and where several members must exist,
    the few names that they may, or may not, have."""
    names = dict.fromkeys(name for shape in shapes for name, _ in shape.names)
    names |= dict.fromkeys(name for shape in shapes for name in shape.required)
    for finder, naming, _ in dict.fromkeys(
        some for shape in shapes if len(shape.some) > 1 for some in shape.some
    ):
        for found in finder_names(finder, naming, namer):
            names |= dict.fromkeys(strings.few(found) or sorted(found.but)[: strings.FEW])
    return tuple(names)


def records(shape: Objects, declared: tuple[str, ...], namer: Namer, where: str) -> list[Record]:
    """The records that make up a shape; the declared names are those of all shapes that it stands beside. Raises
    ``UnsupportedConstraint``."""
    if not shape.some:
        found = record(shape, declared, namer, (), where)
        return [found] if found else []
    result = []
    for narrowed, witness in narrowings(replace(shape, some=()), shape.some, declared, namer):
        if (found := record(narrowed, declared, namer, witness, where)) is None:
            continue
        result.append(found)
    return result


def narrowings(
    shape: Objects, some: Sequence[Some], declared: tuple[str, ...], namer: Namer
) -> list[tuple[Objects, tuple[Some, ...]]]:
    """The ways in which members exist that must: each is a declared one, which is then required, or one of the others,
    which are listed beside the shape. Raises ``TooManyStates``."""
    ways: dict[tuple[Objects, tuple[Some, ...]], None] = {(shape, ()): None}
    for finder, naming, need in some:
        names = [n for n in declared if finds(finder, n) and fits(naming, n, namer)]
        found: dict[tuple[Objects, tuple[Some, ...]], None] = {}
        for narrowed, witness in ways:
            spend(20 * (1 + len(names)))
            met = [narrowed.meet(Objects(((name, need),), (name,))) for name in names]
            if narrowed in met:  # it has such a member anyway
                found[narrowed, witness] = None
                continue
            for name, way in zip(names, met, strict=True):
                if way is not None and need_of(way, name, namer) != NEVER:
                    found[way, witness] = None
            found[narrowed, (*witness, (finder, naming, need))] = None
        if len(found) > MAX_CLASSES:
            raise TooManyStates("too many members of which one must exist", limit=MAX_CLASSES)
        ways = found
    return list(ways)


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
    witness: Sequence[Some],
    where: str,
) -> Record | None:
    """The record of a shape, ``None`` if no object has it. ``witness``: undeclared members that must exist; one does for all
    of them, since of two that differ it could not be said whether their names do."""
    spend(60 + 3 * len(declared))
    members = tuple((name, need_of(shape, name, namer)) for name in declared)
    required = frozenset(shape.required)
    if any(need == NEVER and name in required for name, need in members):
        return None
    members = tuple((name, need) for name, need in members if need != NEVER)
    others = kinds(shape, frozenset(declared), namer)
    last = witnesses(others, witness, namer) if witness else None
    if last == ():
        return None
    sure = len(required) + (last is not None)
    if shape.most is not None and sure > shape.most:
        return None
    if shape.most == sure:  # there is no place for more
        members, others = tuple(m for m in members if m[0] in required), ()
    least = shape.least if shape.least > sure else 0
    if least > len(members) + bool(others or last):
        if not others:
            return None
        raise UnsupportedConstraint(
            "minProperties that several undeclared members would have to make up: their names may not differ",
            path=where,
        )
    most = shape.most
    if most is not None and not others and not last and most >= len(members):
        most = None
    order = orders([n for n, _ in members], shape)
    narrowed: tuple[Narrowing, ...] = ()
    if others and least > len(required) + 1:
        given, why = (
            "undeclared members count as one",
            "their names may not differ: JSON lets one be written twice",
        )
        narrowed = (Narrowing(where, "minProperties", shape.least, given, why),)
    return Record(members, required, others, least, most, last, order, declared, len(witness) > 1, narrowed)


def witnesses(others: Kinds, witness: Sequence[Some], namer: Namer) -> Kinds:
    """The undeclared members that do for all that must exist."""
    found = others
    for finder, naming, need in witness:
        found = tuple(
            (name, joined)
            for kind, value in found
            for limit in finder_names(finder, naming, namer)
            if (name := kind.meet(limit))
            and (joined := both(value, need)) != NEVER
            and not strings.empty(name)
        )
    return found


def finder_names(finder: Others | str, naming: Need, namer: Namer) -> list[Strings]:
    """The names of a member that must exist."""
    if isinstance(finder, str):
        limit = Strings(atoms=frozenset([("pattern", finder, True)]))
    else:
        atoms = frozenset(("pattern", p, False) for p in finder.patterns)
        limit = Strings(atoms=atoms, but=finder.names)
    return [s for n in namer(naming) if (s := limit.meet(n))] if naming else [limit]


def orders(names: list[str], shape: Objects) -> tuple[tuple[int, ...], ...]:
    """The orders in which a shape declares the members: that of ``properties``, where a schema combines others as they
    stand in it or its own first; and where ``required`` lists its names in another order, that of ``required`` and then
    the rest. Names that only other shapes declare come last."""
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


def kinds(shape: Objects, declared: frozenset[str], namer: Namer) -> Kinds:
    """The classes of undeclared names that the shape tells apart and allows."""
    naming = namer(shape.naming) if shape.naming else [Strings()]
    open_cells = [
        (cell, frozenset[str]()) for n in naming if (cell := n.meet(Strings(but=declared))) is not None
    ]
    patterns = sorted({p for p, _ in shape.patterns} | {p for o, _ in shape.others for p in o.patterns})
    for pattern in patterns:
        split = []
        spend(100 * len(open_cells))
        for cell, found in open_cells:
            for sign in (True, False):
                part = cell.meet(Strings(atoms=frozenset([("pattern", pattern, sign)])))
                if part is not None and not strings.empty(replace(part, but=frozenset())):
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
        if need == NEVER:
            continue
        if not strings.empty(cell):
            result.append((cell, need))
    return tuple(result)
