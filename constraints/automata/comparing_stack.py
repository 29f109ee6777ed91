"""Stack automata with machines that compare what they call: arrays of distinct items.

Item texts are recorded beside the stack, so stacks and their masks are those of the automaton without comparisons.

    configuration  =  a configuration of the stack automaton             where no comparing machine is open
                   |  a set of readings: (stack, a record for each open comparing machine)
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from .. import limits
from .lazy import Body, Configuration, Move, Moves
from .region import Local
from .stack import Stack, StackAutomaton, stacks_of

LOG = logging.getLogger("tractile.constraints")
MOST_KEPT = 1 << 14  # readings whose completion is cached
Values = frozenset[Hashable]


class Comparing(Protocol):
    """A machine that calls others in turn, each for an item, and compares the items."""

    def value(self, text: bytes) -> Hashable:
        """Return the value of an item with this text; two items are equal if their values are."""

    def towards(self, text: bytes, value: Hashable) -> bytes | None:
        """Return a superset of the bytes that may continue an item towards a value.
        ``None`` if the item cannot get that value."""

    def ending(self, local: Local, seen: Values) -> bytes | None:
        """Return a text from a local state to the end; ``seen`` are the values of the items so far.
        ``None`` if there is none."""

    def may_end(self, local: Local) -> bool:
        """Return whether no further item is needed, whatever the items so far."""


class Record(NamedTuple):
    """The record of one open comparing machine.

    ``depth``: the number of frames below the machine. ``seen``: the values of its complete items. ``text``: the bytes of the
    current item so far, ``None`` between items. ``rivals``: the values in ``seen`` that the current item may still get.
    """

    depth: int
    seen: Values
    text: bytes | None
    rivals: Values


Records = tuple[Record, ...]
Reading = tuple[Stack, Records]


class Readings(frozenset[Reading]):
    """A configuration with records: parses of the text so far, each a stack with its records."""


class RecordingAutomaton:
    """The lazy automaton of the texts of a stack automaton that its comparing machines allow."""

    def __init__(self, plain: StackAutomaton) -> None:
        self.plain = plain
        self._completions: dict[Reading, bytes | None] = {}

    # ------------------------------------------------------------ configurations

    def configuration(self, readings: Iterable[Reading]) -> Configuration | None:
        """Return a configuration of the readings that can be completed; ``None`` if none can."""
        live = [reading for reading in readings if self.is_live(reading)]
        if any(records for _, records in live):
            return Readings(live)
        return plain_configuration([stack for stack, _ in live])

    def readings(self, configuration: Configuration) -> Iterable[Reading]:
        """Return the readings of a configuration."""
        if isinstance(configuration, Readings):
            return configuration
        return [(stack, opened(stack, ())) for stack in stacks_of(configuration)]

    def after(self, reading: Reading, byte: int) -> Iterator[Reading]:
        """Yield the readings after one byte, without a check that they can be completed."""
        stack, records = reading
        tops, _ = self.plain.active(stack)
        for top in tops:
            local = top.machine.step(top.local, byte)
            if local is None:
                continue
            kept = ended(top, records)
            if kept is not None:
                target = self.plain.stack(top.machine, local, top.parent)
                yield target, opened(target, [read(top, record, byte) for record in kept])

    def all_after(self, readings: Iterable[Reading], text: bytes) -> set[Reading]:
        """Return the readings after a text, without a check that they can be completed."""
        now = set(readings)
        for byte in text:
            now = {after for reading in now for after in self.after(reading, byte)}
        return now

    # ------------------------------------------------------------ the lazy automaton

    def start(self) -> Configuration | None:
        first = self.plain.start()
        return None if first is None else self.configuration(self.readings(first))

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """Return the configuration after one byte, ``None`` if it may not come."""
        if not isinstance(configuration, Readings):
            after = self.plain.step(configuration, byte)
            if after is None or not is_recorded(after):
                return after
        readings = self.readings(configuration)
        return self.configuration({after for reading in readings for after in self.after(reading, byte)})

    def moves(self, configuration: Configuration) -> Moves:
        plain = self.plain.moves(plain_part(configuration))
        if not isinstance(configuration, Readings) and not any(is_recorded(move.target) for move in plain):
            return plain
        found: list[Move] = []
        for byte in (byte for low, high, _ in plain for byte in range(low, high + 1)):
            target = self.step(configuration, byte)
            if target is None:
                continue
            if found and found[-1].high == byte - 1 and found[-1].target == target:
                found[-1] = Move(found[-1].low, byte, target)
            else:
                found.append(Move(byte, byte, target))
        return tuple(found)

    def accepting(self, configuration: Configuration) -> bool:
        return self.plain.accepting(plain_part(configuration))

    def completion(self, configuration: Configuration) -> bytes:
        return min(self.completions(configuration), key=len)

    def completions(self, configuration: Configuration) -> Sequence[bytes]:
        if not isinstance(configuration, Readings):
            return self.plain.completions(configuration)
        return [text for reading in configuration if (text := self.completed(reading)) is not None]

    def completion_size(self, readings: Iterable[Reading]) -> int:
        """Return the bytes of a short text from some of these readings to acceptance; 0 if nothing is recorded."""
        if not any(records for _, records in readings):
            return 0
        return min([len(text) for each in readings if (text := self.completed(each)) is not None])

    def body(self, configuration: Configuration) -> Body | None:
        return None if isinstance(configuration, Readings) else self.plain.body(configuration)

    def view(self, configuration: Configuration, reach: int) -> Hashable:
        return configuration if isinstance(configuration, Readings) else self.plain.view(configuration, reach)

    # ------------------------------------------------------------ what can be completed

    def is_free(self, reading: Reading) -> bool:
        """Return whether comparisons cannot affect the shortest text from here to acceptance."""
        stack, records = reading
        return all(
            not record.rivals and frame.machine.may_end(frame.local)
            for record, frame in zip(records, frames(stack), strict=True)
        )

    def is_live(self, reading: Reading) -> bool:
        """Return whether a text to acceptance is found."""
        return self.is_free(reading) or self.completed(reading) is not None

    def completed(self, reading: Reading) -> bytes | None:
        """Return a short text from a reading to acceptance (cached), ``None`` if none is found."""
        if reading not in self._completions:
            if len(self._completions) >= MOST_KEPT:
                self._completions.clear()
            self._completions[reading] = self._completed(reading)
        return self._completions[reading]

    def _completed(self, reading: Reading) -> bytes | None:
        stack, records = reading
        out, at, known = b"", len(records), frames(stack)
        frame: Stack | None = stack
        while frame is not None:
            rest: bytes | None
            if not at:
                return out + self.plain._completion(frame)
            if frame is known[at - 1]:
                at -= 1
                rest = self._end(records[at], frame, out)
                if rest is None:
                    return self._other(reading, at)
            else:
                rest = self.plain.own_completion(frame)
            out += rest
            frame = frame.parent
        return out

    def _end(self, record: Record, frame: Stack, item: bytes) -> bytes | None:
        """Return the end of a comparing machine's text, given the rest of its current item.
        ``None`` if that item repeats an earlier one, or the machine has no end."""
        machine: Any = frame.machine
        seen = record.seen
        if record.text is not None:
            value = machine.value(record.text + item)
            if value in seen:
                return None
            seen |= {value}
        found: bytes | None = machine.ending(frame.local, seen)
        return found

    def _other(self, reading: Reading, at: int) -> bytes | None:
        """Search for a text to acceptance with another end of the item of record ``at``."""
        stack, records = reading
        if records[at].text is None:
            return None
        depth, count = records[at].depth, 0
        below = frames(stack)[at]
        fixed = len(self.plain._completion(below))
        heap: list[tuple[int, int, int, bytes, Reading]] = [(0, 0, 0, b"", reading)]
        while heap and count < 4 * limits.POSITIONS:
            *_, text, here = heapq.heappop(heap)
            if below in self.plain.reached(here[0]):
                done = ended(below, here[1])
                end = None if done is None else self.completed((below, opened(below, done)))
                if end is not None:
                    return text + end
            for top in self.plain.active(here[0])[0]:
                if top.depth <= depth:
                    continue
                for low, high, _ in top.machine.moves(top.local):
                    for byte in range(low, high + 1):
                        for after in self.after(here, byte):
                            if after[0].depth >= depth:
                                count += 1
                                size = len(text) + 1
                                left = len(self.plain._completion(after[0])) - fixed
                                heapq.heappush(heap, (size + left, -size, count, text + bytes([byte]), after))
        if heap:
            LOG.warning(
                "an item that must differ from others is taken for impossible: no other end was found in %d bytes tried",
                4 * limits.POSITIONS,
            )
        return None


def frames(stack: Stack) -> list[Any]:
    """Return the frames of a stack that compare, the lowest first."""
    found = []
    frame: Stack | None = stack
    while frame is not None and frame.recorded:
        if frame.recorded[-1] == frame.depth:
            found.append(frame)
        frame = frame.parent
    return found[::-1]


def is_recorded(configuration: Configuration) -> bool:
    """Return whether a comparing machine is open in a configuration of a stack automaton."""
    return any(stack.recorded for stack in stacks_of(configuration))


def plain_configuration(stacks: Iterable[Stack]) -> Configuration | None:
    """Return stacks as a configuration of the stack automaton, ``None`` if there are none."""
    found = frozenset(stacks)
    return None if not found else next(iter(found)) if len(found) == 1 else found


def plain_part(configuration: Configuration) -> Configuration:
    """Return a configuration of the stack automaton: a configuration without its records."""
    if isinstance(configuration, Readings):
        return plain_configuration([stack for stack, _ in configuration])
    return configuration


def ended(top: Stack, records: Iterable[Record]) -> list[Record] | None:
    """Return the records after ``top`` has read on, which ends the item above it.
    ``None`` if that item repeats an earlier one."""
    found = []
    for record in records:
        if record.depth == top.depth and record.text is not None:
            machine: Any = top.machine
            value = machine.value(record.text)
            if value in record.seen:
                return None
            record = Record(record.depth, record.seen | {value}, None, frozenset())
        found.append(record)
    return found


def read(top: Stack, record: Record, byte: int) -> Record:
    """Return a record after frame ``top`` has read a byte.
    The byte belongs to the current item if ``top`` is above the comparing machine."""
    if record.depth >= top.depth:
        return record
    rivals, text = record.rivals, (record.text or b"") + bytes([byte])
    if record.text is None:
        rivals = record.seen
    if rivals:
        frame: Any = top
        while frame.depth > record.depth:
            frame = frame.parent
        towards = frame.machine.towards
        rivals = frozenset([value for value in rivals if towards(text, value) is not None])
    return Record(record.depth, record.seen, text, rivals)


def opened(stack: Stack, records: Sequence[Record]) -> Records:
    """Return the records of the open machines of a stack, empty ones for those just begun."""
    if len(stack.recorded) == len(records) and (not records or records[-1].depth == stack.recorded[-1]):
        return tuple(records)
    known = {record.depth: record for record in records}
    new = Record(0, frozenset(), None, frozenset())
    return tuple([known.get(depth) or new._replace(depth=depth) for depth in stack.recorded])
