"""The node of a schema's values."""

from __future__ import annotations

from ...narrowing import Narrowing
from ...program.node import Node
from ...program.nodes import NOTHING
from ...program.prune import pruned
from ..document import Schema
from ..text import Style
from .indented import MOST_DEPTH, Indented, lacking, levels
from .values import Reading, Writer


def value_node(
    schema: Schema,
    style: Style,
    reading: Reading = Reading(),  # noqa: B008
    most_levels: int = MOST_DEPTH,
) -> tuple[Node, tuple[Narrowing, ...]]:
    """Return the node of the values of a schema, without white space around them, and what it lacks of the schema.

    Parameters
    ----------
    schema
        A schema as ``read_schema`` gives it.
    style
        The surface syntax of the values.
    reading
        How the schema is read.
    most_levels
        With an indent, the most levels of nesting.

    Raises ``UnsupportedConstraint`` with the path of what is not supported, and ``TooManyStates`` if schemas combine too many
    alternatives, or a pattern or a multiple takes too much work.
    """
    writer = Writer.of(schema, style if style.indent is None else style.unindented, reading)
    node, cuts = (writer.root(), ()) if style.indent is None else indented(writer, style, most_levels)
    return pruned(node), (*writer.narrowed, *cuts)


def indented(plain: Writer, style: Style, most: int) -> tuple[Node, tuple[Narrowing, ...]]:
    """Return the node of the values of a document in a style with an indent, and what it lacks.

    ``plain``: a writer of the values without an indent. ``most``: the most levels of nesting.
    """
    root = plain.needs.keywords.root()
    if plain.root() is NOTHING:
        return NOTHING, ()
    depth, is_all = levels(plain.parts, root, most)
    writer = Indented(plain.needs, style, plain.notation, depth)
    return writer.root(), () if is_all else (lacking(depth),)
