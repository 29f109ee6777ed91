"""Arrays as machines; the registers are the number of items and the count of each ``contains``
(:mod:`~.array_items`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ....errors import TooManyStates
from ... import limits
from ...automata.region import Local, Machine, Region
from ...limits import Bounds
from ...narrowing import Cut
from ..shapes import Arrays, Need
from ..text import Style
from .array_items import Counts, Items
from .blanks import with_blanks

if TYPE_CHECKING:
    from .values import Look, Machines

START, OPEN, AFTER, COMMA, ITEM, END, TRAIL = range(7)
COARSE_DEPTH = 3
"""The nesting depth from which abstractions forget indents."""


class ArrayMachine(Region):
    """The texts of the arrays of one shape.
    ``machines``: those of the items. ``style``: how the array is written."""

    brackets = b"[]"
    ends_with: bytes
    covers_all = False
    cuts: tuple[Cut, ...] = ()

    def __init__(self, machines: Machines, shape: Arrays, style: Style) -> None:
        self.machines, self.style, self.shape = machines, style, shape
        self.ends_with = self.brackets[1:]
        self.items = Items(machines, shape)
        self._live: dict[tuple[int, Counts], list[tuple[Need, Counts]]] = {}

    def ways(self, n: int, counts: Counts) -> list[tuple[Need, Counts]]:
        """Return the needs that the next item may satisfy, each with the counts after it."""
        key = (n, counts)
        if self.shape.most is not None and not counts:
            key = (n if n < self.items.steady else -(n < self.shape.most) - 1, counts)
        if key not in self._live:
            self._live[key] = self.items.live(n, counts)
        return self._live[key]

    def start(self) -> Local:
        return (START,)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        kind, *rest = local
        found: list[tuple[int, int, Local]] = []
        if kind == END:
            return found
        if kind == START:
            return [(self.brackets[0],) * 2 + ((OPEN, 0, self.items.start),)]
        comma = self.style.comma
        if kind == TRAIL:
            return [self.trailing(self.brackets[1], rest[0])]
        if kind == COMMA:
            n, counts, at = rest
            return [(comma[at],) * 2 + (self.onward(n, counts, at + 1),)]
        n, counts = rest
        first = 0 if kind == AFTER else self.style.to_lead
        if (kind == AFTER or (kind == OPEN and self.style.lead)) and self.ways(n, counts):
            found.append((comma[first], comma[first], self.onward(n, counts, first + 1)))
        if kind in (OPEN, AFTER) and self.items.done(n, counts):
            found.append(self.trailing(self.brackets[1], 0 if kind == AFTER else len(self.style.trail)))
            found.sort(key=lambda move: move[0])
        return with_blanks(found, local) if self.style.blank else found

    def trailing(self, bracket: int, at: int) -> tuple[int, int, Local]:
        """Return the move on byte ``at`` of the text before the closing bracket, or on the bracket."""
        trail = self.style.trail
        return (trail[at],) * 2 + ((TRAIL, at + 1),) if at < len(trail) else (bracket, bracket, (END,))

    def onward(self, n: int, counts: Counts, at: int) -> Local:
        """Return the state after ``at`` bytes of a comma, or after all of it."""
        return (COMMA, n, counts, at) if at < len(self.style.comma) else (ITEM, n, counts)

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if local[0] != ITEM and (local[0] != OPEN or self.style.lead):
            return ()
        _, n, counts = local
        machine, after = self.machines.machine, self.items.after(n)
        return [(machine(need), (AFTER, after, to)) for need, to in self.ways(n, counts)]

    def reads(self, local: Local) -> bool:
        kind, *rest = local
        if kind in (OPEN, ITEM) and not self.style.blank:
            return kind == OPEN and (bool(self.style.lead) or self.items.done(*rest))
        return bool(kind != END)

    def final(self, local: Local) -> bool:
        return bool(local[0] == END)

    def coarse(self, level: int) -> Machine:
        if level and self.unindented is not None and self.style.depth >= COARSE_DEPTH:
            return self.unindented.coarse(level)
        return self.uncounted if level else self

    @cached_property
    def uncounted(self) -> Machine:
        """The arrays of any number of items of the shape, which need not be distinct."""
        wider = replace(self.shape, least=0, most=None, contains=(), unique=None)
        return self.of(wider)

    def of(self, shape: Arrays) -> ArrayMachine:
        """Return the machine of another shape of arrays whose items need not be distinct."""
        return ArrayMachine(self.machines, shape, self.style)

    def bounded(self, bounds: Bounds) -> Machine:
        shape, most = self.shape, max(bounds.items, self.shape.least, len(self.shape.prefix))
        if shape.most is None or shape.most <= most or self.machines.is_empty(shape.at(most)):
            return self
        if most not in self._bounded:
            found = self._bounded[most] = self.of(replace(shape, most=most))
            found.cuts = (Cut("maxItems", shape.most, most, "an automaton of all items would be large"),)
        return self._bounded[most]

    @cached_property
    def _bounded(self) -> dict[int, ArrayMachine]:
        return {}

    def view(self, local: Local, reach: int) -> Any:
        if self.shape.most is None or local[0] in (START, TRAIL, END):
            return local
        kind, n, *rest = local
        if n < self.items.steady:
            return local
        return (kind, min(self.shape.most - n, reach), "left", *rest)

    def short(self, local: Local, prefixes: Any, reach: int) -> Any:
        if local[0] != AFTER:
            return self.view(local, reach)
        _, n, counts = local
        return (AFTER, self.items.done(n, counts), bool(self.ways(n, counts)))

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Any:
        if local[0] == AFTER:
            return self.brackets, self.style, self.short(local, prefixes, reach)
        if self.shape.prefix or self.shape.contains:
            return None
        return self.brackets, self.machines.meaning(self.shape.rest), self.shape.least, self.shape.most, local

    def covers(self, origin: Local, local: Local) -> bool:
        return bool(origin[0] != AFTER or local[0] in (AFTER, COMMA, TRAIL, END))

    # ------------------------------------------------------------ short texts

    @cached_property
    def longest(self) -> int | None:  # type: ignore[override]
        """See ``Machine.longest``."""
        shape, around = self.shape, 2 + len(self.style.lead) + len(self.style.trail)
        if (
            shape.contains
        ):  # each item of a shortest completion has a position below ``steady``, or is counted
            needs, items = (
                self.items.all_needs(),
                self.items.steady + sum(kind.least for kind in shape.contains),
            )
            if needs is None:
                return None
            length = max([len(self.machines.shortest(need) or b"") for need in needs], default=0)
            return (items + 1) * (length + len(self.style.comma)) + around
        lengths = [len(self.machines.shortest(shape.at(n)) or b"") for n in range(len(shape.prefix) + 1)]
        lengths = [length + len(self.style.comma) for length in lengths]
        first = sum(lengths[: min(shape.least, len(shape.prefix))])
        return first + max(0, shape.least - len(shape.prefix)) * lengths[-1] + max(lengths) + around

    def shortest(self, look: Look) -> bytes | None:
        """Return a short text of an array, ``None`` if there is none.
        Raises ``TooManyStates`` if it is very long."""
        if self.shape.least > limits.LENGTH:
            raise TooManyStates(
                f"arrays of at least {self.shape.least} items are too long", limit=limits.LENGTH
            )
        text = self.rest(0, self.items.start, look, first=True)
        return None if text is None else self.brackets[:1] + text

    def rest(self, n: int, counts: Counts, look: Look, first: bool, one: bool = False) -> bytes | None:
        """Return the text of the items to come and the end, ``None`` if there is none.
        ``first``: no item precedes. ``one``: at least one item comes, and the separator before it has been read."""
        needs: list[Need] | None = []
        if one:
            ways = []
            for need, after in self.ways(n, counts):
                rest = self.rest(self.items.after(n), after, look, first=False)
                if (value := look(need)) is not None and rest is not None:
                    ways.append(value + rest)
            return min(ways, key=len, default=None)
        if counts:
            needs = self.items.search(n, counts, look)
        elif n < self.shape.least:
            needs = [self.shape.at(i) for i in range(n, self.shape.least)]
        if needs is None:
            return None
        values = [look(need) for need in needs]
        if any(value is None for value in values):
            return None
        return self.written([value or b"" for value in values], first, self.end(n + len(values)))

    def written(self, items: Sequence[bytes], first: bool, end: bytes) -> bytes:
        """Return items with the text before, between and after them."""
        style = self.style
        before = b"" if not items else style.lead if first else style.comma
        return before + style.comma.join(items) + (b"" if first and not items else style.trail) + end

    def end(self, items: int) -> bytes:
        """Return the text that ends an array of this number of items."""
        return self.ends_with

    def completion(self, local: Local) -> bytes:
        kind, *rest = local
        look, style = self.machines.shortest, self.style
        if kind == END:
            return b""
        if kind == TRAIL:
            return style.trail[rest[0] :] + self.ends_with
        if kind == START:
            return self.brackets[:1] + self.completion((OPEN, 0, self.items.start))
        n, counts, *at = rest
        found = self.rest(n, counts, look, first=kind == OPEN, one=kind in (COMMA, ITEM))
        assert found is not None
        return (style.comma[at[0] :] if kind == COMMA else b"") + found


class TupleMachine(ArrayMachine):
    """The texts of the tuples of one shape: if there is one item, a comma follows it."""

    brackets = b"()"

    def of(self, shape: Arrays) -> ArrayMachine:
        return TupleMachine(self.machines, shape, self.style)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        kind, *rest = local
        if kind not in (AFTER, COMMA, ITEM) or rest[0] != 1:
            return super().moves(local)
        _, counts, *at = rest
        found: list[tuple[int, int, Local]] = []
        comma = self.style.comma
        if kind == AFTER:
            found.append((comma[0], comma[0], self.onward(1, counts, 1)))
        if kind == COMMA and self.ways(1, counts):
            found.append((comma[at[0]],) * 2 + (self.onward(1, counts, at[0] + 1),))
        if self.ends_here(local):
            found.append((self.brackets[1],) * 2 + ((END,),))
        return with_blanks(found, local) if self.style.blank else found

    def ends_here(self, local: Local) -> bool:
        """Return whether the tuple may end after the comma of its only item."""
        kind, *rest = local
        behind = (kind == ITEM and len(self.style.comma) == 1) or (kind == COMMA and rest[-1] == 1)
        return behind and rest[0] == 1 and self.items.done(1, rest[1])

    def reads(self, local: Local) -> bool:
        return super().reads(local) or self.ends_here(local)

    def short(self, local: Local, prefixes: Any, reach: int) -> Any:
        found = super().short(local, prefixes, reach)
        return (*found, local[1] == 1) if local[0] == AFTER else found

    def end(self, items: int) -> bytes:
        return self.style.comma[:1] * (items == 1) + self.ends_with

    def completion(self, local: Local) -> bytes:
        return self.ends_with if self.ends_here(local) else super().completion(local)
