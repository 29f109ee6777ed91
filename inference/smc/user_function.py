"""Calls of the user's functions: in this process or in worker processes, with a time limit, and cached.

    argument → a number between two limits, or :class:`PotentialError` with the function's name and the argument

Workers are forked if the system can fork; the function may then be a closure, but must not use the GPU. Otherwise workers are
spawned, and the function must be importable. A worker that dies or does not answer in time is replaced. An interrupt ends all
workers, so that no later call receives their answers.
"""

from __future__ import annotations

import math
import multiprocessing
import time
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from ...errors import EvidenceError, PotentialError
from ..arguments import short

CACHE_SIZE = 1 << 16  # values; beyond, the older half is dropped


@dataclass(frozen=True)
class Failure:
    """A call that gave no value; ``what`` says what it did instead, as a part of an error message."""

    what: str


class UserFunction:
    """A cached ``function(argument)`` whose values are numbers from ``lowest`` to ``highest`` (below +∞).

    ``final``: another function for complete sequences. ``batched``: the functions take a list of arguments and return a list.
    ``processes``: the number of worker processes (0: none). ``timeout``: the seconds that a call may take. ``on_error``: the
    value of a call that fails; without it :class:`PotentialError` is raised, with ``name`` (default: the function's own).
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        final: Callable[[Any], Any] | None = None,
        *,
        lowest: float = 0.0,
        highest: float = math.inf,
        batched: bool = False,
        processes: int = 0,
        timeout: float | None = None,
        on_error: float | None = None,
        name: str | None = None,
    ) -> None:
        self._functions = (function, final or function)
        self._names = [name or str(getattr(f, "__name__", type(f).__name__)) for f in self._functions]
        self._lowest, self._highest, self._batched, self._on_error = lowest, highest, batched, on_error
        self._pools = [Workers(f, processes, timeout) for f in self._functions] if processes else None
        self._known: dict[tuple[Hashable, bool], float] = {}

    @property
    def name(self) -> str:
        """The function's name in errors."""
        return self._names[0]

    def values(self, keys: Sequence[tuple[Any, bool]]) -> list[float]:
        """Return the value of each pair of an argument and whether ``final`` is the function to call."""
        for which in (False, True):
            new = list(
                dict.fromkeys(a for a, final in keys if final is which and (a, which) not in self._known)
            )
            if new:
                for argument, value in zip(new, self._call(new, which), strict=True):
                    self._known[argument, which] = self._checked(value, argument, which)
        values = [self._known[key] for key in keys]
        if len(self._known) > CACHE_SIZE:
            self._known = dict(list(self._known.items())[CACHE_SIZE // 2 :])  # keep the latest
        return values

    def _call(self, arguments: list[Any], which: bool) -> Sequence[Any]:
        """Return the value, or a :class:`Failure`, of ``function`` for each argument; of ``final`` if ``which``."""
        function = self._functions[which]
        if self._pools is not None:
            return self._pools[which].map(arguments)
        if not self._batched:
            return [_attempt(function, argument) for argument in arguments]
        values = _attempt(lambda batch: list(function(batch)), arguments)
        if isinstance(values, list) and len(values) == len(arguments):
            return values
        # Call the function with each argument alone, to find the one that fails.
        alone = [_attempt(lambda batch: next(iter(function(batch))), [argument]) for argument in arguments]
        if any(isinstance(value, Failure) for value in alone):
            return alone
        number = (
            f"returned {len(values)} values for {len(arguments)}" if isinstance(values, list) else values.what
        )
        return [Failure(number)] * len(arguments)

    def _checked(self, value: Any, argument: Any, which: bool) -> float:
        failure = value if isinstance(value, Failure) else None
        if failure is None:
            try:
                number = float(value)
            except (TypeError, ValueError):
                failure = Failure(f"returned {value!r}, which is not a number,")
            else:
                if self._lowest <= number <= self._highest and number < math.inf:  # not NaN
                    return number
                failure = Failure(f"returned {number}")
                if self._highest < math.inf:
                    failure = Failure(
                        f"returned {number}, which is not between {self._lowest:g} and {self._highest:g},"
                    )
        if self._on_error is None:
            raise PotentialError(self._names[which], failure.what, argument)
        return self._on_error


def log_of(value: float) -> float:
    """Return log of a number ≥ 0; −∞ for zero."""
    return math.log(value) if value > 0 else -math.inf


def check_function(value: Any, name: str) -> Any:
    """Return the function; raise :class:`EvidenceError`, which names the argument, for what cannot be called."""
    if not callable(value):
        raise EvidenceError(f"{name} must be a function of one answer, not {short(value)}")
    return value


def _attempt(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return function(argument)
    except Exception as error:
        return Failure(f"raised {type(error).__name__}: {error}")


class Workers:
    """A pool of up to ``count`` processes that call ``function``; ``timeout`` in seconds per call (None: no limit)."""

    def __init__(self, function: Callable[[Any], Any], count: int, timeout: float | None = None) -> None:
        self._function, self._count, self._timeout = function, count, timeout
        method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(method)
        self._workers: dict[Connection, BaseProcess] = {}
        weakref.finalize(self, _stop, self._workers)

    def map(self, items: Sequence[Any]) -> list[Any]:
        """Return function(item) for each item, in order; a :class:`Failure` if there is no value."""
        try:
            return self._map(items)
        except BaseException:
            _stop(self._workers)
            raise

    def _map(self, items: Sequence[Any]) -> list[Any]:
        results: list[Any] = [None] * len(items)
        waiting = list(range(len(items)))[::-1]
        running: dict[Connection, tuple[int, float]] = {}
        while len(self._workers) < min(self._count, len(items)):
            self._hire()
        free = list(self._workers)
        while waiting or running:
            while waiting and free:
                index = waiting.pop()
                connection = self._send(free.pop(), items[index])
                running[connection] = (index, time.monotonic() + (self._timeout or float("inf")))
            soonest = min(deadline for _, deadline in running.values()) - time.monotonic()
            ready = wait(list(running), None if self._timeout is None else max(0.0, soonest))
            for connection in list(running):
                index, deadline = running[connection]
                if connection in ready:
                    try:
                        results[index] = connection.recv()
                        free.append(connection)
                    except (EOFError, ConnectionError):
                        results[index] = Failure("ended its process")
                        free.append(self._replace(connection))
                elif time.monotonic() >= deadline:
                    results[index] = Failure(f"did not answer within {self._timeout} s")
                    free.append(self._replace(connection))
                else:
                    continue
                del running[connection]
        return results

    def _send(self, connection: Connection, item: Any) -> Connection:
        """Send the item to this worker, or to a new one if it has died while idle; return the worker that has the item."""
        try:
            connection.send(item)
        except ConnectionError:
            connection = self._replace(connection)
            connection.send(item)
        return connection

    def _hire(self) -> Connection:
        ours: Connection
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._function), daemon=True)
        process.start()
        theirs.close()
        self._workers[ours] = process
        return ours

    def _replace(self, connection: Connection) -> Connection:
        _stop({connection: self._workers.pop(connection)})
        return self._hire()


def _stop(workers: dict[Connection, BaseProcess]) -> None:
    for connection, process in workers.items():
        process.kill()
        process.join()
        connection.close()
    workers.clear()


def _serve(connection: Connection, function: Callable[[Any], Any]) -> None:
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        connection.send(_attempt(function, item))
