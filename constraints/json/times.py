"""Times of RFC 3339 as machines: the second 60 is allowed only if the time is 23:59:60 in UTC.

    (DATE, state)              the date and T, by a finite automaton
    (CLOCK, i, value)          i bytes of hh:mm:ss are read; value: the first digit, the hour, its tens of minutes, then
                               the minutes by which the time is ahead of 23:59, modulo a day
    (REST, state)              the second is not 60: fraction and offset, by a finite automaton
    (LEAP, minutes, place)     the second is 60; place: 0 after it, 1 after the point, 2 after a digit of the fraction
    (OFFSET, text)             the rest of the offset, which the time determines: + by ``minutes``, or − by a day less these

A finite automaton would have to remember which of 1,440 minutes of the day a leap second has: it takes some 12,000 states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..automata.epsilon import NO_EPSILONS
from ..automata.machines import DfaMachine
from ..automata.nfa import Nfa, trim
from ..automata.region import Local, LocalBody, Region

DATE, CLOCK, REST, LEAP, OFFSET = range(5)
SHAPE = b"00:00:00"
DAY, LAST = 24 * 60, 23 * 60 + 59
Moves = list[tuple[int, int, Local]]


def digit(low: int, high: int, local: Local) -> tuple[int, int, Local]:
    """Return a move by the digits ``low`` to ``high``."""
    return (48 + low, 48 + high, local)


def offset(minutes: int) -> bytes:
    """Return minutes as ``hh:mm``."""
    return b"%02d:%02d" % divmod(minutes, 60)


class TimeText(Region):
    """The times of RFC 3339, after a date if ``date`` is given.
    ``zone``: the fractions and offsets of times."""

    def __init__(self, date: Nfa | None, zone: Nfa) -> None:
        self.date, self.zone = None if date is None else DfaMachine(date), DfaMachine(zone)
        self.longest = 20

    def start(self) -> Local:
        return (CLOCK, 0, 0) if self.date is None else (DATE, self.date.start())

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        kind, *rest = local
        if kind == DATE:
            assert self.date is not None
            return [
                (low, high, (CLOCK, 0, 0) if self.date.final(to) else (DATE, to))
                for low, high, to in self.date.moves(rest[0])
            ]
        if kind == CLOCK:
            return self.in_clock(*rest)
        if kind == REST:
            return [(low, high, (REST, to)) for low, high, to in self.zone.moves(rest[0])]
        if kind == LEAP:
            return self.after_sixty(*rest)
        (text,) = rest
        return [(text[0], text[0], (OFFSET, text[1:]))] if text else []

    def in_clock(self, i: int, value: int) -> Moves:
        """Return the moves within hours, minutes and seconds."""
        if i in (2, 5):
            return [(58, 58, (CLOCK, i + 1, value))]
        if i == 6:
            seconds = [(48, 53, (CLOCK, 7, -1)), (54, 54, (CLOCK, 7, value))]
            return seconds
        if i == 7:
            if value < 0:
                return [(48, 57, (REST, self.zone.start()))]
            return [(48, 48, (LEAP, value, 0))]
        most = (2, 3 if value == 2 else 9, 0, 5, 9)[i]
        scale = (0, 10, 0, 6, 10)[i]
        found = [(i + 1, scale * value + n) for n in range(most + 1)]
        if i == 4:
            found = [(5, (minutes - LAST) % DAY) for _, minutes in found]
        return [digit(n, n, (CLOCK, *to)) for n, to in enumerate(found)]

    def after_sixty(self, minutes: int, place: int) -> Moves:
        """Return the moves after the second 60."""
        fraction: Moves = [(48, 57, (LEAP, minutes, 2))]
        if place == 1:
            return fraction
        ahead, behind = offset(minutes), offset(-minutes % DAY)
        found: Moves = [(43, 43, (OFFSET, ahead)), (45, 45, (OFFSET, behind))]
        found += fraction if place else [(46, 46, (LEAP, minutes, 1))]
        if not minutes:
            found += [(90, 90, (OFFSET, b"")), (122, 122, (OFFSET, b""))]
        return found

    def automaton(self) -> Nfa:
        """Return the times as a finite automaton."""
        number, edges = {self.start(): 0}, list[tuple[int, int, int, int]]()
        found = list(number)
        for local in found:
            for low, high, to in self.moves(local):
                if to not in number:
                    number[to] = len(found)
                    found.append(to)
                edges.append((number[local], low, high, number[to]))
        accept = [i for i, local in enumerate(found) if self.final(local)]
        return trim(Nfa(len(found), np.array(edges), NO_EPSILONS, np.zeros(1, np.int64), np.array(accept)))

    def final(self, local: Local) -> bool:
        return bool(self.zone.final(local[1]) if local[0] == REST else local == (OFFSET, b""))

    def completion(self, local: Local) -> bytes:
        kind, *rest = local
        if kind == DATE:
            assert self.date is not None
            return self.date.completion(rest[0]) + SHAPE + b"Z"
        if kind == CLOCK and (rest[0] < 7 or rest[1] < 0):
            return SHAPE[rest[0] :] + b"Z"
        if kind == REST:
            return self.zone.completion(rest[0])
        if kind == OFFSET:
            return bytes(rest[0])
        minutes, place = (rest[1], 1) if kind == CLOCK else rest
        return b"0" * (place == 1) + (b"+" + offset(minutes) if minutes else b"Z")

    def body(self, local: Local) -> LocalBody | None:
        return None

    def short(self, local: Local, prefixes: Any, reach: int) -> Any:
        if local[0] != CLOCK or local[1] in (0, 1):
            return local
        return (CLOCK, local[1], local[1] == 7 and local[2] < 0)

    def covers(self, origin: Local, local: Local) -> bool:
        return bool(origin[0] != CLOCK or local[0] != LEAP)
