"""The lazy automaton of a JSON Schema, with the options of ``json_schema``."""

from __future__ import annotations

from typing import Any

from ....errors import UnsupportedConstraint
from ...automata.region import Machine
from ...automata.stack import StackAutomaton
from ...automata.work import at, spend
from ...narrowing import Narrowing
from ..document import Document, Schema
from ..numbers import Notation
from ..shapes import NEVER, Need
from ..survey import Survey
from ..text import Style, style_of
from .blanks import Surrounded
from .indented import IndentedMachines
from .texts import strings_of
from .values import Machines, number_machine


def lazy_schema(
    root: Schema, strict: bool, options: tuple[Any, ...], inner: bool = False
) -> tuple[StackAutomaton, tuple[Narrowing, ...]]:
    """Return the automaton of the values that a schema allows, and what it lacks of the schema.

    Parameters
    ----------
    root
        A schema as ``read_schema`` gives it.
    strict
        Whether to refuse keywords and formats that no draft defines.
    options
        White space, order, greatest depth, greatest length, whether objects are open, what formats mean, whether numbers are
        plain, most digits, separators, escapes, indent. The order ``"auto"`` means any. The greatest depth and length are those
        of finite automata, and mean nothing here.
    inner
        Whether the value stands within a larger text, with no white space around it.

    Raises ``UnsupportedConstraint`` with the path of what is not supported, and ``TooManyStates`` if schemas combine too many
    alternatives, or a pattern or a multiple takes too much work.
    """
    machines, narrowed = schema_machines(root, strict, options)
    return stack_automaton(machines, root_machine(machines, inner)), narrowed


def stack_automaton(machines: Machines, root: Machine | None) -> StackAutomaton:
    """Return the lazy automaton of a document's root, after :func:`root_machine`."""
    automaton, distinct = StackAutomaton(root), machines.plain.distinct
    automaton.may_compare, automaton.needs_distinct = distinct.are_compared, distinct.are_needed
    return automaton


def root_machine(machines: Machines, inner: bool = False) -> Machine | None:
    """Return the machine of the root of a document, ``None`` if no value satisfies it.
    Raises as :func:`lazy_schema`."""
    try:
        need = machines.keywords.root()
        check_all(machines.plain, need)
        if machines.is_empty(need):
            return None
        machine = machines.machine(need)
        return Surrounded(machine) if machines.style.blank and not inner else machine
    except RecursionError:
        raise UnsupportedConstraint("the schema nests too deep", path="/") from None


def schema_machines(
    root: Schema, strict: bool, options: tuple[Any, ...], style: Style | None = None
) -> tuple[Machines, tuple[Narrowing, ...]]:
    """Return the machines of a document, not made yet, and the narrowings of its automaton.
    ``style``: the syntax, if not JSON as the options write it. Raises ``UnsupportedConstraint``."""
    whitespace, order, _, _, open_objects, formats, plain_numbers, digits, *writing = options
    document = Document(root, strict)
    asserts_format = formats == "assert" or (formats == "auto" and document.draft < 2019)
    style = style or style_of(whitespace, *writing)
    notation = Notation(document.draft == 4 or style.tuples, plain_numbers, digits)
    plain = style if style.indent is None else style.unindented
    machines = Machines(document, plain, order, open_objects, asserts_format, notation)
    if style.indent is not None:
        machines = IndentedMachines(machines, style)
    return machines, Survey(document, asserts_format, notation).narrowings()


def check_all(machines: Machines, root: Need) -> None:
    """Refuse now what is not supported in a need or below it, instead of when a text gets there.

    Machines are made where they may be refused: for patterns, formats and multiples. Items to which several conditions apply at
    once are not checked. Raises ``UnsupportedConstraint`` and ``TooManyStates``.
    """
    found = {root: None}
    queue = [root]
    for need in queue:
        with at(machines.where(need)):
            if machines.is_empty(need):
                continue
        value = machines.value(need)
        with at(machines.where(need)):
            for text in value.string:
                if text.atoms:
                    strings_of(text, machines.style)
            for number in value.number:
                if number.multiples and machines.shortest_number(number) is not None:
                    number_machine(number, machines.notation)
        below: list[Need] = []
        for each in machines.arrays(need):
            shape = getattr(each, "plain", each).items.shape
            below += [*shape.prefix, shape.rest, *(kind.need for kind in shape.contains)]
        if (objects := machines.objects(need)) is not None:
            for form in objects.forms:
                below += [*form.needs, *(other.need for other in form.others)]
        for inner in below:
            if inner != NEVER and inner not in found:
                spend(20)
                found[inner] = None
                queue.append(inner)
