"""Arrays of distinct items: the registers hold the values seen, and the text of the item that is being read.

    (items so far, counts of kinds, values seen, text of this item, configurations of its automaton)

An item may only be begun, and gone on with, as long as some end of it is a value that was not seen, after which enough
distinct values are left.

Walks of a vocabulary would meet a configuration for each text. So in walks (:meth:`UniqueArrayMachine.passing`) all of the
text but its beginning is forgotten as soon as it can become none of the values seen. Where the next item ends within the same
token, it is refused if it may be equal to the forgotten one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...automata.lazy import Configuration
from ...automata.stack import Local, LocalBody, Machine, Region
from ..shapes import Need
from .arrays import AFTER, COMMA, END, ITEM, OPEN, START, Counts
from .blanks import with_blanks
from .distinct import Between, Reading, size
from .distinct_items import DistinctItems
from .keys import spelling
from .letters import merged_rows
from .rivals import beginning, leading_on, may_be

if TYPE_CHECKING:
    from .values import Look

READ = 6
Way = tuple[Counts, Need, Configuration]


class UniqueArrayMachine(DistinctItems, Region):
    """The texts of the arrays of one shape whose items are distinct."""

    ends_with = b"]"

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
        if here.forgotten:
            return self.passed(here, here.text, ways)
        text, rivals = here.text + bytes([byte]), here.rivals
        if rivals is None:
            return here._replace(text=text, ways=ways)
        rivals = frozenset([value for value in rivals if may_be(text, value)])
        if rivals or not self.may_forget(here):
            return here._replace(text=text, rivals=rivals, ways=ways)
        return self.passed(here, text[:1], ways)

    def passed(self, here: Reading, text: bytes, ways: Iterable[Way]) -> Reading:
        """The registers of a walk within an item that was forgotten but for a beginning."""
        some = [(counts, need, self.distinct.automaton(need).passing(at)) for counts, need, at in ways]
        return here._replace(text=text, rivals=frozenset(), ways=frozenset(some), forgotten=True)

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
        """The moves within an item, and after it."""
        found = self.in_forgotten(here)
        if found is None:
            after: dict[int, set[Any]] = {}
            for counts, need, configuration in here.ways:
                for low, high, to in self.distinct.automaton(need).moves(configuration):
                    for byte in range(low, high + 1):
                        after.setdefault(byte, set()).add((counts, need, to))
            rich, found = self.is_rich(here), []
            for byte, ways in sorted(after.items()):
                onward = self.onward(here, byte, frozenset(ways))
                if (rich and byte != 34) or self.is_live(onward):
                    found.append((byte, byte, (READ, onward)))
        found += self.leaving(here)
        found.sort(key=lambda move: move[0])
        return merged_rows(found)

    def in_forgotten(self, here: Reading) -> list[tuple[int, int, Local]] | None:
        """The moves within an item in a walk, where few bytes lead on to a value seen; ``None`` where that is not known."""
        if here.rivals is None or len(here.ways) > 1 or not (here.forgotten or self.may_forget(here)):
            return None
        tracked = leading_on(here.text, here.rivals)
        if tracked is None:
            return None
        found: list[tuple[int, int, Local]] = []
        ((counts, need, configuration),) = here.ways
        for low, high, to in self.distinct.automaton(need).moves(configuration):
            ways = frozenset([(counts, need, to)])
            for byte in tracked.intersection(range(low, high + 1)):
                onward = self.onward(here, byte, ways)
                if self.is_live(onward):
                    found.append((byte, byte, (READ, onward)))
            for first, last in apart(low, high, tracked):
                if here.text:
                    text = here.text if here.forgotten else here.text[:1]
                    found.append((first, last, (READ, self.passed(here, text, ways))))
                else:
                    found += [(b, b, (READ, self.onward(here, b, ways))) for b in range(first, last + 1)]
        return found

    def leaving(self, here: Reading) -> list[tuple[int, int, Local]]:
        """The moves after an item that may be at its end."""
        found: dict[int, tuple[int, int, Local]] = {}
        for counts, need, configuration in here.ways:
            if not self.distinct.automaton(need).accepting(configuration):
                continue
            if self.is_good(here, counts, here.text) and not self.is_doubtful(here, here.text):
                for move in self.moves((AFTER, self.after(here, counts, here.text))):
                    found[move[0]] = move
        return list(found.values())

    def reads(self, local: Local) -> bool:
        return bool(local[0] != END)

    def coarse(self, level: int) -> Machine:
        return self.plain.uncounted if level else self

    def final(self, local: Local) -> bool:
        return bool(local[0] == END)

    # ------------------------------------------------------------ walks of a vocabulary

    def passing(self, local: Local) -> Local:
        kind, *rest = local
        if kind in (START, END):
            return local
        if kind != READ:
            return (kind, rest[0]._replace(walks=True), *rest[1:])
        here = rest[0]
        if here.rivals is not None:
            return local
        rivals = frozenset([value for value in here.seen if may_be(here.text, value)])
        if not rivals and self.may_forget(here):
            return (READ, self.passed(here, here.text, here.ways))
        return (READ, here._replace(rivals=rivals))

    def body(self, local: Local) -> LocalBody | None:
        if local[0] != READ or len(local[1].ways) != 1:
            return None
        _, here = self.passing(local)
        ((_, need, configuration),) = here.ways
        found = self.distinct.automaton(need).body(configuration)
        if found is None or found.exceptions or not (here.forgotten or self.may_forget(here)):
            return None
        exceptions: set[int] = set()
        if here.rivals:
            if here.text[:1] != b'"':
                return None
            prefix, _ = beginning(here.text.decode(), 0)
            longer = [value[len(prefix) :] for value in here.rivals if value != prefix]
            exceptions = {first for rest in longer for first in (spelling(rest)[0], 92)}
        return LocalBody(found.letters, found.most, bytes(sorted(exceptions)), found.settled, exact=False)

    def after_letters(self, local: Local, count: int) -> Local:
        if not count:
            return local
        _, here = self.passing(local)
        ((counts, need, configuration),) = here.ways
        body = self.distinct.automaton(need).body(configuration)
        assert body is not None
        text = here.text if here.forgotten else here.text[:1]
        return (READ, self.passed(here, text, [(counts, need, body.after(count))]))

    def view(self, local: Local, reach: int) -> Any:
        if local[0] != READ:
            return local
        here = local[1]
        ways = frozenset(
            (counts, need, self.distinct.automaton(need).view(configuration, reach))
            for counts, need, configuration in here.ways
        )
        if len(here.text) < reach or not self.passing(local)[1].forgotten:
            return (READ, here._replace(ways=ways))
        return (READ, here.n, frozenset([value for value in here.seen if size(value) <= reach]), ways)

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
        if here.forgotten:
            counts, need, configuration = min(
                here.ways, key=lambda way: len(self.distinct.automaton(way[1]).completion(way[2]))
            )
            end = self.distinct.automaton(need).completion(configuration)
            return end + self.completion((AFTER, self.after(here, counts, here.text)))
        found = self._live.get(here) or self.search(here)
        assert found is not None
        for counts, need, configuration in here.ways:
            automaton = self.distinct.automaton(need)
            there: Configuration | None = configuration
            for byte in found:
                there = None if there is None else automaton.step(there, byte)
            text = here.text + found
            if there is not None and automaton.accepting(there) and self.is_good(here, counts, text):
                return found + self.completion((AFTER, self.after(here, counts, text)))
        raise AssertionError("no way to read the item")


def apart(low: int, high: int, bytes_: frozenset[int]) -> Iterator[tuple[int, int]]:
    """The parts of a range that hold none of some bytes."""
    for byte in sorted(bytes_.intersection(range(low, high + 1))):
        if low < byte:
            yield low, byte - 1
        low = byte + 1
    if low <= high:
        yield low, high
