"""Objects as nodes: a bag of members for each form, and for each order of its members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...program import nodes
from ...program.node import Node
from ...program.nodes import EMPTY, NOTHING
from ..lazy.members import Form
from ..lazy.objects import ObjectMachine
from ..shapes import Strings
from .leaves import NotWritten
from .names import names_tables

if TYPE_CHECKING:
    from .values import Writer


def objects(writer: Writer, machine: ObjectMachine) -> list[Node]:
    """Return the nodes of the objects of a machine. Raises ``NotWritten``."""
    found = []
    for form in machine.forms:
        for order in form.orders or [range(len(machine.names))]:
            found.append(in_braces(writer, form, [*order], machine.names, machine.classes))
    return found


def in_braces(
    writer: Writer, form: Form, order: Sequence[int], names: tuple[str, ...], kinds: Sequence[Strings]
) -> Node:
    """Return the node of the objects of a form, the names told apart in an order, which matters if the form has orders."""
    if form.start(0) is None:
        return NOTHING
    if form.must:
        raise NotWritten("members of which one must be there")
    if form.possible and form.least > max(1, form.required.bit_count()):
        raise NotWritten("names that must differ")
    live = [i for i in order if form.live >> i & 1]
    style, inner = writer.style, writer.below.node
    needs = [form.needs[i] for i in live] + [each.need for each in form.possible]
    values = [nodes.seq(writer.blank, inner(need), writer.blank) for need in needs]
    classes = tuple(kinds[each.bit - len(names)] for each in form.possible)
    tables = names_tables(tuple(names[i] for i in live), names, classes, style)
    left, right = (nodes.text(brace) for brace in style.braces)
    least = form.least if form.counts else 0
    may_be_empty = not (least or form.required)
    if tables is None:  # no name can be read
        return nodes.seq(left, writer.blank, right) if may_be_empty else NOTHING
    required = [k for k, i in enumerate(live) if form.required >> i & 1]
    low = max(least, style.indent is not None)
    some = nodes.bag(*tables, values, len(live), required, low, form.most, bool(form.orders))
    if style.indent is None:
        return nodes.seq(left, writer.blank, some, right)
    some = nodes.seq(some, nodes.text(style.trail))
    return nodes.seq(left, nodes.alt(*([EMPTY] if may_be_empty else []), some), right)
