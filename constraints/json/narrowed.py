"""What the automaton of a schema lacks of what the schema allows: a narrowing for each place that was cut.

It is read off the compiler when the automaton is done, so that those limits count that were taken in the end, where they
leave something out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ...errors import TooManyStates
from ..narrowing import Narrowing, merged
from . import strings
from .formats import LEFT_OUT
from .objects import Record
from .places import bound, place, said
from .runs import ANY_ORDER
from .shapes import ANY, Need, Numbers, Strings
from .text import ways
from .vocabulary import pointer

if TYPE_CHECKING:
    from .compiler import Compiler

MOST_PLACES = 100
"""Schemas of equal content that are named for one narrowing."""
ANY_VALUE = "any value"
LENGTH = "an automaton of all of it would be large; max_length sets the bound"
DEPTH = "no regular language nests without a bound; max_depth sets it"
EXPONENTS = Narrowing(
    "",
    "numbers",
    "integers, and numbers under a condition, in every way to write them",
    "decimals without an exponent",
    "digits can be compared only before an exponent says what they are worth; write 100, not 1e2",
)


def narrowings(compiler: Compiler, root: Need) -> tuple[Narrowing, ...]:
    """What the automaton that was compiled last lacks of the values that satisfy the root."""
    if not root:
        return (free_value(compiler, ""),)
    lowest: dict[Need, int] = {}
    some: set[Need] = set()
    for (need, left), piece in compiler.memo.items():
        lowest[need] = min(left, lowest.get(need, left))
        if piece.size:
            some.add(need)
    found = [cut_cycles(compiler, need, left, some, lowest) for need, left in lowest.items()]
    for need, left in lowest.items():
        found.append(cut_strings(compiler, need))
        if need in some:
            found += [
                cut_arrays(compiler, need),
                cut_objects(compiler, need, left),
                cut_numbers(compiler, need),
            ]
    places = compiler.document.places
    every = merged(*found)
    cuts = sorted(
        (each for each in every if each.loses_values), key=lambda each: each.asked == ANY_VALUE
    )  # what the schema says comes first
    named = (each._replace(path=path) for each in cuts for path in places(each.path, MOST_PLACES))
    return merged(named, (each for each in every if not each.loses_values))


# ---------------------------------------------------------------- depth


def free_value(compiler: Compiler, path: str) -> Narrowing:
    """A value that the schema says nothing about."""
    most = f"values whose arrays and objects nest at most {compiler.limits.free} deep"
    return Narrowing(path, "max_depth", ANY_VALUE, most, DEPTH)


def cut_cycles(
    compiler: Compiler, need: Need, left: int, some: set[Need], lowest: dict[Need, int]
) -> Iterator[Narrowing]:
    """Schemas within themselves that are not entered any more."""
    if left or not compiler.heads or compiler.heads.isdisjoint(below := compiler.below(need)):
        return
    for head in below:
        own = head in compiler.heads and compiler.knot.get(head) == compiler.knot[need]
        if own and (head in some or head not in lowest):
            depth = compiler.limits.depth
            given = f"itself at most {depth} {'level' if depth == 1 else 'levels'} deep"
            yield Narrowing(compiler.where(head), "max_depth", "itself at any depth", given, DEPTH)


# ---------------------------------------------------------------- numbers


def cut_numbers(compiler: Compiler, need: Need) -> Iterator[Narrowing]:
    """Numbers under a condition that are written with an exponent, unless the notation has none for them."""
    plain, whole = compiler.notation.plain, compiler.notation.whole
    for shape in compiler.value(need).number:
        as_asked = (shape.integer and (plain or whole)) or (shape.among is not None and plain)
        if shape != Numbers() and not as_asked:
            yield EXPONENTS


# ---------------------------------------------------------------- strings


def cut_strings(compiler: Compiler, need: Need) -> Iterator[Narrowing]:
    """The strings of a need: their bounds, patterns, formats, and listed ones that no text has."""
    for shape in compiler.value(need).string:
        yield from cut_string(compiler, need, shape)
        yield from formats(compiler, need, shape)


def cut_string(compiler: Compiler, need: Need, shape: Strings) -> Iterator[Narrowing]:
    """A bound on the length that was lowered, and listed strings with half of a surrogate pair."""
    most = compiler.cut(shape).most
    if (
        most is not None
        and shape.most not in (most, None)
        and may_be(lambda: not strings.empty(replace(shape, least=most + 1)))
    ):
        path, keyword = bound(compiler, need, "Length", shape.most)
        yield Narrowing(path, keyword, shape.most, most, LENGTH)
    for text in sorted(shape.among or ()):
        if not all(map(ways, text)):
            path = place(compiler, need, "enum", None)
            yield Narrowing(path, "enum", ascii(text), "nothing", "a lone surrogate is no Unicode text")


def formats(compiler: Compiler, need: Need, shape: Strings) -> Iterator[Narrowing]:
    """Times, of which leap seconds are left out."""
    for kind, which, sign in sorted(shape.atoms):
        name, *rounds = which.split(", ")
        if kind != "format" or not rounds:
            continue
        exact = frozenset([(kind, name, sign)])
        if shape.among is not None and all(
            strings.has(text, exact) <= strings.has(text, shape.atoms) for text in shape.among
        ):
            continue
        given = f"strings that {'have' if sign else 'lack'} the format beyond doubt"
        asked, why = name if sign else f"not {name}", LEFT_OUT
        yield Narrowing(place(compiler, need, kind, name), kind, asked, given, why)


# ---------------------------------------------------------------- arrays


def cut_arrays(compiler: Compiler, need: Need) -> Iterator[Narrowing]:
    """The arrays of a need: their bounds, their items without a schema, and how many distinct items there may be."""
    where = compiler.where(need)
    for shape in compiler.settled(need)[0]:
        if (where, shape) in compiler.distinct:
            for each in compiler.distinct[where, shape]:
                yield each._replace(path=place(compiler, need, each.keyword, True))
            for item in dict.fromkeys((*shape.prefix, shape.rest)):
                yield from cut_strings(compiler, item)
                yield from cut_numbers(compiler, item)
            continue
        most = compiler.cut_items(shape).most
        if most is not None and shape.most not in (most, None) and not compiler.empty(shape.at(most)):
            path, keyword = bound(compiler, need, "Items", shape.most)
            yield Narrowing(path, keyword, shape.most, most, f"{LENGTH}, of items to a tenth of it")
        for position, kinds in enumerate(compiler.items(need, shape)):
            if ANY in kinds:
                step = f"prefixItems/{position}" if position < len(shape.prefix) else "items"
                yield free_value(compiler, f"{where}/{step}")


# ---------------------------------------------------------------- objects


def cut_objects(compiler: Compiler, need: Need, left: int) -> Iterator[Narrowing]:
    """The objects of a need: members without a schema, how members are ordered, and undeclared ones that must exist."""
    where, way = compiler.where(need), compiler.plan.ways.get((need, left), compiler.plainest)
    records = compiler.settled(need)[1]
    for record in records:
        yield from record.narrowed
        for name, inner in record.members:
            if inner == ANY:
                owner = said(compiler, need, "properties", name)
                step = "additionalProperties" if owner is None else f"properties/{pointer(name)}"
                yield free_value(compiler, f"{where if owner is None else owner}/{step}")
        for kind, inner in (*record.others, *(record.last or ())):
            if inner == ANY:
                patterns = [which for what, which, sign in sorted(kind.atoms) if sign and what == "pattern"]
                owners = {which: said(compiler, need, "patternProperties", which) for which in patterns}
                said_there = (
                    f"{owner}/patternProperties/{pointer(p)}"
                    for p, owner in owners.items()
                    if owner is not None
                )
                yield free_value(compiler, next(said_there, f"{where}/additionalProperties"))
    if not way.free and compiler.common and any(map(has_orders, records)):
        yield Narrowing(
            where,
            "properties",
            "each alternative in its own order",
            "all in one order",
            "several orders would make the automaton large; write all alternatives in one order",
        )
    several = [r for r in records if len(r.members) + bool(r.others) > 1 and r.most != 1]
    alone = way.others == "anywhere" and all(len(r.members) < 2 for r in several)
    exact = way == ANY_ORDER or alone or (way.free and not any(r.others for r in several))
    if compiler.order != "declared" and several and not exact:
        given = "undeclared members not between the others" if way.free else "the declared order"
        why = 'the automaton remembers each set of members; order="declared" asks for no more'
        yield Narrowing(where, "properties", "members in any order", given, why)
    for record in records:
        yield from cut_witness(compiler, where, record, way == ANY_ORDER)


def has_orders(record: Record) -> bool:
    """Whether members of a record stand in other orders than that in which they are listed."""
    return any(order != tuple(range(len(order))) for order in record.orders)


def cut_witness(compiler: Compiler, where: str, record: Record, free: bool) -> Iterator[Narrowing]:
    """Undeclared members that must exist: the last one of that kind, or one for several."""
    if not record.last:
        return
    others = [kind for kind, _ in record.others]
    if free:  # those may follow that cannot have the name of such a member
        others = [kind for kind in others if any(kind.meet(name) is not None for name, _ in record.last)]
    behind = others or (compiler.order != "declared" and not free and record.members)
    if behind or record.shared:
        given = "one for all that must exist, " if record.shared else "one "
        yield Narrowing(
            where,
            "additionalProperties",
            "undeclared members that must exist, anywhere",
            f"{given}behind the others",
            "a later member of the same name would replace it",
        )


def may_be(test: Callable[[], bool]) -> bool:
    """The answer, or that it may be so where that is too much work to know."""
    try:
        return test()
    except TooManyStates:
        return True
