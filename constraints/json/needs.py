"""The needs of one document: the values that satisfy each, and whether there are any."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from functools import cache
from typing import Any

from ...errors import TooManyStates
from ..automata.work import spend
from . import numbers, objects, strings
from .closed_objects import CLOSING, closed
from .combinators import meet_all
from .document import Document
from .keywords import Circular, Evaluator
from .shapes import NEVER, Arrays, Need, Numbers, Strings
from .values import NOTHING, Value

LOOK_AHEAD = 3  # levels of nesting that are searched for emptiness


class Needs:
    """The needs of one document. The values of a need, and classes of names, are computed on first use."""

    def __init__(
        self, document: Document, order: str, open_objects: bool, asserts_format: bool, tuples: bool
    ) -> None:
        self.document, self.order, self.open_objects = document, order, open_objects
        self.key: Hashable = open_objects  # what decides which values are any value at all
        me = weakref.proxy(self)  # in no circle: all of it goes with the last who asks
        self.keywords = Evaluator(
            document, asserts_format, lambda shape: me.empty_shape(shape, LOOK_AHEAD), tuples
        )
        self.values: dict[Need, Value] = {}
        self.hollow: dict[tuple[Need, int], bool] = {}
        self.cells, self.without = cache(objects.cells), cache(strings.without_names)

    def value(self, need: Need) -> Value:
        """Return the set of values that satisfy a need."""
        found = self.values.get(need)
        if found is None:
            nodes = () if need == NEVER else sorted(need)
            closing = 0 if self.open_objects else CLOSING
            parts = [
                self.keywords.value(self.document.nodes[number], sign, closing if sign else 0)
                for number, sign in nodes
            ]
            found = NOTHING if need == NEVER else meet_all(self.keywords, parts)
            found = self.values[need] = found if self.open_objects else closed(found)
        return found

    def where(self, need: Need) -> str:
        """Return the path of a schema in the need, for messages; empty if there is none."""
        return self.document.nodes[min(need)[0]].path if need and need != NEVER else ""

    def names(self, need: Need) -> tuple[Strings, ...]:
        """Return the strings that satisfy a need, as shapes."""
        return self.value(need).string

    # ------------------------------------------------------------ emptiness

    def empty(self, need: Need, depth: int = LOOK_AHEAD) -> bool:
        """Return whether it is certain, looking ``depth`` levels of nesting down, that no value satisfies a need.
        False decides nothing: what is empty further down is left out of the finished program (``prune.py``)."""
        if not need or need == NEVER or not depth:
            return need == NEVER
        key = (need, depth)
        if key not in self.hollow:
            spend(50)
            self.hollow[key] = False  # assumed where the need occurs within itself
            try:
                value = self.value(need)
                shapes = [shape for union in value.shapes for shape in union]
                self.hollow[key] = (
                    not value.null
                    and not value.boolean
                    and all(self.empty_shape(shape, depth) for shape in shapes)
                )
            except (Circular, TooManyStates):  # its values are not known yet, or take too much work
                self.hollow.pop(key, None)
                return False
        return self.hollow[key]

    def empty_shape(self, shape: Any, depth: int = LOOK_AHEAD) -> bool:
        """Return whether a shape has no value, as :meth:`empty` does for a need."""
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
            self.empty(objects.need_of(shape, name, self), depth - 1) for name in shape.required
        ) or any(self.empty(value, depth - 1) for _, _, value in shape.some)
