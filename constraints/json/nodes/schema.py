"""The node of a schema's values."""

from __future__ import annotations

from ... import limits
from ...narrowing import Narrowing
from ...program.node import Node
from ...program.nodes import NOTHING
from ...program.prune import pruned
from ..document import Schema
from ..text import Style
from .values import Reading, ValueWriter

WRITTEN_OUT = "the indent of each level is written out; without an indent there is no bound"
MOST_DEPTH = 32
"""The most levels of nesting of values with an indent, in which the last one has empty arrays and objects only."""


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
    plain = ValueWriter.of(schema, style if style.indent is None else style.unindented, reading)
    plain.parts = None if style.indent is None else {}
    node, narrowed = plain.root(), plain.narrowed
    if style.indent is not None and node is not NOTHING:
        depth, is_all = levels(plain, most_levels)
        node = ValueWriter(plain.needs, style, plain.notation, left=depth).root()
        if not is_all:
            narrowed += (Narrowing("", "indent", "values at any depth", f"{depth} levels", WRITTEN_OUT),)
    return pruned(node), narrowed


def levels(plain: ValueWriter, most: int) -> tuple[int, bool]:
    """Return the number of levels of nesting that are written out, at most ``most``, and whether no value is deeper."""
    assert plain.parts is not None
    level, size = {plain.needs.keywords.root(): None}, 1
    for depth in range(most):
        level = {inner: None for need in level for inner in plain.parts.get(need, ())}
        size += len(level)
        if not level:
            return depth, True
        if size > limits.ALTERNATIVES and depth:
            return depth, False
    return most, False
