"""Sets of JSON values, as unions of shapes by type: the meaning of a schema, before any text.

Value = null? ∪ booleans ∪ (∪ number shapes) ∪ (∪ string shapes) ∪ (∪ array shapes) ∪ (∪ object shapes)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...errors import TooManyStates
from .. import limits
from ..automata.work import spend
from .shapes import ANY, NEVER, Arrays, Need, Numbers, Objects, Strings

FEW = 8
"""Shapes of one type up to which redundant and empty ones are kept."""


class Value(NamedTuple):
    """A set of JSON values in disjunctive normal form: by type, a union of shapes."""

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
    """Return the values in both sets. Raises ``TooManyStates`` if there are too many shapes."""
    if a is EVERYTHING or b is EVERYTHING:
        return b if a is EVERYTHING else a
    null, boolean, number, string, array, other = a
    return Value(
        null and b.null,
        boolean & b.boolean,
        number and b.number and meet_shapes(number, b.number),
        string and b.string and meet_shapes(string, b.string),
        array and b.array and meet_shapes(array, b.array),
        other and b.object and meet_shapes(other, b.object),
    )


def meet_shapes(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Return the intersection of two unions of some shapes, without pairs that are known to be empty."""
    if len(b) == 1 and b[0] is WHOLE[type(b[0])]:
        return a
    if len(a) == 1 and a[0] is WHOLE[type(a[0])]:
        return b
    spend(40 * len(a) * len(b))
    if len(a) == len(b) == 1:
        met = a[0].meet(b[0])
        return () if met is None else (met,)
    found = dict.fromkeys(shape for x in a for y in b if (shape := x.meet(y)) is not None)
    return limited(widest(tuple(found)))


def widest(shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Drop shapes that lie within another one, where that is cheap to see.
    Up to ``FEW`` shapes are returned as they are."""
    if not FEW < len(shapes) <= limits.ALTERNATIVES:
        return shapes
    name = telling(shapes) if isinstance(shapes[0], Objects) else None
    kept: dict[Any, list[Any]] = {}  # by need of that member; None: those that are compared with all
    for shape in shapes:
        need = None if name is None else told(shape, *name)
        groups = list(kept) if need is None else [need, None]
        spend((10 if isinstance(shape, Arrays) else 3) * sum(len(kept.get(group, ())) for group in groups))
        if any(shape.within(other) for group in groups for other in kept.get(group, ())):
            continue
        for group in groups:
            kept[group] = [other for other in kept.get(group, ()) if not other.within(shape)]
        kept.setdefault(need, []).append(shape)
    left = {id(shape) for group in kept.values() for shape in group}
    return tuple(shape for shape in shapes if id(shape) in left)


def telling(shapes: Sequence[Objects]) -> tuple[str, int] | None:
    """Return a member whose needs tell most shapes apart, and how many obligations these have; ``None`` if there is none."""
    best, most = None, 1
    for name, need in shapes[len(shapes) // 2].names:
        tag = (name, len(need))
        if need and (found := len({told(shape, *tag) for shape in shapes})) > most:
            best, most = tag, found
    return best


def told(shape: Objects, name: str, size: int) -> Need | None:
    """Return the need of a member if it has exactly ``size`` obligations, else ``None``. Shapes in which two such needs differ
    do not lie within each other."""
    need = shape.by_name.get(name, ANY)
    return need if len(need) == size and need != NEVER else None


def join(*values: Value, absorb: bool = True) -> Value:
    """Return the union of several sets of values.
    ``absorb``: a shape that has every value of its type replaces all others."""
    return Value(
        any(v.null for v in values),
        frozenset[bool]().union(*(v.boolean for v in values)),
        *(join_shapes(unions, absorb) for unions in zip(*(v.shapes for v in values), strict=True)),
    )


def join_shapes(unions: Sequence[Any], absorb: bool) -> Any:
    """Return the union of several unions of shapes of one type; ``absorb`` as in :func:`join`."""
    unions = [union for union in unions if union]
    if not unions or (len(unions) == 1 == len(unions[0])):
        return unions[0] if unions else ()
    found = dict.fromkeys(shape for union in unions for shape in union)
    if isinstance(next(iter(found)), Strings) and len(found) > 1:
        lists = [shape.among for shape in found if shape.among is not None and not shape.atoms]
        rest = [shape for shape in found if shape.among is None or shape.atoms]
        found = dict.fromkeys([*rest, Strings(among=frozenset().union(*lists))] if lists else rest)
    if absorb and len(found) > 1:
        whole = WHOLE[type(next(iter(found)))]
        if whole in found:
            return (whole,)
    return limited(tuple(found))


def only(kind: str, shapes: Iterable[Any], sign: bool) -> Value:
    """Return the values of one type with these shapes.
    If ``sign``, also all values of other types."""
    others, place = EVERYTHING if sign else NOTHING, Value._fields.index(kind)
    fields: Any = (*others[:place], tuple(shapes), *others[place + 1 :])
    return Value(*fields)


def limited(shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the shapes. Raises ``TooManyStates`` if there are more than ``limits.ALTERNATIVES``."""
    if len(shapes) > limits.ALTERNATIVES:
        raise TooManyStates("a schema combines too many alternatives", limit=limits.ALTERNATIVES)
    return shapes


WHOLE: dict[type, Any] = {type(shape): shape for (shape,) in EVERYTHING.shapes}
"""By class of shapes: the one that has every value of its type."""
