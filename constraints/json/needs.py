"""The needs of one document: their values, which of them nothing satisfies, and the graph that they form.

Needs of members and items lie below those of the objects and arrays. Where the graph has cycles, each has a *head*; needs
on common cycles form a *knot*.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import networkx as nx

from ...errors import TooManyStates
from ..automata.work import at, spend
from . import arrays, numbers, objects, strings
from .closing import CLOSING, closed
from .combinators import meet_all
from .document import Document
from .keywords import Circular, Keywords
from .shapes import NEVER, Arrays, Need, Numbers, Strings
from .values import NOTHING, Value

MAX_NEEDS = 20_000
MAX_ANY_ORDER = 12
LOOK_AHEAD = 3  # how deep emptiness is looked for where alternatives are compared


class Needs:
    """The needs of one document, each worked out when it is asked for."""

    def __init__(self, document: Document, order: str, open_objects: bool, asserts_format: bool) -> None:
        self.document, self.order, self.open_objects = document, order, open_objects
        self.keywords = Keywords(document, asserts_format, lambda shape: self.empty_shape(shape, LOOK_AHEAD))
        self.values: dict[Need, Value] = {}
        self.parts: dict[tuple[Any, Need], Any] = {}
        self.hollow: dict[tuple[Need, int], bool] = {}
        self.knot: dict[Need, int] = {}
        self.heads: set[Need] = set()

    def value(self, need: Need) -> Value:
        """The values that satisfy a need."""
        if need not in self.values:
            nodes = () if need == NEVER else sorted(need)
            closing = 0 if self.open_objects else CLOSING
            parts = (
                self.keywords.value(self.document.nodes[number], sign, closing if sign else 0)
                for number, sign in nodes
            )
            found = NOTHING if need == NEVER else meet_all(self.keywords, parts)
            self.values[need] = found if self.open_objects else closed(found)
        return self.values[need]

    def where(self, need: Need) -> str:
        """A place in the document for messages."""
        return self.document.nodes[min(need)[0]].path if need and need != NEVER else ""

    def names(self, need: Need) -> tuple[Strings, ...]:
        """The strings that satisfy a need."""
        return self.value(need).string

    # ------------------------------------------------------------ emptiness

    def empty(self, need: Need, depth: int = LOOK_AHEAD) -> bool:
        """Whether nothing satisfies a need, as far as that shows ``depth`` levels down."""
        if not need or need == NEVER or not depth:
            return need == NEVER
        key = (need, depth)
        if key not in self.hollow:
            spend(50)
            self.hollow[key] = False  # for what lies within itself
            try:
                value = self.value(need)
                shapes = [shape for union in value.shapes for shape in union]
                self.hollow[key] = (
                    not value.null
                    and not value.boolean
                    and all(self.empty_shape(shape, depth) for shape in shapes)
                )
            except (Circular, TooManyStates):  # not known yet, or too much work to know
                self.hollow.pop(key, None)
                return False
        return self.hollow[key]

    def empty_shape(self, shape: Any, depth: int = LOOK_AHEAD) -> bool:
        """Whether nothing has the shape, as far as that shows."""
        if isinstance(shape, Strings):
            return strings.empty(shape)
        if isinstance(shape, Numbers):
            return numbers.empty(shape)
        if isinstance(shape, Arrays):
            if any(
                self.empty(shape.at(i), depth - 1) for i in range(min(shape.least, len(shape.prefix) + 1))
            ):
                return True
            return any(c.least and self.empty(c.need, depth - 1) for c in shape.contains)
        return any(
            self.empty(objects.need_of(shape, name, self.names), depth - 1) for name in shape.required
        ) or any(self.empty(value, depth - 1) for _, _, value in shape.some)

    # ------------------------------------------------------------ the graph of needs

    def settled(self, need: Need) -> tuple[list[Arrays], list[objects.Record]]:
        """The arrays and objects of a need, their conditions settled."""
        key = ("settled", need)
        if key not in self.parts:
            value, where = self.value(need), self.where(need)
            found = [arrays.settle(shape, self.empty, where) for shape in value.array]
            names = objects.declared_names(value.object, self.names)
            with at(where):
                records = [
                    r for shape in value.object for r in objects.records(shape, names, self.names, where)
                ]
            most = max((len(record.members) for record in records), default=0)
            if self.order == "any" and most > MAX_ANY_ORDER:
                raise TooManyStates(
                    f"any order of the {most} members at {where or '/'} needs too many states: say order='auto'",
                    limit=2**MAX_ANY_ORDER,
                )
            self.parts[key] = [a for a in found if a], records
        return self.parts[key]  # type: ignore[no-any-return]

    def below(self, need: Need) -> list[Need]:
        """The needs right below a need."""
        shapes, records = self.settled(need)
        found = [n for record in records for n in record.needs]
        found += [n for shape in shapes for inner in self.items(need, shape) for n in inner]
        return list(dict.fromkeys(n for n in found if n and n != NEVER))

    def items(self, need: Need, shape: Arrays) -> list[list[Need]]:
        """What the items of an array of a need may be, position by position; the last one stands for all later ones."""
        last = max([len(shape.prefix), *(c.start for c in shape.contains)])
        size = last + 1 if shape.most is None else min(shape.most, last + 1)
        return [[n for n, _ in arrays.kinds(shape, i, self.where(need))] for i in range(size)]

    def explore(self, root: Need) -> None:
        """Find all needs below the root, the knots that they form, and the heads of cycles."""
        graph = nx.DiGraph()
        graph.add_node(root)
        queue = [root]
        for need in queue:
            for inner in self.below(need):
                if inner not in graph:
                    queue.append(inner)
                    if len(queue) > MAX_NEEDS:
                        raise TooManyStates("a schema combines too many alternatives", limit=MAX_NEEDS)
                graph.add_edge(need, inner)
        for i, part in enumerate(nx.strongly_connected_components(graph)):
            self.knot.update(dict.fromkeys(part, i))
        on_path: set[Need] = set()
        seen = {root}
        stack: list[tuple[Need, Iterator[Need]]] = [(root, iter(list(graph[root])))]
        on_path.add(root)
        while stack:
            need, inner_needs = stack[-1]
            if (inner := next(inner_needs, NEVER)) == NEVER:
                on_path.discard(need)
                stack.pop()
            elif inner in on_path:
                self.heads.add(inner)
            elif inner not in seen:
                seen.add(inner)
                on_path.add(inner)
                stack.append((inner, iter(list(graph[inner]))))
