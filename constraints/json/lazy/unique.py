"""Arrays of distinct items: the registers hold the values seen, and the text of the item that is being read.

    (items so far, counts of kinds, values seen, text of this item, configurations of its automaton)

An item may only be begun, and gone on with, as long as some end of it is a value that was not seen, after which enough
distinct values are left. Free text in an item is annotated: after letters that continue no value seen, the item is known by
its beginning and the number of its letters (:class:`~.distinct.Unknown`), which is enough for all tokens but those that end
a string and hold all of the next one, with as many letters.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...automata.lazy import Configuration
from ...automata.stack import Local, LocalBody, Machine, Region
from ..limits import Bounds
from ..shapes import Arrays, Need
from .arrays import AFTER, COMMA, END, ITEM, OPEN, START, ArrayMachine, Counts
from .blanks import with_blanks
from .distinct import (
    MOST_LETTERS,
    Between,
    Reading,
    Unknown,
    decoded,
    ends,
    is_letter,
    is_taken,
    meaning,
    more,
)
from .keys import spelling

if TYPE_CHECKING:
    from .values import Look, Machines

READ = 6
MOST_ENDS = 200
"""Ends of an item that are looked at for a value that was not seen."""


class UniqueArrayMachine(Region):
    """The texts of the arrays of one shape whose items are distinct."""

    ends_with = b"]"

    def __init__(self, machines: Machines, shape: Arrays) -> None:
        self.machines, self.style = machines, machines.style
        self.distinct = machines.distinct
        self.plain = ArrayMachine(machines, shape)
        self.items = self.plain.items
        self._ends: dict[Between, list[bytes] | None] = {}
        self._live: dict[Reading, bytes] = {}

    # ------------------------------------------------------------ what can still be

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
        found = Reading(here.n, here.seen, b"", None, frozenset(ways))
        return [found] if ways and self.is_live(found) else []

    def after(self, here: Reading, counts: Counts, value: Hashable) -> Between:
        """The registers after an item."""
        return Between(self.items.after(here.n), counts, here.seen | {value})

    def is_good(self, here: Reading, counts: Counts, text: bytes) -> bool:
        """Whether an item may end with this text."""
        value: Hashable = here.unknown
        if value is None:
            value = meaning(text)
        if is_taken(value, here.seen):
            return False
        after = self.after(here, counts, value)
        return self.to_end(after) is not None

    def is_live(self, here: Reading) -> bool:
        """Whether some end of the item may be."""
        if not here.seen and not self.items.start and here.n + 1 >= self.plain.shape.least:
            return True  # any end
        if here not in self._live:
            found = self.search(here)
            if found is None:
                return False
            self._live[here] = found
        return True

    def search(self, here: Reading) -> bytes | None:
        """An end of the item that may be."""
        for counts, need, configuration in here.ways:
            rest = self.distinct.automaton(need).completion(configuration)
            if self.is_good(here, counts, here.text + rest):
                return rest
        for counts, need, configuration in here.ways:
            some = ends(self.distinct.automaton(need), configuration)
            for rest in islice(some, MOST_ENDS + len(here.seen)):
                if self.is_good(here, counts, here.text + rest):
                    return rest
        return None

    def is_rich(self, here: Reading) -> bool:
        """Whether the item is in free text that two more letters may come of, which make it differ from all others."""
        for _, need, configuration in here.ways:
            body = self.distinct.automaton(need).body(configuration)
            if body is not None and not body.exceptions and (body.most is None or body.most > 2):
                return True
        return False

    # ------------------------------------------------------------ the machine

    def start(self) -> Local:
        return (START,)

    def step(self, local: Local, byte: int) -> Local | None:
        """The local state after a byte."""
        if local[0] != READ:
            return next((to for low, high, to in self.moves(local) if low <= byte <= high), None)
        here = local[1]
        ways = set()
        for counts, need, configuration in here.ways:
            after = self.distinct.automaton(need).step(configuration, byte)
            if after is not None:
                ways.add((counts, need, after))
        if ways:
            onward = self.onward(here, byte, frozenset(ways))
            is_letter = byte != 34 and self.is_rich(here)
            return (READ, onward) if is_letter or self.is_live(onward) else None
        return next((to for low, high, to in self.leaving(here) if low <= byte <= high), None)

    def onward(self, here: Reading, byte: int, ways: frozenset[Any]) -> Reading:
        """The registers after a byte of the item."""
        text, unknown = here.text + bytes([byte]), here.unknown
        if unknown is None:
            return Reading(here.n, here.seen, text, None, ways)
        if (
            byte == 34 and text[-2:-1] != b"\\"
        ):  # the text of an unknown string is the letter that is being read
            return Reading(here.n, here.seen, b'"', unknown, ways)
        if is_letter(text):
            text, unknown = b"", more(unknown, 1)
        return Reading(here.n, here.seen, text, unknown, ways)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        kind, *rest = local
        if kind == READ:
            return self.in_item(rest[0])
        found: list[tuple[int, int, Local]] = []
        if kind == END:
            return found
        if kind == START:
            return [(91, 91, (OPEN, Between(0, self.items.start, frozenset())))]
        comma, here = self.style.comma, rest[0]
        if kind == COMMA:
            return [(comma[rest[1]],) * 2 + (self.in_comma(here, rest[1] + 1),)]
        if kind == AFTER and self.begin(here):
            found.append((comma[0], comma[0], self.in_comma(here, 1)))
        if kind in (OPEN, AFTER) and self.items.done(here.n, here.counts):
            found.append((93, 93, (END,)))
        if kind in (OPEN, ITEM):
            for reading in self.begin(here):
                found += self.in_item(reading)
        found.sort(key=lambda move: move[0])
        return with_blanks(found, local) if self.style.blank else found

    def in_comma(self, here: Between, at: int) -> Local:
        """Within a comma, or after it."""
        return (COMMA, here, at) if at < len(self.style.comma) else (ITEM, here)

    def in_item(self, here: Reading) -> Sequence[tuple[int, int, Local]]:
        """The moves within an item."""
        after: dict[int, set[Any]] = {}
        for counts, need, configuration in here.ways:
            for low, high, to in self.distinct.automaton(need).moves(configuration):
                for byte in range(low, high + 1):
                    after.setdefault(byte, set()).add((counts, need, to))
        rich = self.is_rich(here)
        found: list[tuple[int, int, Local]] = []
        for byte, ways in after.items():
            onward = self.onward(here, byte, frozenset(ways))
            if (rich and byte != 34) or self.is_live(onward):
                found.append((byte, byte, (READ, onward)))
        found += self.leaving(here)
        found.sort(key=lambda move: move[0])
        return found

    def leaving(self, here: Reading) -> list[tuple[int, int, Local]]:
        """The moves after an item that may be at its end."""
        found: dict[int, tuple[int, int, Local]] = {}
        for counts, need, configuration in here.ways:
            if self.distinct.automaton(need).accepting(configuration) and self.is_good(
                here, counts, here.text
            ):
                value = meaning(here.text) if here.unknown is None else here.unknown
                for move in self.moves((AFTER, self.after(here, counts, value))):
                    found[move[0]] = move
        return list(found.values())

    def reads(self, local: Local) -> bool:
        return bool(local[0] != END)

    def coarse(self, level: int) -> Machine:
        return self.plain.uncounted if level else self

    def bounded(self, bounds: Bounds) -> Machine:
        return self._bounded

    @cached_property
    def _bounded(self) -> Machine:
        from .pairs import distinct_pairs

        return distinct_pairs(self.plain)

    def final(self, local: Local) -> bool:
        return bool(local[0] == END)

    # ------------------------------------------------------------ free text

    def body(self, local: Local) -> LocalBody | None:
        if local[0] != READ or len(local[1].ways) != 1:
            return None
        here = local[1]
        ((_, need, configuration),) = here.ways
        found = self.distinct.automaton(need).body(configuration)
        if found is None or found.exceptions or here.text[:1] not in (b'"', b"") or not self.is_rich(here):
            return None
        settled = None if found.settled is None else MOST_LETTERS + 1 + found.settled
        most = None if found.most is None else found.most - 2
        if here.unknown is not None:
            return LocalBody(found.letters, most, b"", settled)
        prefix = json.loads(here.text + b'"')
        exceptions = {
            first
            for value in here.seen
            if isinstance(value, str) and value.startswith(prefix) and value != prefix
            for first in (spelling(value[len(prefix) :])[0], 92)
        }
        return LocalBody(found.letters, most, bytes(sorted(exceptions)), settled)

    def after_letters(self, local: Local, count: int) -> Local:
        here = local[1]
        if not count:
            return local
        ((counts, need, configuration),) = here.ways
        body = self.distinct.automaton(need).body(configuration)
        assert body is not None
        unknown = here.unknown or Unknown(json.loads(here.text + b'"'), 0)
        ways = frozenset([(counts, need, body.after(count))])
        return (READ, Reading(here.n, here.seen, b"", more(unknown, count), ways))

    def view(self, local: Local, reach: int) -> Any:
        if local[0] != READ or local[1].unknown is not None or local[1].text[:1] != b'"':
            return local
        here = local[1]
        ways = frozenset(
            (counts, need, self.distinct.automaton(need).view(configuration, reach))
            for counts, need, configuration in here.ways
        )
        short = frozenset(v for v in here.seen if not isinstance(v, str) or len(v) < reach)
        if len(here.text) < reach or any(
            isinstance(v, str) and v.startswith(decoded(here.text)) for v in here.seen
        ):
            return (READ, here.n, here.seen, here.text, ways)
        return (READ, here.n, short, ways)

    # ------------------------------------------------------------ short texts

    def shortest(self, look: Look) -> bytes | None:
        """A short text of an array, ``None`` if there is none."""
        found = self.plain.shortest(look)
        if found is None or (self.plain.shape.least < 2 and not self.items.start):
            return found
        if self in self.machines.matching:  # an array of itself
            return None
        self.machines.matching.add(self)
        try:
            items = self.to_end(Between(0, self.items.start, frozenset()))
        finally:
            self.machines.matching.discard(self)
        return None if items is None else b"[" + self.style.comma.join(items) + b"]"

    def completion(self, local: Local) -> bytes:
        kind, *rest = local
        if kind == END:
            return b""
        comma = self.style.comma
        if kind == START:
            return b"[" + self.completion((OPEN, Between(0, self.items.start, frozenset())))
        if kind in (OPEN, AFTER):
            items = self.to_end(rest[0])
            assert items is not None
            return (comma if items and kind == AFTER else b"") + comma.join(items) + b"]"
        if kind in (COMMA, ITEM):
            (here,) = self.begin(rest[0])
            return (comma[rest[1] :] if kind == COMMA else b"") + self.completion((READ, here))
        return self.rest_of_item(rest[0])

    def rest_of_item(self, here: Reading) -> bytes:
        """A short end of an item, and of the array."""
        end = self._live.get(here) or self.search(here)
        assert end is not None
        for counts, need, configuration in here.ways:
            automaton = self.distinct.automaton(need)
            there: Configuration | None = configuration
            for byte in end:
                there = None if there is None else automaton.step(there, byte)
            text = here.text + end
            if there is not None and automaton.accepting(there) and self.is_good(here, counts, text):
                value = meaning(text) if here.unknown is None else here.unknown
                return end + self.completion((AFTER, self.after(here, counts, value)))
        raise AssertionError("no way to read the item")
