"""The arguments of tools as nodes. The schemas of all tools are one document, in which equal parts are read once."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata.work import spend
from ..json.document import Schema, read_schema
from ..json.nodes import Reading, ValueWriter
from ..json.numbers import Notation
from ..json.shapes import NEVER, Need
from ..json.text import Style
from ..json.vocabulary import REFERENCES
from ..narrowing import Narrowing
from ..program.node import Node
from .tools import Tool


def arguments(
    tools: Sequence[Tool], style: Style, inner: Style, order: str, nested: str = "declared"
) -> tuple[dict[str, Node], list[Narrowing]]:
    """Return by tool's name the node of its arguments (without texts if none satisfy its schema), and what these nodes lack.

    ``style`` is the surface syntax of the object of all arguments, ``inner`` that of its values. ``order``: "declared" or "any";
    ``nested``: that of the members of values.
    Raises ``UnsupportedConstraint`` with the path (``tools[0].parameters.x /items``), also for a name that is not Python's where
    names are bare; ``TooManyStates``.
    """
    found = dict[str, Node]()
    cuts = of_types(tools)
    for plain in {tool.plain for tool in tools}:
        schemas = [document(tool, n) if tool.plain is plain else True for n, tool in enumerate(tools)]
        notation = Notation(plain=plain and not inner.tuples)  # literals have no integers with a point
        with placed("", tools):
            writer = ValueWriter.of(
                read_schema({"prefixItems": schemas}),
                inner,
                Reading(nested, notation=notation),
                partial(path_of, tools=tools),
            )
            outermost = Outermost(writer, order)
            (shape,) = writer.value(writer.needs.keywords.root()).array
            for tool, need in zip(tools, shape.prefix, strict=True):
                if tool.plain is plain:
                    spend(100)
                    if not all(spelling.opening for spelling in style.spellings):
                        check_names(tool, outermost, need)
                    found[tool.name] = outermost.objects(need, style)
        cuts += (each._replace(path=path_of(each.path, tools)) for each in writer.narrowed)
    return found, cuts


def of_types(tools: Sequence[Tool]) -> list[Narrowing]:
    """Return where the types of functions and classes differ from their schemas."""
    paths = [(each, f"/prefixItems/{n}{each.path}") for n, tool in enumerate(tools) for each in tool.narrowed]
    return [each._replace(path=path_of(place, tools)) for each, place in paths]


def check_names(tool: Tool, writer: ValueWriter, need: Need) -> None:
    """Raise ``UnsupportedConstraint`` if the tool or an argument has no name that Python reads."""
    shapes = writer.value(need).object
    arguments = [name for shape in shapes for name, each in shape.names if each != NEVER]
    for name in [*tool.name.split("."), *arguments]:
        if not name.isidentifier() or keyword.iskeyword(name):
            why = f"{name!r} in {tool.name!r} is no name in Python, so the call can only be written with syntax='json'"
            raise UnsupportedConstraint(why, path=tool.path)


def document(tool: Tool, number: int) -> Schema:
    """Return the schema of a tool's arguments; one with references is a resource of its own."""
    schema = tool.schema()
    text = json.dumps(schema)
    refers = any(f'"{key}"' in text for key in REFERENCES)
    return {"$id": f"urn:tool:{number}", **schema} if refers else schema


class Outermost(ValueWriter):
    """The writer of an object whose members have an order of their own. ``inner`` writes their values."""

    def __init__(self, inner: ValueWriter, order: str) -> None:
        needs = copy(inner.needs)
        needs.order = order
        super().__init__(needs, inner.style, inner.notation)
        self.inner = inner

    def node(self, need: Need) -> Node:
        """Return the node of the values of a member."""
        return self.inner.node(need)


def path_of(place: str, tools: Sequence[Tool] = (), before: str = "") -> str:
    """Return the path of a place in the document of all tools: ``tools[0].parameters.x/items``."""
    found = re.match(r"/prefixItems/(\d+)(?:/properties/([^/]*))?", place)
    if found is None:
        return place
    argument = "" if found[2] is None else f".{found[2]}{before}"
    return f"{tools[int(found[1])].path}{argument}{place[found.end() :]}"


@contextmanager
def placed(path: str, tools: Sequence[Tool] = ()) -> Iterator[None]:
    """Prefix ``path`` to the path of any error raised in the block; places in the document of ``tools`` become theirs."""
    try:
        yield
    except RecursionError:
        raise UnsupportedConstraint("the schema nests too deep", path=path) from None
    except UnsupportedConstraint as error:
        message = str(error).removesuffix(f" (at {error.path})")
        where = f"{path} {path_of(error.path or '', tools, ' ')}".strip()
        raise UnsupportedConstraint(message, path=where) from None
    except TooManyStates as error:
        message = str(error).removesuffix(f" (at {error.path or '/'})")
        where = f"{path} {path_of(error.path or '', tools, ' ')}".strip()
        raise TooManyStates(message, limit=error.limit, path=where) from None
