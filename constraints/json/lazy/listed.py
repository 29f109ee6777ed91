"""Arrays of distinct items that are listed: the registers hold the set of values used, as bits.

The texts of all values are read in parallel. A state is the set of values that the text so far may become, each with a state of
its own machine. The item may go on while one of them is unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any

from ...automata.region import Local, Machine, Region
from ...limits import Bounds
from ...narrowing import Cut
from ..shapes import Arrays, Need
from ..text import Style
from .arrays import AFTER, COMMA, END, ITEM, OPEN, START, TRAIL, ArrayMachine
from .blanks import with_blanks
from .distinct import Distinct
from .letters import merged_rows
from .listed_values import State, Values
from .members import bits

if TYPE_CHECKING:
    from .values import Look, Machines

READ = 7
LETTERS = 20
"""Letters of an ordered list's automaton per unit of ``Bounds.room``; it has all values once for each item that it remembers."""
FEW_SETS = 16
"""The number of sets of used values up to which a finite automaton always remembers the set."""


class ListedArrayMachine(Region):
    """The texts of the arrays of one shape whose items are distinct and listed."""

    ends_with = b"]"

    def __init__(self, machines: Machines, shape: Arrays, style: Style, needs: Sequence[Need]) -> None:
        self.style, self.shape = style, shape
        self.plain = ArrayMachine(machines, shape, style)
        self.values = Values(machines)
        distinct: Distinct = machines.distinct
        self.allowed = []  # by position, the last one for all later ones
        for need in needs:
            found = distinct.values(need, 1 << 30)
            self.allowed.append(sum({1 << self.values.add(v, text) for v, text in found.items()}))
        self._after: dict[tuple[int, int], list[int] | None] = {}
        self._good: dict[tuple[int, int], int] = {}

    def at(self, n: int) -> int:
        """Return the values that an item may have, as bits."""
        if self.shape.most is not None and n >= self.shape.most:
            return 0
        return self.allowed[min(n, len(self.allowed) - 1)]

    def to_end(self, n: int, used: int) -> list[int] | None:
        """Return values with which an array can end, by number; ``None`` if there are none."""
        key = (n, used)
        if key not in self._after:
            self._after[key] = matching([self.at(i) & ~used for i in range(n, self.shape.least)])
        return self._after[key]

    def good(self, n: int, used: int) -> int:
        """Return the values of the next item after which the array can still end, as bits."""
        key = (n, used)
        if key not in self._good:
            free, found = self.at(n) & ~used, 0
            if n + 1 >= self.shape.least:
                found = free
            else:
                for i in range(free.bit_length()):
                    if free >> i & 1 and self.to_end(n + 1, used | 1 << i) is not None:
                        found |= 1 << i
            self._good[key] = found
        return self._good[key]

    def may_end(self, n: int, used: int) -> bool:
        """Return whether the array may end after ``n`` items."""
        return n >= self.shape.least

    def start(self) -> Local:
        return (START,)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        kind, *rest = local
        if kind == END:
            return ()
        if kind == START:
            return [(91, 91, (OPEN, 0, 0))]
        if kind == TRAIL:
            return [self.plain.trailing(93, rest[0])]
        n, used, *more = rest
        comma = self.style.comma
        if kind == COMMA:
            return [(comma[more[0]],) * 2 + (self.in_comma(n, used, more[0] + 1),)]
        if kind == READ:
            return self.in_item(n, used, more[0])
        found: list[tuple[int, int, Local]] = []
        good, style = self.good(n, used), self.style
        first = 0 if kind == AFTER else style.to_lead
        if (kind == AFTER or (kind == OPEN and style.lead)) and good:
            found.append((comma[first], comma[first], self.in_comma(n, used, first + 1)))
        if kind in (OPEN, AFTER) and self.may_end(n, used):
            found.append(self.plain.trailing(93, 0 if kind == AFTER else len(style.trail)))
        if (kind == ITEM or (kind == OPEN and not style.lead)) and good:
            found += self.in_item(n, used, self.values.start(self.at(n)))
        found.sort(key=lambda move: move[0])
        return with_blanks(found, local) if self.style.blank else found

    def in_comma(self, n: int, used: int, at: int) -> Local:
        """Return the state after ``at`` bytes of a comma, or after all of it."""
        return (COMMA, n, used, at) if at < len(self.style.comma) else (ITEM, n, used)

    def in_item(self, n: int, used: int, state: State) -> list[tuple[int, int, Local]]:
        """Return the moves within an item."""
        good = self.good(n, used)
        found: list[Any] = [
            (low, high, (READ, n, used, to))
            for low, high, to, values in self.values.rows(state)
            if values & good
        ]
        ending = self.values.ending(state)
        if ending is not None and good >> ending & 1:
            found += self.moves((AFTER, self.after(n), self.taken(used, ending)))
            found.sort(key=lambda move: move[0])
        return merged_rows(found)

    def after(self, n: int) -> int:
        """Return the number of items after one more, as far as it matters."""
        return n + 1

    def taken(self, used: int, i: int) -> int:
        """Return the values that are used up after one more, as bits."""
        return used | 1 << i

    def reads(self, local: Local) -> bool:
        return bool(local[0] != END)

    def final(self, local: Local) -> bool:
        return bool(local[0] == END)

    def coarse(self, level: int) -> Machine:
        return self.plain.coarse(level) if level else self

    def bounded(self, bounds: Bounds) -> Machine:
        n = len(self.values.texts)
        most = n if self.shape.most is None else min(n, self.shape.most)
        sets = sum(comb(n, k) for k in range(most + 1))
        if sets <= max(bounds.room, FEW_SETS):
            return self
        if bounds.room not in self._bounded:
            self._bounded[bounds.room] = OrderedListMachine(self, LETTERS * bounds.room)
        return self._bounded[bounds.room]

    @cached_property
    def _bounded(self) -> dict[int, Machine]:
        return {}

    # ------------------------------------------------------------ short texts

    def shortest(self, look: Look) -> bytes | None:
        """Return a short text of an array, ``None`` if there is none."""
        items = self.to_end(0, 0)
        return None if items is None else b"[" + self.written(items, first=True)

    def written(self, items: Sequence[int], first: bool) -> bytes:
        """Return the text of the last items and the end. ``first``: no item precedes."""
        return self.plain.written([self.values.texts[i] for i in items], first, b"]")

    def completion(self, local: Local) -> bytes:
        kind, *rest = local
        if kind == END:
            return b""
        if kind == START:
            return b"[" + self.completion((OPEN, 0, 0))
        if kind == TRAIL:
            return self.plain.completion(local)
        n, used, *more = rest
        comma = self.style.comma
        if kind in (OPEN, AFTER):
            items = self.to_end(n, used)
            assert items is not None
            return self.written(items, first=kind == OPEN)
        state = self.values.start(self.at(n)) if kind in (COMMA, ITEM) else more[0]
        good, ends = self.good(n, used), []
        for i, at in state:
            if good >> i & 1:
                rest_of_item = self.values.machine(i).completion(at)
                ends.append((len(rest_of_item), i, rest_of_item))
        _, i, text = min(ends)
        text += self.completion((AFTER, self.after(n), self.taken(used, i)))
        return (comma[more[0] :] if kind == COMMA else b"") + text


