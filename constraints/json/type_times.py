"""The texts of dates, times and durations of a type, within its bounds, as schemas.

    date             all days from year 1 on; bounds by comparing digits
    time, datetime   without leap seconds; with a zone, without one, or either, as the type asks
    timedelta        durations of ISO 8601 of at most 99,999 years; within bounds weeks, days, hours, minutes or seconds alone

Bounds of times are followed to the second. A bound of a zone is one of UTC, and texts within it are in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from .formats import DATE
from .type_marks import Schema, differing, refused
from .type_ranges import between, whole
from .type_texts import matching

DURATION = (
    r"[+-]?P(?:[0-9]{1,7}W|(?:[0-9]{1,5}Y)?(?:[0-9]{1,6}M)?(?:[0-9]{1,8}D)?"
    r"(?:T(?:[0-9]{1,5}H)?(?:[0-9]{1,7}M)?(?:[0-9]{1,8}(?:\.[0-9]{1,6})?S)?)?)"
)
"""To be met with :data:`SOME_PART`."""
SOME_PART = r"[0-9][WYMDHS]$"
YEAR = r"^(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-"
CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
FRACTION = r"(?:\.[0-9]{1,6})?"
OFFSET = r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
UNITS = {"W": 604_800, "D": 86_400, "TH": 3_600, "TM": 60, "TS": 1}
"""The units of a duration, in seconds."""
MOST_OF_UNIT = {"W": 9_999_999, "D": 99_999_999, "TH": 99_999, "TM": 9_999_999, "TS": 99_999_999}
"""By unit: the most of it."""
BOUNDS = ("ge", "gt", "le", "lt")


def bounds(schema: Any) -> tuple[Any, bool, Any, bool]:
    """Return the lower bound of a core schema, whether it is strict, and the same of the upper one (``None``: no bound)."""
    low = max(
        ((schema[key], key == "gt") for key in ("ge", "gt") if schema.get(key) is not None),
        default=(None, False),
    )
    upper = [(schema[key], key == "lt") for key in ("le", "lt") if schema.get(key) is not None]
    high = min(upper, key=lambda b: (b[0], not b[1]), default=(None, False))
    return (*low, *high)


NONE: list[Schema] = [{"not": {}}]


# ---------------------------------------------------------------- dates and times


def dates(schema: Any, now: Callable[[], datetime] = datetime.now) -> Schema:
    """Return the schema of a ``date`` with its bounds."""
    low, over, high, under = bounds(schema)
    found: Schema = {"type": "string", "format": "date", "pattern": YEAR}
    ends: list[Schema] = []
    if (over and low == date.max) or (under and high == date.min):
        return {**found, "allOf": NONE}
    low = low + timedelta(days=over) if low is not None else None
    high = high - timedelta(days=under) if high is not None else None
    today, operation = now().date(), schema.get("now_op")
    if operation == "past":
        high = min(filter(None, (high, today - timedelta(days=2))))
        found = moving(found, "dates in the past", f"dates until {high}")
    elif operation == "future":
        low = max(filter(None, (low, today + timedelta(days=2))))
        found = moving(found, "dates in the future", f"dates from {low} on")
    ends = between(low and low.isoformat(), high and high.isoformat())
    return {**found, "allOf": ends} if ends else found


def moving(schema: Schema, asked: str, given: str) -> Schema:
    """Return a schema with the mark of a bound that moves with the clock."""
    why = "the bound is that of the time at which the constraint is made, with some room; make it again when days have passed"
    return differing(schema, "format", asked, given, why)


def times(schema: Any) -> Schema:
    """Return the schema of a ``time`` with its bounds."""
    return clock(CLOCK, schema, lambda t: str(t.strftime("%H:%M:%S")))


def datetimes(schema: Any, now: Callable[..., datetime] = datetime.now) -> Schema:
    """Return the schema of a ``datetime`` with its bounds."""
    operation, schema = schema.get("now_op"), dict(schema)
    bound = now(UTC) + (timedelta(days=1) if operation == "future" else -timedelta(minutes=1))
    if operation == "past":
        schema["le"] = min(schema.get("le", bound), bound, key=as_utc)
    elif operation == "future":
        schema["ge"] = max(schema.get("ge", bound), bound, key=as_utc)
    found = clock(
        f"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt]{CLOCK}", schema, lambda t: t.isoformat("T", "seconds")
    )
    found["allOf"] = [*found.get("allOf", []), {"pattern": YEAR}, {"pattern": DAY_OF_MONTH}]
    if operation:
        side = "until" if operation == "past" else "from"
        found = moving(found, f"times in the {operation}", f"times in UTC, {side} {bound:%Y-%m-%d %H:%M}")
    return found


DAY_OF_MONTH = f"^{DATE}"


def as_utc(value: datetime) -> datetime:
    """Return a time with a zone; one without is read as that of UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def clock(pattern: str, schema: Any, digits: Callable[[Any], str]) -> Schema:
    """Return the schema of times: their zone by ``tz_constraint`` and by bounds, their bounds by the ``digits`` of a time."""
    zones, given = schema.get("tz_constraint"), [schema[key] for key in BOUNDS if schema.get(key) is not None]
    if isinstance(zones, int):
        return refused("times of one offset from UTC are not written; take AwareDatetime")
    if not given:
        offset = OFFSET if zones == "aware" else "" if zones == "naive" else f"{OFFSET}?"
        return matching(f"{pattern}{FRACTION}{offset}")
    offset = "Z" if zones == "aware" or (not zones and any(b.tzinfo for b in given)) else ""
    what = f"whole seconds {'in UTC, written Z' if offset else 'without a zone'}"
    why = "fractions of a second and other zones are not compared"
    found = differing(matching(f"{pattern}{offset}"), "format", "all times within the bounds", what, why)
    return {**found, "allOf": within(schema, digits)}


