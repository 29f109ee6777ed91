"""The arguments of tools as nodes. The schemas of all tools are one document, in which equal parts are read once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata.work import spend
from ..json.document import Schema, read_schema
from ..json.nodes import Reading, Writer
from ..json.numbers import Notation
from ..json.shapes import Need
from ..json.text import Style
from ..narrowing import Narrowing
from ..program.node import Node
from .tools import Tool


def arguments(
    tools: Sequence[Tool], style: Style, inner: Style, order: str, nested: str = "declared"
) -> tuple[dict[str, Node], list[Narrowing]]:
    """Return by tool the node of its arguments, without texts if none satisfy its schema; and what these nodes lack.

    ``style`` is the surface syntax of the object of all arguments, ``inner`` that of its values. ``order``: "declared" or "any";
    ``nested``: that of the members of values.
    Raises ``UnsupportedConstraint`` with the path (``tools[0].parameters.x /items``), ``TooManyStates``.
    """
    found, cuts = dict[str, Node](), list[Narrowing]()
    for plain in {tool.plain for tool in tools}:
        schemas = [document(tool, n) if tool.plain is plain else True for n, tool in enumerate(tools)]
        notation = Notation(plain=plain and not inner.tuples)  # literals have no integers with a point
        with placed(""):
            writer = Writer.of(
                read_schema({"prefixItems": schemas}), inner, Reading(nested, notation=notation)
            )
            outermost = Outermost(writer, order)
            (shape,) = writer.value(writer.needs.keywords.root()).array
            for tool, need in zip(tools, shape.prefix, strict=True):
                if tool.plain is plain:
                    spend(100)
                    found[tool.name] = outermost.objects(need, style)
        cuts += (each._replace(path=path_of(each.path)) for each in writer.narrowed)
    return found, cuts


def document(tool: Tool, number: int) -> Schema:
    """Return the schema of a tool's arguments; one with references is a resource of its own."""
    schema = tool.schema()
    return {"$id": f"urn:tool:{number}", **schema} if '"$ref"' in json.dumps(schema) else schema


class Outermost(Writer):
    """The writer of an object whose members have an order of their own. ``inner`` writes their values."""

    def __init__(self, inner: Writer, order: str) -> None:
        needs = copy(inner.needs)
        needs.order = order
        super().__init__(needs, inner.style, inner.notation)
        self.inner = inner

    def node(self, need: Need) -> Node:
        """Return the node of the values of a member."""
        return self.inner.node(need)


def path_of(place: str, before: str = "") -> str:
    """Return the path of a place in the document of all tools: ``tools[0].parameters.x/items``."""
    inner = re.sub(r"^/prefixItems/(\d+)", r"tools[\1].parameters", place)
    return re.sub(r"^(tools\[\d+\].parameters)/properties/([^/]*)", rf"\1.\2{before}", inner)


@contextmanager
def placed(path: str) -> Iterator[None]:
    """Prefix ``path`` to the path of any error raised in the block."""
    try:
        yield
    except RecursionError:
        raise UnsupportedConstraint("the schema nests too deep", path=path) from None
    except UnsupportedConstraint as error:
        message = str(error).removesuffix(f" (at {error.path})")
        raise UnsupportedConstraint(
            message, path=f"{path} {path_of(error.path or '', ' ')}".strip()
        ) from None
    except TooManyStates as error:
        message = str(error).removesuffix(f" (at {error.path or '/'})")
        where = f"{path} {path_of(error.path or '', ' ')}".strip()
        raise TooManyStates(message, limit=error.limit, path=where) from None
