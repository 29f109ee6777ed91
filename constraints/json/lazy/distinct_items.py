"""Arrays of distinct items: which ends an item may have, and whether the array can end after it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from ..shapes import Arrays, Need
from .arrays import ArrayMachine, Counts
from .distinct import Between, Reading, ends, meaning
from .rivals import may_be

if TYPE_CHECKING:
    from .values import Machines

MOST_ENDS = 200
"""Ends of an item that are looked at for a value that was not seen."""


class DistinctItems:
    """The items of the arrays of one shape, none of them twice."""

    def __init__(self, machines: Machines, shape: Arrays) -> None:
        self.machines, self.style = machines, machines.style
        self.distinct = machines.distinct
        self.plain = ArrayMachine(machines, shape)
        self.items = self.plain.items
        self._ends: dict[Between, list[bytes] | None] = {}
        self._live: dict[Reading, bytes] = {}

    def to_end(self, here: Between) -> list[bytes] | None:
        """Items with which the array can end, ``None`` if there are none."""
        if here not in self._ends:
            needs: list[Need] | None = None
            if here.counts or here.n < self.plain.shape.least:
                needs = self.items.search(here.n, here.counts)
            elif self.plain.shape.most is None or here.n <= self.plain.shape.most:
                needs = []
            found = None if needs is None else self.distinct.matched(needs, here.seen)
            self._ends[here] = found
        return self._ends[here]

    def begin(self, here: Between) -> list[Reading]:
        """The registers at the beginning of the next item, if there may be one."""
        ways = []
        for need, counts in self.plain.ways(here.n, here.counts):
            start = self.distinct.automaton(need).start()
            if start is not None:
                ways.append((counts, need, start))
        found = Reading(here.n, here.seen, b"", None, frozenset(ways), hidden=here.hidden)
        if here.walks:
            found = found._replace(rivals=here.seen)
        return [found] if ways and self.is_live(found) else []

    def may_forget(self, here: Reading) -> bool:
        """Whether the array may end after this item, whatever it is, and none was forgotten before it."""
        return here.hidden is None and not self.items.start and here.n + 1 >= self.plain.shape.least

    def after(self, here: Reading, counts: Counts, text: bytes) -> Between:
        """The registers after an item."""
        seen, hidden = (here.seen, text) if here.forgotten else (here.seen | {meaning(text)}, here.hidden)
        return Between(self.items.after(here.n), counts, seen, here.rivals is not None, hidden)

    def is_good(self, here: Reading, counts: Counts, text: bytes) -> bool:
        """Whether an item may end with this text, as far as its value is known."""
        if not here.forgotten and meaning(text) in here.seen:
            return False
        return self.to_end(self.after(here, counts, text)) is not None

    def is_doubtful(self, here: Reading, text: bytes) -> bool:
        """Whether an item of this text may be equal to one that was forgotten."""
        return here.hidden is not None and may_be(here.hidden, meaning(text))

    def is_live(self, here: Reading) -> bool:
        """Whether some end of the item may be."""
        if here.forgotten:
            return True
        if not here.seen and self.may_forget(here):
            return True  # any end
        if here not in self._live:
            found = self.search(here)
            if found is None:
                return False
            self._live[here] = found
        return True

    def search(self, here: Reading) -> bytes | None:
        """An end of the item that may be: one of two, if each may be equal to a forgotten item."""
        found: dict[Hashable, bytes] = {}
        for rest in self.some_ends(here):
            text = here.text + rest
            found.setdefault(meaning(text), rest)
            if len(found) == 2 or not self.is_doubtful(here, text):
                return rest
        return None

    def some_ends(self, here: Reading) -> Iterator[bytes]:
        """Ends of the item that may be, short ones first."""
        for counts, need, configuration in here.ways:
            rest = self.distinct.automaton(need).completion(configuration)
            if self.is_good(here, counts, here.text + rest):
                yield rest
        for counts, need, configuration in here.ways:
            some = ends(self.distinct.automaton(need), configuration)
            for rest in islice(some, MOST_ENDS + len(here.seen)):
                if self.is_good(here, counts, here.text + rest):
                    yield rest

    def is_rich(self, here: Reading) -> bool:
        """Whether the item is in free text that two more letters may come of, which make it differ from all others."""
        for _, need, configuration in here.ways:
            body = self.distinct.automaton(need).body(configuration)
            if body is not None and not body.exceptions and (body.most is None or body.most > 2):
                return True
        return False