def within(schema: Any, digits: Callable[[Any], str]) -> list[Schema]:
    """Return schemas to be met by a time in whole seconds within the bounds of a core schema."""
    low, over, high, under = bounds({k: in_utc(v) for k, v in schema.items() if k in BOUNDS})
    found: list[Schema] = []
    if low is not None:
        found += between(digits(low), None)
        if over or low.microsecond:
            found.append({"not": {"pattern": f"^{digits(low)}"}})
    if high is not None:
        found += between(None, digits(high))
        if under and not high.microsecond:
            found.append({"not": {"pattern": f"^{digits(high)}"}})
    return found


def in_utc(value: Any) -> Any:
    """Return a time with a zone as that of UTC, without the zone; others stay."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, time) and value.tzinfo:
        offset = value.utcoffset() or timedelta(0)
        moved = datetime.combine(date(2000, 1, 2), value.replace(tzinfo=None)) - offset
        day = moved.date() - date(2000, 1, 2)
        return moved.time() if not day else time.max if day.days > 0 else time.min
    return value


# ---------------------------------------------------------------- durations


def durations(schema: Any) -> Schema:
    """Return the schema of a ``timedelta`` with its bounds."""
    low, over, high, under = bounds(schema)
    if low is None and high is None:
        return {**matching(DURATION), "allOf": [{"pattern": SOME_PART}]}
    ways = []
    for unit, seconds in UNITS.items():
        least, most = (None if b is None else b / timedelta(seconds=seconds) for b in (low, high))
        furthest = MOST_OF_UNIT[unit]
        bottom = -furthest if least is None else math.floor(least) + 1 if over else math.ceil(least)
        top = furthest if most is None else math.ceil(most) - 1 if under else math.floor(most)
        bottom, top = max(bottom, -furthest), min(top, furthest)
        time_, letter = ("T" if len(unit) > 1 else ""), unit[-1]
        if top >= max(bottom, 0):
            ways.append(f"P{time_}{whole(max(bottom, 0), top)}{letter}")
        if bottom < 0 and min(top, -1) >= bottom:
            ways.append(f"-P{time_}{whole(-min(top, -1), -bottom)}{letter}")
    given = "whole weeks, days, hours, minutes or seconds"
    found = matching("|".join(ways) or "[]")
    return differing(
        found,
        "format",
        "all durations within the bounds",
        given,
        "durations of several units are not compared",
    )
