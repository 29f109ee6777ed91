"""Call arguments as XML parameters, one after another: ``<parameter=city>Oslo</parameter>``.

A string is written without quotes or escapes, up to the closing tag, which does not occur in it. Any other value is JSON, or in
some styles XML again. The machines that read them are in ``xml_machines.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import EmptyLanguage, UnsupportedConstraint
from ..calls.arguments import placed
from ..constraint import Constraint
from ..json.document import read_schema
from ..json.finite import finite_automaton, of_automaton
from ..json.lazy.schema import check_all, stack_automaton
from ..lazy_constraint import LazyConstraint, made
from ..narrowing import OnNarrowed, merged, report
from .excluded import machines_without, options_of
from .xml_machines import XmlMachines
from .xml_styles import QWEN, Parameters


def parameters(
    schema: Any,
    style: Parameters = QWEN,
    path: str = "",
    on_narrowed: OnNarrowed = "warn",
    without: Sequence[str] = (),
    any_order: bool = False,
) -> Constraint:
    """Accept the arguments that a JSON Schema allows, in declared order or any.

    ``without``: strings that occur in no string and no name; none of them begins or ends with white space.

    Raises ``UnsupportedConstraint`` with the path of what is not supported (a member of which only a condition says that it must
    exist, ``contains`` and ``uniqueItems`` where arrays are XML), ``EmptyLanguage`` if no object is allowed.
    """
    for word in without:
        if word != word.strip():
            why = f"{word!r} begins or ends with white space, which may stand around a value"
            raise UnsupportedConstraint(why, path=f"{path}/excludes")
    with placed(path):
        found = made(lazily, read_schema(schema), style, tuple(without), any_order)
    report(found.narrowed, on_narrowed)
    return found


def lazily(schema: Any, style: Parameters, without: tuple[str, ...], any_order: bool) -> LazyConstraint:
    """Return the constraint of the arguments as a lazy automaton."""
    options = options_of(style.whitespace, any_order, plain=True)
    machines, narrowed = machines_without(schema, options, without)
    root = machines.keywords.root()
    check_all(machines, root)
    xml = XmlMachines(machines, style, any_order)
    machine = xml.root(root)
    if machine is None:
        raise EmptyLanguage("no object satisfies the schema of the parameters")

    def finite() -> Constraint:
        automaton, (cuts,) = finite_automaton([machines], machine, (None, None))
        return of_automaton(automaton, merged(cuts, xml.nested(), narrowed))

    return LazyConstraint(stack_automaton(machines, machine), narrowed, finite)
