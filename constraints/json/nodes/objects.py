"""Objects as nodes: a bag of members for each form, and for each order of its members.

Where names that are not declared must differ, because they are counted or one of them must be there, the bag ends where such
a name begins: it is an item of its own, and the object's items differ (``Apart``). Such a name has then no equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING

from ....errors import TooManyStates, UnsupportedConstraint
from ...automata.work import spend
from ...program import nodes
from ...program.node import Node
from ...program.nodes import EMPTY, NOTHING
from ..objects import Form, Kinds, forms, witnesses
from ..shapes import Need, Strings
from ..text import Style
from .leaves import blanks, enclosed, string_node
from .names import after_text, inside, names_tables

if TYPE_CHECKING:
    from .values import ValueWriter

MOST_PLACES = 64
"""The most ways in which members that must be there may stand among those in order."""
MOST_TOGETHER = 7
"""The most members that must be there, each of which may be one and the same as any of the others."""
Inner = Callable[[Need], Node]


def objects(writer: ValueWriter, need: Need, style: Style) -> list[Node]:
    """Return nodes of the objects that satisfy a need. Raises ``UnsupportedConstraint`` and ``TooManyStates``."""
    shapes = writer.value(need).object
    if not shapes:
        return []
    # an object in the style of its values is at their depth
    inner = writer.below.node if style is writer.style else writer.node
    return [
        in_braces(writer, need, form, [*order], style, inner)
        for form in forms(writer.needs, shapes)
        for order in form.orders or [range(len(form.names))]
    ]


def in_braces(
    writer: ValueWriter, need: Need, form: Form, order: Sequence[int], style: Style, inner: Inner
) -> Node:
    """Return the node of the objects of a form. ``order``: the indices of its names, as members come if the form has orders."""
    spend(5 * len(order))
    value = {i: inner(form.needs[i]) for i in form.required}
    if NOTHING in value.values():
        return NOTHING
    value |= {i: inner(form.needs[i]) for i in order if i not in value}
    live = [i for i in order if value[i] is not NOTHING]
    others = [(kind, found) for kind, each in form.others if (found := inner(each)) is not NOTHING]
    if form.some and not others:
        return NOTHING
    if form.some or (others and form.least > max(1, len(form.required))):
        if len(style.spellings) > 1 or not style.spellings[0].opening:
            what = "members of which one must be there, or names that are counted, need names of one spelling"
            raise UnsupportedConstraint(what, path=writer.needs.where(need))
        return told_apart(writer, form, live, style, inner)
    values = [value[i] for i in live] + [each for _, each in others]
    # declared names are in no class, whatever else it leaves out
    classes = tuple(Strings(kind.least, kind.most, kind.atoms) for kind, _ in others)
    if classes and not all(spelling.opening for spelling in style.spellings):
        what = "arguments that are not declared have no name in Python"
        raise UnsupportedConstraint(what, path=writer.needs.where(need))
    required = [k for k, i in enumerate(live) if i in form.required]
    tables = names_tables(tuple([form.names[i] for i in live]), form.names, classes, style)
    parts = after_names(values, style, style.joint)

    def some(low: int) -> Node:
        if tables is None:  # no name can be read
            return NOTHING if low else EMPTY
        return nodes.bag(*tables, parts, len(live), required, low, form.most, bool(form.orders))

    return enclosed(style.braces, some, max(form.least, len(required)), style)


def after_names(values: Iterable[Node], style: Style, read: bytes) -> list[Node]:
    """Return the nodes of values with what is between each and its name behind ``read``, and the white space behind it."""
    blank, colon = blanks(style.blank), nodes.text(style.colon.removeprefix(read))
    before = nodes.seq(*([] if colon is EMPTY else [blank, colon]), blank)
    if before is EMPTY:
        return list(values)
    return [nodes.seq(before, value, blank) for value in values]


# ---------------------------------------------------------------- other names told apart


def told_apart(writer: ValueWriter, form: Form, live: list[int], style: Style, inner: Inner) -> Node:
    """Return the node of the objects of a form in which no two names are equal.
    A member that must be there is one of a label of its own; it may provide several of ``form.some``."""

    def member(kinds: Kinds) -> Node:
        names = [nodes.item(string_node(kind, style.spellings[0]), json=True) for kind, _ in kinds]
        values = after_names((inner(each) for _, each in kinds), style, b"")
        return nodes.alt(*map(nodes.seq, names, values))

    if len(form.some) > MOST_TOGETHER:
        raise TooManyStates(
            f"{len(form.some)} members of which one must be there (through not, contains or oneOf on names) are too many",
            limit=MOST_TOGETHER,
        )

    @cache
    def providing(part: tuple[int, ...]) -> Node:
        return member(witnesses(form.others, [form.some[i] for i in part], writer.needs))

    free, options = member(form.others), []
    for parts in partitions(range(len(form.some))):
        spend(20 * len(parts))
        needed = [providing(tuple(part)) for part in parts]
        if NOTHING in needed:
            continue
        for order in placed(len(live), len(needed), bool(form.orders)):
            options.append(told_apart_in(form, live, [*needed, free], order, style, inner))
    return nodes.apart(nodes.seq(nodes.alt(*options), nodes.text(style.trail + style.braces[1])))


def told_apart_in(
    form: Form, live: list[int], others: list[Node], order: Sequence[int], style: Style, inner: Inner
) -> Node:
    """Return the bag of an object's members with the brace before them.

    ``others``: the members whose names are items: those that must be there, and the last all others. ``order``: the label of
    each live name and of each member that must be there.
    """
    spelling = style.spellings[0]
    part = (inside(tuple(form.names[i] for i in live), (), (), spelling, style),)
    labels, rest = tuple(order[: len(live)]), (*order[len(live) :], len(order))
    first = after_text(part, style.braces[0] + style.lead, style, labels, rest)
    later = after_text(part, style.comma, style, labels, rest)
    values = [EMPTY] * (len(order) + 1)
    named = after_names((inner(form.needs[i]) for i in live), style, style.joint)
    for label, value in zip((*labels, *rest), (*named, *others), strict=True):
        values[label] = value
    required = [label for i, label in zip(live, labels, strict=True) if i in form.required]
    required += rest[:-1]
    return nodes.bag(
        first, later, values, len(order), required, max(1, form.least), form.most, bool(form.orders)
    )


def partitions(some: Sequence[int]) -> Iterator[list[list[int]]]:
    """Yield the partitions of members that must be there: each part is what one member provides."""
    if not some:
        yield []
        return
    first, *others = some
    for parts in partitions(others):
        yield [[first], *parts]
        for i, part in enumerate(parts):
            yield [*parts[:i], [first, *part], *parts[i + 1 :]]


def placed(live: int, needed: int, ordered: bool) -> list[Sequence[int]]:
    """Return the labels of the live names, then of the members that must be there.
    If labels are in order: each way in which these may stand among those. Raises ``TooManyStates``."""
    every = range(live + needed)
    if not ordered or not needed:
        return [every]
    found: list[Sequence[int]] = []
    for places in permutations(every, needed):
        found.append([*(label for label in every if label not in places), *places])
        if len(found) > MOST_PLACES:
            why = "members of which one must be there may stand in too many places; use order='any'"
            raise TooManyStates(why, limit=MOST_PLACES)
    return found