class OrderedListMachine(ListedArrayMachine):
    """The arrays whose items come in the order of the list; the register is the latest of them.

    In a long list, each block of neighbours shares a state; an array has at most one value of a block. It reads at most the texts
    of the machine without an order.
    """

    def __init__(self, whole: ListedArrayMachine, most_letters: int) -> None:
        self.__dict__.update(whole.__dict__)
        self._after, self._good = {}, {}
        n, letters = len(self.values.texts), sum(map(len, self.values.texts))
        self.shared = max(1, n // max(2, self.shape.least, most_letters // letters))
        given = "distinct items in the order in which they are listed"
        given += f", of each {self.shared} neighbours one" if self.shared > 1 else ""
        asked = "distinct items in any order"
        self.cuts = (Cut("uniqueItems", asked, given, "the automaton remembers each set of items"),)

    def to_end(self, n: int, used: int) -> list[int] | None:
        key, found = (n, used), list[int]()
        if key not in self._after:
            for i in range(n, self.shape.least):
                free = self.at(i) & ~used
                if not free:
                    break
                found.append((free & -free).bit_length() - 1)
                used = self.taken(used, found[-1])
            self._after[key] = found if len(found) >= self.shape.least - n else None
        return self._after[key]

    def good(self, n: int, used: int) -> int:
        key = (n, used)
        if key not in self._good:
            free, found = self.at(n) & ~used, 0
            for i in bits(free):  # where one leaves too few values, so do all after it
                if self.to_end(n + 1, self.taken(used, i)) is None:
                    break
                found |= 1 << i
            self._good[key] = found
        return self._good[key]

    def taken(self, used: int, i: int) -> int:
        return used | (1 << (i // self.shared + 1) * self.shared) - 1

    def after(self, n: int) -> int:
        steady = max(self.shape.least, len(self.allowed) - 1)
        return n + 1 if self.shape.most is not None else min(n + 1, steady)


def matching(options: Sequence[int]) -> list[int] | None:
    """Return a different value for each position (bipartite matching), ``None`` if there is none.
    ``options``: by position, the values that it may have, as bits."""
    holder: dict[int, int] = {}

    def place(position: int, tried: set[int]) -> bool:
        for i in range(options[position].bit_length()):
            if options[position] >> i & 1 and i not in tried:
                tried.add(i)
                if i not in holder or place(holder[i], tried):
                    holder[i] = position
                    return True
        return False

    if not all(place(position, set()) for position in range(len(options))):
        return None
    chosen = {position: i for i, position in holder.items()}
    return [chosen[position] for position in range(len(options))]
