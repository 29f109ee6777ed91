"""How much work one schema may take. It is counted, not timed: a schema is always refused or never."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ...errors import TooManyStates

_spent: ContextVar[list[int] | None] = ContextVar("spent", default=None)


@contextmanager
def limited_to(units: int) -> Iterator[None]:
    """Let what is done inside spend so many units; a unit is about a microsecond."""
    token = _spent.set([0, units])
    try:
        yield
    finally:
        _spent.reset(token)


def spend(units: int) -> None:
    """Count work, whether or not a cache spares it. Raises ``TooManyStates``."""
    account = _spent.get()
    if account is not None:
        account[0] += units
        if account[0] > account[1]:
            raise TooManyStates(
                "the schema takes too much work: bound its lengths and numbers of items, or combine fewer alternatives",
                limit=account[1],
            )


def spent() -> int:
    """The units that are spent so far."""
    account = _spent.get()
    return account[0] if account is not None else 0
