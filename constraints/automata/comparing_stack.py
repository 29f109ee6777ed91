"""Stack automata some of whose machines compare the texts that they call: arrays of distinct items.

The texts are recorded beside the stack, so that the stacks, and their masks, are those of the automaton without comparisons.

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
MOST_KEPT = 1 << 14  # readings of which it is kept whether they can be completed
Values = frozenset[Hashable]


class Comparing(Protocol):
    """A machine that calls others in turn, each for an item, and compares the items."""

    def value(self, text: bytes) -> Hashable:
        """The value of an item with this text; items are distinct if their values are."""

    def towards(self, text: bytes, value: Hashable) -> bytes | None:
        """Bytes among which are all those with which an item goes on towards a value; ``None`` if it cannot become that."""

    def ending(self, local: Local, seen: Values) -> bytes | None:
        """A text from a local state to the end, after items of some values; ``None`` if there is none."""

    def may_end(self, local: Local) -> bool:
        """Whether no further item is needed, whatever items there were."""


class Record(NamedTuple):
    """The record of one open comparing machine: the frames below it, the values of its items, the text of the item that is
    being read (``None`` between items), and the values that this item may still equal."""

    depth: int
    seen: Values
    text: bytes | None
    rivals: Values


Records = tuple[Record, ...]
Reading = tuple[Stack, Records]


class Readings(frozenset[Reading]):
    """The ways to understand a text so far."""


class RecordingAutomaton:
    """The texts of a stack automaton that its comparing machines allow."""

    def __init__(self, plain: StackAutomaton) -> None:
        self.plain = plain
        self._completions: dict[Reading, bytes | None] = {}

    # ------------------------------------------------------------ configurations

    def configuration(self, readings: Iterable[Reading]) -> Configuration | None:
        """Some readings as a configuration, those that cannot be completed left out; ``None`` if none is left."""
        live = [reading for reading in readings if self.is_live(reading)]
        if any(records for _, records in live):
            return Readings(live)
        return plain_configuration([stack for stack, _ in live])

    def readings(self, configuration: Configuration) -> Iterable[Reading]:
        """The readings of a configuration."""
        if isinstance(configuration, Readings):
            return configuration
        return [(stack, opened(stack, ())) for stack in stacks_of(configuration)]

    def after(self, reading: Reading, byte: int) -> Iterator[Reading]:
        """The readings after one byte, before it is known whether they can be completed."""
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
        """The readings after a text, of which some may not be completed."""
        now = set(readings)
        for byte in text:
            now = {after for reading in now for after in self.after(reading, byte)}
        return now

    # ------------------------------------------------------------ the lazy automaton

    def start(self) -> Configuration | None:
        first = self.plain.start()
        return None if first is None else self.configuration(self.readings(first))

    def step(self, configuration: Configuration, byte: int) -> Configuration | None:
        """The configuration after one byte, ``None`` if it may not come."""
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

    def body(self, configuration: Configuration) -> Body | None:
        return None if isinstance(configuration, Readings) else self.plain.body(configuration)

    def view(self, configuration: Configuration, reach: int) -> Hashable:
        return configuration if isinstance(configuration, Readings) else self.plain.view(configuration, reach)

    # ------------------------------------------------------------ what can be completed

    def is_free(self, reading: Reading) -> bool:
        """Whether comparisons cannot matter for the shortest text from here to acceptance."""
        stack, records = reading
        return all(
            not record.rivals and frame.machine.may_end(frame.local)
            for record, frame in zip(records, frames(stack), strict=True)
        )

    def is_live(self, reading: Reading) -> bool:
        """Whether some text leads to acceptance."""
        return self.is_free(reading) or self.completed(reading) is not None

    def completed(self, reading: Reading) -> bytes | None:
        """A short text from a reading to acceptance, ``None`` if there is none."""
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
            if at and frame is known[at - 1]:
                at -= 1
                rest = self._end(records[at], frame, out)
                if rest is None:
                    return self._other(reading, at)
            else:
                rest = frame.machine.completion(frame.local)
            out += rest
            frame = frame.parent
        return out

    def _end(self, record: Record, frame: Stack, item: bytes) -> bytes | None:
        """The end of a machine's text, after the rest of the item that is being read."""
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
        """A text by another end of the item than the shortest, found by a search; ``at``: the record of the machine."""
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
    """The frames of a stack that compare, the lowest first."""
    found = []
    frame: Stack | None = stack
    while frame is not None and frame.recorded:
        if frame.recorded[-1] == frame.depth:
            found.append(frame)
        frame = frame.parent
    return found[::-1]


def is_recorded(configuration: Configuration) -> bool:
    """Whether a comparing machine is open in a configuration of a stack automaton."""
    return any(stack.recorded for stack in stacks_of(configuration))


def plain_configuration(stacks: Iterable[Stack]) -> Configuration | None:
    """Stacks as a configuration of the stack automaton."""
    found = frozenset(stacks)
    return None if not found else next(iter(found)) if len(found) == 1 else found


def plain_part(configuration: Configuration) -> Configuration:
    """The configuration of the stack automaton."""
    if isinstance(configuration, Readings):
        return plain_configuration([stack for stack, _ in configuration])
    return configuration


def ended(top: Stack, records: Iterable[Record]) -> list[Record] | None:
    """The records when a frame reads the next byte: the item above it has ended. ``None`` if that was seen before."""
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
    """A record after a byte that a frame reads."""
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
    """The records of the machines that are open in a stack."""
    if len(stack.recorded) == len(records) and (not records or records[-1].depth == stack.recorded[-1]):
        return tuple(records)
    known = {record.depth: record for record in records}
    new = Record(0, frozenset(), None, frozenset())
    return tuple([known.get(depth) or new._replace(depth=depth) for depth in stack.recorded])
