"""Call arguments as XML parameters, one after another: ``<parameter=city>Oslo</parameter>``.

A string is written without quotes or escapes, up to the closing tag, which does not occur in it. Any other value is JSON, or in
some styles XML again. Their nodes are written in ``xml_nodes.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...errors import EmptyLanguage, UnsupportedConstraint
from ..calls.arguments import placed
from ..constraint import Constraint
from ..json.document import Schema, read_schema
from ..narrowing import OnNarrowed, report
from ..program.nodes import NOTHING
from .excluded import writer_without
from .xml_nodes import XmlWriter
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
    exist, ``uniqueItems`` where arrays are XML), ``EmptyLanguage`` if no object is allowed.
    """
    for word in without:
        if word != word.strip():
            why = f"{word!r} begins or ends with white space, which may stand around a value"
            raise UnsupportedConstraint(why, path=f"{path}/excludes")
    with placed(path):
        found = written(read_schema(schema), style, tuple(without), any_order)
    report(found.narrowed, on_narrowed)
    return found


def written(schema: Schema, style: Parameters, without: tuple[str, ...], any_order: bool) -> Constraint:
    """Return the constraint of :func:`parameters`."""
    writer = writer_without(schema, style.whitespace, any_order, without, plain=True)
    program = XmlWriter(writer, style, any_order).root(writer.needs.keywords.root())
    if program is NOTHING:
        raise EmptyLanguage("no object satisfies the schema of the parameters")
    return Constraint(program, writer.narrowed, partial(written, schema, style, without, any_order))
