"""The work that one constraint may take. It is counted: an input always passes or never does.

The operations on automata count what they do, and so do the steps of reading a schema. A cached result costs each constraint
what it cost the first time (:func:`metered`), so what was compiled before changes nothing.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakValueDictionary

from ..._core import Account as Units
from ..._core import account as account_in_force
from ..._core import enter, watch
from ..._core import spend as spend
from ...errors import TooManyStates
from .. import limits
from . import request_limits

SIMPLIFYING = limits.WORK / 2
"""Units of work to make an automaton smaller, beyond which it stays as it is."""

P = ParamSpec("P")
R = TypeVar("R")


class Key:
    """What a cached result is paid by: results of equal arguments have one, as long as somebody has it."""

    __slots__ = ("__weakref__",)


Costs = dict[Key, float]
"""Units of work by cached result."""


class Account(Units):
    """The units of work of one construction; operations of the core count in it what they do (``core/work.h``).

    ``limit``: the units it may take. ``outer``: the account that this is a part of. ``spent``: the units taken, without what
    ``outer`` has paid. ``paid``: the cached results that are paid; ``units``: those that the present one has used, with their
    units. ``own``: all other units of the present one.
    """

    def __init__(self, limit: float, outer: Account | None = None) -> None:
        super().__init__(limit)
        self.paid: set[Key] = set() if outer is None else outer.paid.copy()
        self.units = Costs()

    def pay(self, units: Costs) -> None:
        """Add the units of cached results, but for those that are paid. Raises ``TooManyStates`` beyond the limit."""
        fresh = sum([cost for key, cost in units.items() if key not in self.paid])
        self.paid.update(units)
        self.units.update(units)
        self.spent += fresh
        if self.spent > self.limit:
            raise too_much()


watch(request_limits.check)


in_force = cast("Callable[[], Account | None]", account_in_force)
"""Return the account in force in this thread."""


@contextmanager
def limited(units: float | None = None) -> Iterator[None]:
    """Limit the work inside to ``units`` (default: ``limits.WORK``) and to a request's limits; also a decorator.

    Inside another limit this one does nothing: the outer limit counts on. For requests see `request_limits.py`. Python's
    collector of garbage is off inside: hardly any cyclic garbage is made, and it would go through all cached objects again and
    again, for a third of the time.
    """
    if in_force() is not None:
        yield
        return
    request_limits.check()
    collects = gc.isenabled()
    gc.disable()
    try:
        with limited_to(request_limits.allowed_work(limits.WORK if units is None else units)):
            yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def limited_to(units: float, outer: Account | None = None) -> Iterator[Account]:
    """Limit the work inside to ``units``, in a new account; what ``outer`` has paid for is not counted again."""
    account = Account(units, outer)
    before = enter(account)
    try:
        yield account
    finally:
        enter(before)


@contextmanager
def attempt(units: float, share: float = 0.5) -> Iterator[None]:
    """Limit the work inside to ``units``, or to this share of what is left if that is less.

    The units also count outside, but where they do not suffice, the rest is left for another way. Raises ``TooManyStates``.
    """
    outer = in_force()
    left = math.inf if outer is None else outer.limit - outer.spent
    with limited_to(min(units, share * left), outer) as account:
        try:
            yield
        finally:
            if outer is not None:
                outer.own += min(account.spent, account.limit)
                outer.spent += min(account.spent, account.limit)


def at(path: str, error: TooManyStates) -> TooManyStates:
    """Return an error with its place in the constraint: ``path``, if it names none."""
    return error if error.path is not None else TooManyStates(str(error), limit=error.limit, path=path)


def too_much() -> TooManyStates:
    """Return the error of a constraint that takes too much work."""
    return TooManyStates(
        "the constraint takes too much work: bound its lengths and repeats, or combine fewer alternatives",
        limit=limits.WORK,
    )


def metered(maxsize: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache a function like ``lru_cache``, and charge each constraint once for a result's work.

    The work of cached results that it used is charged likewise. Its ``TooManyStates`` are cached too.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        keys = WeakValueDictionary[Any, Key]()

        @lru_cache(maxsize)
        def measured(*args: P.args, **kwargs: P.kwargs) -> tuple[R | TooManyStates, Key, Costs]:
            outer = in_force()
            account = outer or Account(request_limits.allowed_work(limits.WORK))
            result: R | TooManyStates
            own, account.own = account.own, 0.0
            before, account.units = account.units, {}
            if outer is None:
                enter(account)
            try:
                result = function(*args, **kwargs)
            except TooManyStates as error:
                result = error.with_traceback(None)
            finally:
                units, account.units = account.units, before
                cost, account.own = account.own, own
                if outer is None:
                    enter(None)
            if account.spent > account.limit:  # what made do with less as the work ran out is not kept
                raise too_much()
            key = keys.setdefault((args, *kwargs.items()), Key())
            units[key] = cost
            account.paid.add(key)
            account.units.update(units)
            return result, key, units

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            result, key, units = measured(*args, **kwargs)  # type: ignore[arg-type]
            account = in_force()
            if account is not None and key not in account.units:
                account.pay(units)
            if isinstance(result, TooManyStates):
                raise result
            return result

        return call

    return decorate
