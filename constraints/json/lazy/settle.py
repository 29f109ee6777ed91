"""Object shapes resolved name by name: the names that are told apart, and the forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import objects, strings
from ..shapes import NEVER, Objects, Others, Strings
from .members import Form

if TYPE_CHECKING:
    from .values import Machines


def names_of(machines: Machines, shapes: Sequence[Objects]) -> tuple[str, ...]:
    """Return the names that an object tells apart one by one.
    They are the declared ones and those listed in conditions on names, such as ``propertyNames`` with ``enum``."""
    names = dict.fromkeys(name for shape in shapes for name, _ in shape.names)
    names |= dict.fromkeys(name for shape in shapes for name in shape.required)
    for shape in shapes:
        limits = list(machines.names(shape.naming)) if shape.naming else []
        for finder, naming, _ in shape.some:
            limits += objects.finder_names(finder, naming, machines.names)
            if isinstance(finder, Others):
                names |= dict.fromkeys(sorted(finder.names))
        for others, _ in shape.others:
            names |= dict.fromkeys(sorted(others.names))
        for limit in limits:
            names |= dict.fromkeys(sorted(limit.among or ()))
            names |= dict.fromkeys(sorted(limit.but))
        if shape.least or shape.some:
            kinds = objects.kinds(shape, frozenset(names), machines.names)
            for kind, _ in kinds:
                names |= dict.fromkeys(strings.few(kind))
    return tuple(names)


def forms(
    machines: Machines, shapes: Sequence[Objects]
) -> tuple[tuple[str, ...], list[Form], dict[Strings, int]]:
    """Return the names told apart, the forms of the shapes, and the classes of undeclared names."""
    names = names_of(machines, shapes)
    classes: dict[Strings, int] = {}
    found = []
    for shape in dict.fromkeys(shapes):
        some = shape.some
        cases: list[tuple[Objects, tuple[objects.Some, ...]]] = [(shape, ())]
        if some:
            cases = objects.narrowings(replace(shape, some=()), some, names, machines.names)
        for case, witness in cases:
            if any(objects.need_of(case, name, machines.names) == NEVER for name in case.required):
                continue
            found.append(Form(machines, case, witness, names, classes, machines.order == "declared"))
    return names, found, classes
