"""Limits on one request's constraints: work, seconds and bytes, and a way to stop them.

Constructions are stopped where they count their work (`work.py`). Work is counted, so the same constraint always meets that
limit or never does; seconds depend on the machine and are a last resort.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

from ...errors import ConstructionStopped, TooManyStates, UnsupportedConstraint
from .. import limits

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """What the constraints of one request may take while they are built, compiled and used.

    ``work``: at most this many units (about a microsecond each) for one constraint; the default is also the ceiling
    (`constraints/limits.py`). One call of :meth:`run` may take as many again to find out what fits token budgets, in ``start``
    and in masks. ``seconds``: wall-clock time of one call of :meth:`run`. ``bytes``: length of the text that
    describes the constraint, checked by :meth:`check_size` and in serving. The defaults are meant for constraints from
    strangers. Raises ``UnsupportedConstraint`` for limits that are not positive numbers.

    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b"], eos_token_id=0)
    >>> fa = tt.constraints.Limits(seconds=5).run(lambda: tt.constraints.regex("[ab]{2}").compile(vocab))
    >>> fa.accepts_tokens([1, 2, 0])
    True
    >>> try:
    ...     tt.constraints.Limits(work=100).run(lambda: tt.constraints.regex("(a|b)*a(a|b){12}"))
    ... except tt.errors.TooManyStates as error:
    ...     print(error)
    the constraint takes too much work: bound its lengths and repeats, or combine fewer alternatives
    """

    work: float = limits.WORK
    seconds: float = 10.0
    bytes: int = limits.LENGTH

    def __post_init__(self) -> None:
        for name in ("work", "seconds", "bytes"):
            value = getattr(self, name)
            if (
                not isinstance(value, int | float)
                or isinstance(value, bool)
                or not (isfinite(value) and value > 0)
            ):
                raise UnsupportedConstraint(
                    f"a positive number is needed, not {value!r}", path=f"Limits: {name}"
                )

    def check_size(self, text: str) -> None:
        """Raise ``UnsupportedConstraint`` if the text has more than ``bytes`` bytes in UTF-8."""
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > self.bytes:
            raise UnsupportedConstraint(
                f"the constraint is described by {size:,} bytes, {self.bytes:,} are allowed"
            )

    def run(self, make: Callable[[], T], stop: threading.Event | None = None) -> T:
        """Return what ``make`` returns, within these limits; another thread may ``stop`` it.

        Limits around these stay in force. Raises ``TooManyStates`` if the work runs out, ``ConstructionStopped`` if the seconds
        run out or ``stop`` is set, and what ``make`` raises.
        """
        with self._applied(stop):
            return make()

    async def run_async(self, make: Callable[[], T]) -> T:
        """Call :meth:`run` in a worker thread; cancelling the task stops it."""
        stop = threading.Event()
        try:
            return await asyncio.to_thread(self.run, make, stop)
        finally:
            stop.set()

    @contextmanager
    def _applied(self, stop: threading.Event | None) -> Iterator[None]:
        token = _current.set(_Running(self, stop, _current.get(), time.monotonic()))
        try:
            yield
        finally:
            _current.reset(token)


@dataclass
class _Running:
    """Limits in force, since when, the limits around them, and the units of work that searches have taken."""

    limits: Limits
    stop: threading.Event | None
    outer: _Running | None
    began: float
    searched: float = 0

    def search(self, units: float) -> None:
        self.searched += units
        if self.searched > self.limits.work:
            raise TooManyStates(
                "whether the token budget suffices takes too much work to find out: give more tokens, bound lengths and repeats, "
                "or allow more work",
                limit=int(self.limits.work),
            )
        if self.outer is not None:
            self.outer.search(units)

    def check(self) -> None:
        if self.stop is not None and self.stop.is_set():
            raise ConstructionStopped("the construction of the constraint was stopped")
        if time.monotonic() - self.began > self.limits.seconds:
            raise ConstructionStopped(
                f"the construction of the constraint takes longer than {self.limits.seconds:g} s: bound its lengths and repeats, "
                "combine fewer alternatives, or allow more seconds"
            )
        if self.outer is not None:
            self.outer.check()


_current: ContextVar[_Running | None] = ContextVar("limits", default=None)


def check() -> None:
    """Raise ``ConstructionStopped`` if a request's seconds have passed or its ``stop`` is set."""
    running = _current.get()
    if running is not None:
        running.check()


def search(units: float) -> None:
    """Count work of a search for what fits a token budget. Raises ``TooManyStates`` and what :func:`check` raises."""
    running = _current.get()
    if running is not None:
        running.search(units)
        running.check()


def in_force() -> bool:
    """Return whether limits are in force."""
    return _current.get() is not None


def search_left(units: float) -> float:
    """Return these units of work, or what searches may still take under the limits in force if that is less."""
    running = _current.get()
    while running is not None:
        units, running = min(units, running.limits.work - running.searched), running.outer
    return units


def allowed_work(units: float) -> float:
    """Return these units of work, or what the limits in force allow if that is less."""
    running = _current.get()
    while running is not None:
        units, running = min(units, running.limits.work), running.outer
    return units
