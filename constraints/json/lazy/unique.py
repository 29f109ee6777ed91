"""Arrays of distinct items that are not all listed: items are recorded beside the call stack."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING

from ...automata.comparing_stack import Values
from ...automata.region import Local, Machine
from ...limits import Bounds
from ...program.json_value import meaning
from ..shapes import Need
from . import beginnings
from .array_items import Counts
from .arrays import COMMA, END, ITEM, OPEN, START, TRAIL, ArrayMachine

if TYPE_CHECKING:
    from .values import Look


class DistinctArrayMachine(ArrayMachine):
    """The texts of the arrays of one shape, which allows distinct items only.
    See :mod:`~...automata.comparing_stack`."""

    compares = True

    # ------------------------------------------------------------ comparisons

    def value(self, text: bytes) -> Hashable:
        """Return a hashable value of an item with this text: equal for equal items."""
        return meaning(text)

    def towards(self, text: bytes, value: Hashable) -> bytes | None:
        """Return the bytes with which an item goes on towards a value.
        See :func:`~.beginnings.onward`."""
        return beginnings.onward(text, value)

    def may_end(self, local: Local) -> bool:
        """Return whether no further item is needed."""
        kind, *rest = local
        return kind in (TRAIL, END) or (
            kind not in (START, COMMA, ITEM) and self.items.done(rest[0], rest[1])
        )

    def ending(self, local: Local, seen: Values) -> bytes | None:
        """Return distinct items that were not seen, and the end; ``None`` if there are none."""
        kind, *rest = local
        if kind in (TRAIL, END):
            return super().completion(local)
        if kind == START:
            end = self.ending((OPEN, 0, self.items.start), seen)
            return None if end is None else b"[" + end
        n, counts, *at = rest
        comma = self.style.comma
        if kind not in (COMMA, ITEM):
            return self.items_and_end(self.needs(n, counts), seen, first=kind == OPEN)
        found = []
        for need, after in self.ways(n, counts):
            onward = self.needs(self.items.after(n), after)
            end = None if onward is None else self.items_and_end([need, *onward], seen, first=False)
            if end is not None:
                found.append(end[len(comma) :])
        text = min(found, key=len, default=None)
        return text if text is None or kind == ITEM else comma[at[0] :] + text

    def needs(self, n: int, counts: Counts) -> list[Need] | None:
        """Return the needs of the items that must still come, ``None`` if the array cannot end."""
        if not counts:
            return [self.shape.at(i) for i in range(n, self.shape.least)]
        return [] if self.items.done(n, counts) else self.items.search(n, counts)

    def items_and_end(self, needs: list[Need] | None, seen: Values, first: bool) -> bytes | None:
        """Return distinct items of some needs, and the end; ``None`` if there are none."""
        items = None if needs is None else self.machines.distinct.matched(needs, seen)
        return None if items is None else self.written(items, first, b"]")

    def bounded(self, bounds: Bounds) -> Machine:
        return self._pairs

    @cached_property
    def _pairs(self) -> Machine:
        from .pairs import distinct_pairs

        return distinct_pairs(self)

    # ------------------------------------------------------------ short texts

    @cached_property
    def longest(self) -> int | None:  # type: ignore[override]
        """See ``Machine.longest``."""
        shape = self.shape
        if shape.contains:
            return None
        known = [
            self.machines.distinct.values(shape.at(n), shape.least + 1) for n in range(len(shape.prefix) + 1)
        ]
        longest = max([len(text) for texts in known for text in texts.values()], default=0)
        return (
            (max(1, shape.least) + 1) * (longest + len(self.style.comma))
            + 2
            + len(self.style.lead)
            + len(self.style.trail)
        )

    def shortest(self, look: Look) -> bytes | None:
        """Return a short text of an array, ``None`` if there is none."""
        found = super().shortest(look)
        if found is None or (self.shape.least < 2 and not self.items.start):
            return found
        if self in self.machines.matching:  # an array of itself
            return None
        self.machines.matching.add(self)
        try:
            return self.ending((START,), frozenset())
        finally:
            self.machines.matching.discard(self)

    def completion(self, local: Local) -> bytes:
        found = self.ending(local, frozenset())
        return super().completion(local) if found is None else found
