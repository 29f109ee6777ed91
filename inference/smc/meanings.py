"""When two texts mean the same: keys for :meth:`Posterior.group_by`, where a particle that has none stands for itself."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from .posterior import Particle

STEPS = 10_000  # of SQLite's machine between two looks at the limit


def json_value(particle: Particle) -> Hashable:
    """The JSON value of the text: spaces, the order of members, and 1 or 1.0 make no difference."""
    try:
        return "json", _frozen(json.loads(particle.text))
    except (ValueError, RecursionError):
        return "text", particle.text


def _frozen(value: Any) -> Hashable:
    if isinstance(value, dict):
        return "object", frozenset((key, _frozen(member)) for key, member in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_frozen, value))
    return type(value) is bool, value  # in Python True == 1


def sql_result(
    connection: sqlite3.Connection, *, ordered: bool = False, max_steps: int = 10_000_000
) -> Callable[[Particle], Hashable]:
    """A key: the rows that the text, a query, returns from the database, in their order or (default) in any.

    Nothing is written: the connection is made read-only for the time of the query. Queries that fail, or take more than
    ``max_steps`` instructions of SQLite, stand for themselves.
    """

    def key(particle: Particle) -> Hashable:
        left = [max_steps // STEPS]

        def tired() -> int:
            left[0] -= 1
            return int(left[0] < 0)

        connection.execute("PRAGMA query_only = ON")
        connection.set_progress_handler(tired, STEPS)
        try:
            rows = connection.execute(particle.text).fetchall()
        except (sqlite3.Error, sqlite3.Warning):
            return "text", particle.text
        finally:
            connection.set_progress_handler(None, 0)
            connection.execute("PRAGMA query_only = OFF")
        return "rows", tuple(rows) if ordered else frozenset(Counter(rows).items())

    return key
