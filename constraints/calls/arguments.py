"""Machines for the arguments of tools.

Equal schemas of different arguments are compiled once.

The schema of an argument, with the definitions of its tool, is a document of its own. The machine of the object of all
arguments is put together from the documents' machines when its tool is first called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import NamedTuple

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata.region import Machine
from ..json.document import Document, Schema, read_schema
from ..json.lazy.objects import ObjectMachine
from ..json.lazy.schema import check_all, schema_machines
from ..json.lazy.values import Machines
from ..json.numbers import Notation
from ..json.shapes import NEVER, Need, Objects, Others
from ..json.text import Style
from ..narrowing import Narrowing
from .tools import Tool, json_text, with_definitions


class Values(NamedTuple):
    """The values of one schema: its machines, the root's obligation, and its narrowings."""

    machines: Machines
    root: Need
    narrowed: tuple[Narrowing, ...]

    @property
    def shortest(self) -> bytes | None:
        """A short text of a value; None if there is no value."""
        return self.machines.shortest(self.root)

    def machine(self) -> Machine:
        """Return the machine of the texts. The schema must allow at least one value."""
        return self.machines.machine(self.root)


class Called:
    """A tool that may be called: its name as bytes, and the machine that reads its arguments.

    ``name`` is a JSON string, or in Python syntax the bare name with the opening bracket. ``shortest`` is a short text of the
    arguments, used to complete calls. The machine is built on first access.
    """

    def __init__(self, name: bytes, shortest: bytes, make: Callable[[], Machine]) -> None:
        self.name, self.shortest, self._make = name, shortest, make

    @cached_property
    def machine(self) -> Machine:
        """The machine that reads the arguments."""
        return self._make()


class Arguments(Machines):
    """The distinct schemas of arguments, by number.

    An object's members refer to them as obligations.

    ``style`` is the surface syntax of the object, ``inner`` that of its values.
    """

    def __init__(self, style: Style, inner: Style, order: str) -> None:
        super().__init__(Document(True), style, order, True, True, Notation(False))
        self.inner = inner
        self.documents: list[Values] = []
        self.number: dict[str, int] = {}
        self.paths: dict[
            int, dict[str, None]
        ] = {}  # of each document: the places of the arguments that it is the schema of

    def read(self, schema: Schema, path: str, plain: bool = False) -> tuple[int, tuple[Narrowing, ...]]:
        """Return the number of a schema, and its narrowings with their paths.

        The whole schema is checked.

        ``plain``: integers are written without a point. Raises ``UnsupportedConstraint`` with the path, ``TooManyStates``.
        """
        text = json.dumps([schema, plain])
        number = self.number.get(text)
        if number is None:
            with placed(path):
                plain = plain and not self.inner.tuples  # literals have no integers with a point
                options = ("", "declared", None, None, True, "auto", plain, None)
                machines, narrowed = schema_machines(read_schema(schema), False, options, self.inner)
                root = machines.keywords.root()
                check_all(machines, root)
            number = self.number[text] = len(self.documents)
            self.documents.append(Values(machines, root, narrowed))
        self.paths.setdefault(number, {})[path] = None
        return number, placed_at([path], self.documents[number].narrowed)

    def lacking(self, number: int, narrowed: tuple[Narrowing, ...]) -> tuple[Narrowing, ...]:
        """Return the narrowings of document ``number``, once for each argument that has this schema."""
        return placed_at(self.paths[number], narrowed)

    def of_tool(self, tool: Tool, whole: bool, path: str) -> tuple[Called | None, tuple[Narrowing, ...]]:
        """Return a tool with its narrowings; the tool is None if no arguments satisfy its schemas.

        ``whole``: the arguments are read by one schema of the whole object, not each by its own.
        """
        name = self.name(tool.name)
        if whole:
            number, narrowed = self.read(tool.schema(), path, tool.plain)
            return self.called(name, self.documents[number], path), narrowed
        members, cuts = list[tuple[str, Need]](), list[Narrowing]()
        for argument, schema in tool.arguments.items():
            written = with_definitions(schema, tool.definitions)
            number, narrowed = self.read(written, f"{path}.{argument}", tool.plain)
            members.append((argument, frozenset([(number, True)])))
            cuts += narrowed
        texts = {n: self.shortest(need) for n, need in members if n in tool.required}
        if None in texts.values():
            return None, tuple(cuts)
        spelling, opening = self.style.spellings[0], b"" if self.style.opened else self.style.braces[0]
        shown = [self.style.named(spelling.plain(n)) + (t or b"") for n, t in texts.items()]
        shortest = opening + self.style.comma.join(shown) + self.style.braces[1]
        return Called(name, shortest, partial(self.object, tuple(members), tuple(texts))), tuple(cuts)

    def name(self, name: str) -> bytes:
        """Return a tool's name as a JSON string, or in Python syntax with the opening bracket."""
        return name.encode() + self.style.braces[0] if self.style.opened else json_text(name)

    def called(self, name: bytes, values: Values, path: str) -> Called | None:
        """Return a tool whose arguments are one schema; None if no arguments satisfy it."""
        if self.style is self.inner:
            shortest = values.shortest
            return None if shortest is None else Called(name, shortest, values.machine)
        machine = ObjectMachine(values.machines, values.machines.value(values.root).object, self.style)
        if machine.classes:
            raise UnsupportedConstraint("arguments that are not declared have no name in Python", path=path)
        shortest = machine.shortest(values.machines.shortest)
        return None if shortest is None else Called(name, shortest, lambda: machine)

    def object(self, members: tuple[tuple[str, Need], ...], required: tuple[str, ...]) -> Machine:
        """Return the machine of objects with these members and no others."""
        names = frozenset(name for name, _ in members)
        return ObjectMachine(self, [Objects(members, required, others=((Others(names), NEVER),))])

    def anything(self) -> Called:
        """Return a tool without a name that takes any arguments, for abstractions."""
        number, _ = self.read({"type": "object"}, "")
        values, (opening, end) = self.documents[number], self.style.braces
        if self.style is self.inner:
            return Called(b"", opening + end, values.machine)
        return Called(b"", end, lambda: ObjectMachine(values.machines, [Objects()], self.style))

    # ------------------------------------------------------------ called by ObjectMachine

    def machine(self, need: Need) -> Machine:
        ((number, _),) = need
        return self.documents[number].machine()

    def meaning(self, need: Need) -> int:
        ((number, _),) = need
        values = self.documents[number]
        return values.machines.meaning(values.root)

    def shortest(self, need: Need) -> bytes | None:
        if need == NEVER:
            return None
        ((number, _),) = need
        return self.documents[number].shortest


def placed_at(paths: Iterable[str], narrowed: tuple[Narrowing, ...]) -> tuple[Narrowing, ...]:
    """Prefix the narrowings of one schema with each path at which a tool uses the schema."""
    return tuple(
        each._replace(path=path + each.path) if each.loses_values else each
        for path in paths
        for each in narrowed
    )


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
