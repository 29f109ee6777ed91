"""The arguments of tools as nodes.

The schema of an argument, with the definitions of its tool, is a document of its own; equal schemas are read once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import TooManyStates, UnsupportedConstraint
from ..json.document import Schema, read_schema
from ..json.nodes import Reading, Writer, object_node
from ..json.numbers import Notation
from ..json.text import Style
from ..narrowing import Narrowing
from ..program.node import Node
from .tools import Tool, with_definitions


class Arguments:
    """The distinct schemas of arguments.

    ``style`` is the surface syntax of the object of all arguments, ``inner`` that of its values. ``order``: "declared" or "any".
    """

    def __init__(self, style: Style, inner: Style, order: str) -> None:
        self.style, self.inner, self.order = style, inner, order
        self._writers: dict[str, Writer] = {}

    def of_tool(self, tool: Tool, whole: bool, path: str) -> tuple[Node, tuple[Narrowing, ...]]:
        """Return the node of a tool's arguments, without texts if none satisfy its schemas; and what it lacks of these.

        ``whole``: the arguments are read by one schema of the whole object, not each by its own.
        Raises ``UnsupportedConstraint`` with the path, ``TooManyStates``.
        """
        if whole:
            return self.read(tool.schema(), path, tool.plain, whole=True)
        values, cuts = dict[str, Node](), list[Narrowing]()
        for name, schema in tool.arguments.items():
            written = with_definitions(schema, tool.definitions)
            values[name], narrowed = self.read(written, f"{path}.{name}", tool.plain)
            cuts += narrowed
        return object_node(values, tool.required, self.style, self.order == "declared"), tuple(cuts)

    def read(
        self, schema: Schema, path: str, plain: bool, whole: bool = False
    ) -> tuple[Node, tuple[Narrowing, ...]]:
        """Return the node of a schema's values and what is narrowed, by paths that begin with ``path``.

        ``plain``: integers are written without a point. ``whole``: the schema is that of all arguments, so its objects alone.
        """
        text = json.dumps([schema, plain])
        with placed(path):
            if text not in self._writers:
                plain = plain and not self.inner.tuples  # literals have no integers with a point
                reading = Reading(order="declared", notation=Notation(plain=plain))
                self._writers[text] = Writer.of(read_schema(schema), self.inner, reading)
            writer = self._writers[text]
            found = writer.objects(writer.needs.keywords.root(), self.style) if whole else writer.root()
        return found, placed_at(path, writer.narrowed)


def placed_at(path: str, narrowed: tuple[Narrowing, ...]) -> tuple[Narrowing, ...]:
    """Prefix the narrowings of one schema with the path at which a tool uses the schema."""
    return tuple(each._replace(path=path + each.path) if each.loses_values else each for each in narrowed)


@contextmanager
def placed(path: str) -> Iterator[None]:
    """Prefix ``path`` to the path of any error raised in the block."""
    try:
        yield
    except RecursionError:
        raise UnsupportedConstraint("the schema nests too deep", path=path) from None
    except UnsupportedConstraint as error:
        message = str(error).removesuffix(f" (at {error.path})")
        raise UnsupportedConstraint(message, path=f"{path} {error.path}".strip()) from None
    except TooManyStates as error:
        message = str(error).removesuffix(f" (at {error.path or '/'})")
        raise TooManyStates(message, limit=error.limit, path=f"{path} {error.path or ''}".strip()) from None
