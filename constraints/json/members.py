"""Object shapes resolved name by name: the names that are told apart, and the forms of objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from . import objects, strings
from .needs import Needs
from .objects import Kinds, Some
from .shapes import NEVER, Need, Objects
from .text import Spelling


@dataclass(frozen=True)
class Form:
    """An object shape with its conditions resolved name by name.

    Attributes
    ----------
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

    needs: tuple[Need, ...]
    required: frozenset[int]
    others: Kinds
    some: tuple[Some, ...]
    least: int
    most: int | None
    orders: tuple[tuple[int, ...], ...]


def forms(needs: Needs, shapes: Sequence[Objects], spelling: Spelling) -> tuple[tuple[str, ...], list[Form]]:
    """Return the names told apart, and the forms of the shapes; a name that has no spelling may not be written."""
    names = names_of(needs, shapes)
    found = []
    for shape in dict.fromkeys(shapes):
        cases: list[tuple[Objects, tuple[Some, ...]]] = [(shape, ())]
        if shape.some:
            cases = objects.narrowings(replace(shape, some=()), shape.some, names, needs.names)
        for case, some in cases:
            found += form(needs, case, some, names, spelling)
    return names, found


def form(
    needs: Needs, shape: Objects, some: tuple[Some, ...], names: tuple[str, ...], spelling: Spelling
) -> list[Form]:
    """Return the form of a shape without ``some``, or none if a required member may not be there."""
    number = {name: i for i, name in enumerate(names)}
    each = tuple(
        objects.need_of(shape, name, needs.names) if all(map(spelling.ways, name)) else NEVER
        for name in names
    )
    required = frozenset(number[name] for name in shape.required)
    if any(each[i] == NEVER for i in required):
        return []
    least = 0 if not some and shape.least <= len(required) else shape.least
    others = objects.kinds(shape, frozenset(names), needs.names)
    orders = objects.orders(list(names), shape) if needs.order == "declared" else ()
    return [Form(each, required, others, some, least, shape.most, orders)]


def names_of(needs: Needs, shapes: Sequence[Objects]) -> tuple[str, ...]:
    """Return the names that an object tells apart one by one.
    They are the declared ones and those listed in conditions on names, such as ``propertyNames`` with ``enum``."""
    names = dict.fromkeys(name for shape in shapes for name, _ in shape.names)
    names |= dict.fromkeys(name for shape in shapes for name in shape.required)
    for shape in shapes:
        limits = list(needs.names(shape.naming)) if shape.naming else []
        for finder, naming, _ in shape.some:
            limits += objects.finder_names(finder, naming, needs.names)
            names |= dict.fromkeys(sorted(finder.names))
        for others, _ in shape.others:
            names |= dict.fromkeys(sorted(others.names))
        for limit in limits:
            names |= dict.fromkeys(sorted(limit.among or ()))
            names |= dict.fromkeys(sorted(limit.but))
        if shape.least or shape.some:
            kinds = objects.kinds(shape, frozenset(names), needs.names)
            for kind, _ in kinds:
                names |= dict.fromkeys(strings.few(kind))
    return tuple(names)
