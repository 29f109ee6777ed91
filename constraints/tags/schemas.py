"""The values of a JSON Schema within a text, as JSON or as XML parameters, and strings that none of their strings contains.

XML parameters stand one after another: ``<parameter=city>Oslo</parameter>``. A string is written without quotes or escapes, up to
the closing tag, which does not occur in it. Any other value is JSON, or in some styles XML again (``xml_nodes.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...errors import EmptyLanguage, UnsupportedConstraint
from ..automata.work import limited
from ..calls.arguments import placed
from ..constraint import Constraint
from ..json.document import Schema, read_schema
from ..json.needs import Needs
from ..json.nodes import Reading, ValueWriter
from ..json.numbers import Notation
from ..json.shapes import NEVER, Need
from ..json.text import Space, style_of
from ..json.values import Value
from ..narrowing import OnNarrowed, report
from ..program.nodes import NOTHING
from .xml_leaves import containing, lacking
from .xml_nodes import XmlWriter
from .xml_styles import ParameterStyle


class Excluding(Needs):
    """The needs of a document, without values that contain one of ``words`` in a string or a name."""

    def __init__(self, of: Needs, words: tuple[str, ...]) -> None:
        self.__dict__.update(of.__dict__)
        self.of = of  # whose keywords these are: they ask it whether a shape is empty
        self.values, self.hollow = {}, {}
        self.key = (of.key, words)
        self.names_with, self.strings_without = (containing(words), NEVER), lacking(words)
        self._kept: dict[Need, Value] = {}

    def value(self, need: Need) -> Value:
        if need not in self._kept:
            found = super().value(need)
            strings = (met for shape in found.string if (met := shape.meet(self.strings_without)) is not None)
            objects = (replace(o, patterns=(*o.patterns, self.names_with)) for o in found.object)
            found = found._replace(string=tuple(strings), object=tuple(objects))
            self.values[need] = self._kept[need] = found
        return self._kept[need]


def schema_values(
    schema: Any,
    style: ParameterStyle | Space,
    *,
    path: str = "",
    without: Sequence[str] = (),
    any_order: bool = False,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept the values of a schema as JSON with this white space, none around them, or its objects as parameters in a style.

    Members stand in declared order or any. ``without``: strings that occur in no string and no name, however they are written:
    ``\\u003c`` is ``<``; with parameters none of them begins or ends with white space.

    Raises ``UnsupportedConstraint`` with a path that begins with ``path``; in XML also for a member of which only a condition
    says that it must exist, and ``uniqueItems`` where arrays are XML, and ``EmptyLanguage`` if no object is allowed.
    """
    for word in without if isinstance(style, ParameterStyle) else ():
        if word != word.strip():
            why = f"{word!r} begins or ends with white space, which may stand around a value"
            raise UnsupportedConstraint(why, path=f"{path}/excludes")
    with limited(), placed(path):
        found = written(read_schema(schema), style, tuple(without), any_order)
    report(found.narrowed, on_narrowed)
    return found


def written(
    schema: Schema, style: ParameterStyle | Space, without: tuple[str, ...], any_order: bool
) -> Constraint:
    """Return the constraint of :func:`schema_values`; its objects are closed."""
    xml = style if isinstance(style, ParameterStyle) else None
    notation = Notation(whole=True, plain=xml is not None)
    reading = Reading("any" if any_order else "declared", open_objects=False, notation=notation)
    space = style.whitespace if isinstance(style, ParameterStyle) else style
    writer = ValueWriter.of(schema, style_of(space), reading)
    if without:
        writer = ValueWriter(Excluding(writer.needs, without), writer.style, writer.notation, writer.narrowed)
    if xml is None:
        program = writer.root()
    else:
        program = XmlWriter(writer, xml, any_order).root(writer.needs.keywords.root())
        if program is NOTHING:
            raise EmptyLanguage("no object satisfies the schema of the parameters")
    return Constraint(program, writer.narrowed)
