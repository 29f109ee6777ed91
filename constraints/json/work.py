"""How much work one schema may take. It is counted, not timed: a schema is always refused or never."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ...errors import TooManyStates


@dataclass
class Account:
    """The units spent, how many there are, and the keys of what is paid for once."""

    spent: int
    limit: int
    paid: set[Hashable] = field(default_factory=set)


_account: ContextVar[Account | None] = ContextVar("account", default=None)


@contextmanager
def limited_to(units: int) -> Iterator[None]:
    """Let what is done inside spend so many units; a unit is about a microsecond."""
    token = _account.set(Account(0, units))
    try:
        yield
    finally:
        _account.reset(token)


@contextmanager
def at(path: str) -> Iterator[None]:
    """Name the place in the schema in a ``TooManyStates`` that does not name one yet."""
    try:
        yield
    except TooManyStates as error:
        if error.path is not None:
            raise
        raise TooManyStates(str(error), limit=error.limit, path=path) from None


def spend(units: int, once: Hashable = None) -> None:
    """Count work, whether or not a cache spares it; work with a key ``once`` is counted the first time that the schema
    asks for it. Raises ``TooManyStates``."""
    account = _account.get()
    if account is None or once in account.paid:
        return
    if once is not None:
        account.paid.add(once)
    account.spent += units
    if account.spent > account.limit:
        raise TooManyStates(
            "the schema takes too much work: bound its lengths and numbers of items, or combine fewer alternatives",
            limit=account.limit,
        )


def spent() -> int:
    """The units that are spent so far."""
    account = _account.get()
    return account.spent if account is not None else 0
