"""Keys by meaning for :meth:`Posterior.group_by`: equal for equivalent texts; a text without a meaning is its own key."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from .posterior import Particle

STEPS = 10_000  # SQLite instructions between two checks of the limit
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


def json_value(particle: Particle) -> Hashable:
    """Return a key for the JSON value of a text: white space, member order, and 1 or 1.0 make no difference.

    Examples
    --------
    >>> from tractile.inference.smc import Particle, json_value
    >>> one, two = (Particle((), text, 0.5, 0.0, 0.0) for text in ('{"a": 1, "b": 2}', '{"b":2,"a":1.0}'))
    >>> json_value(one) == json_value(two)
    True
    """
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
    """Return a key function by execution: the rows that a text, an SQL query, returns, in any order or (``ordered``) in theirs.

    A query may only read: no changes, files, settings or transactions. To enforce this the key sets the connection's authorizer
    and progress handler, and removes both afterwards. A text that is no query, fails, or takes more than ``max_steps`` SQLite
    instructions is its own key.

    Examples
    --------
    >>> import sqlite3
    >>> from tractile.inference.smc import Particle, sql_result
    >>> connection = sqlite3.connect(":memory:")
    >>> key = sql_result(connection)
    >>> one, two = (Particle((), text, 0.5, 0.0, 0.0) for text in ("SELECT 1 + 1", "SELECT 2"))
    >>> key(one) == key(two)
    True
    >>> connection.close()
    """

    def reads(action: int, *what: str | None) -> int:
        return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY

    def key(particle: Particle) -> Hashable:
        left = [max_steps // STEPS]

        def tired() -> int:
            left[0] -= 1
            return int(left[0] < 0)

        connection.set_authorizer(reads)
        connection.set_progress_handler(tired, STEPS)
        try:
            cursor = connection.execute(particle.text)
            rows = cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning, ValueError):  # ValueError: characters that are not Unicode's
            return "text", particle.text
        finally:
            connection.set_progress_handler(None, 0)
            connection.set_authorizer(None)
        if cursor.description is None:  # nothing but space and comments
            return "text", particle.text
        return "rows", tuple(rows) if ordered else frozenset(Counter(rows).items())

    return key
