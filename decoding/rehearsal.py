"""Rehearse the end of a text: compute the masks that it is likely to need before it needs them.

    query = tt.gcd(fa, 256).start(budgets=64)
    for _ in rehearse(query):                   one step: one more mask is cached in the tables of the query
        …                                       the engine goes on

A constraint whose states are made as decoding reaches them computes the mask of a state when a text first comes there, within
the engine's step. Near the end of a budget that takes longest, since the fewest tokens to the end have to be known. A rehearsal
continues the text at random, each token uniformly from the mask, and so computes these masks ahead. Masks are the same with and
without a rehearsal, unless a search for the fewest tokens was given up: then a later search goes on from there, and may allow
more.

:class:`Rehearsals` advances rehearsals in a thread beside an engine.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from threading import Condition, Thread
from typing import Any, final
from weakref import ref

import numpy as np
from jaxtyping import Int32
from numpy import ndarray

from ..inference.next_token.protocol import NextTokenQuery

TEXTS, TOKENS, SECONDS = 2, 128, 0.2
SLICE = 5e-4  # seconds that a thread goes on between pauses, and then to the end of a mask
PAUSE = 1.0  # a pause, as a multiple of the time before it
QUIET = 0.02  # seconds without a hold after which rehearsals go on
logger = logging.getLogger(__name__)


def rehearse(
    query: NextTokenQuery,
    *,
    texts: int = TEXTS,
    tokens: int = TOKENS,
    seconds: float = SECONDS,
    seed: int = 0,
    lock: AbstractContextManager[Any] | None = None,
) -> Iterator[None]:
    """Return an iterator that computes and caches the masks along random continuations of a query's first row, one a step.

    The query's rows stay as they are. ``texts``: how many continuations; ``tokens``: the most tokens of each; ``seconds`` of CPU
    time, checked after each mask: where the rehearsal ends. ``lock``: held while the tables of the query are used, for queries
    that other threads use, too.

    Examples
    --------
    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b"], eos_token_id=0)
    >>> query = tt.gcd(tt.constraints.regex("ab").compile(vocab), 9).start(batch=1, budgets=5)
    >>> len(list(tt.decoding.rehearse(query, texts=1)))  # a, b, and the end
    3
    """
    begun = query.fork()
    begun.select([0])
    return _continued(begun, texts, tokens, seconds, random.Random(seed), lock or nullcontext())


def _continued(
    query: NextTokenQuery,
    texts: int,
    tokens: int,
    seconds: float,
    dice: random.Random,
    lock: AbstractContextManager[Any],
) -> Iterator[None]:
    eos, spent = None if query.automaton is None else query.automaton.eos_token_id, 0.0
    for _ in range(texts):
        row = query.fork()
        for _ in range(tokens):
            begun = time.thread_time()
            with lock:
                token = drawn(row.words()[0], dice)
                if token is not None:
                    row.advance([token])
            spent += time.thread_time() - begun
            yield
            if spent >= seconds:
                return
            if token is None or token == eos:
                break


def drawn(words: Int32[ndarray, " words"], dice: random.Random) -> int | None:
    """Draw a token of a mask: a byte that has some, then one of these, both uniformly; None if the mask is empty."""
    eights = words.view(np.uint8)
    some = np.flatnonzero(eights)
    if not len(some):
        return None
    at = int(some[dice.randrange(len(some))])
    bits = int(eights[at])
    return 8 * at + dice.choice([bit for bit in range(8) if bits >> bit & 1])


@final
class Rehearsals:
    """A thread that advances rehearsals one after another, in slices of time with pauses in between.

    It waits while constraints are being compiled (:meth:`hold`), and ends with the last rehearsal. ``slice_seconds``: how long it
    goes on, and then to the end of a mask; ``pause``: the pause after that, as a multiple of its length. The thread shares
    Python's interpreter lock with the engine: it delays the engine, except while that waits for a device.

    Examples
    --------
    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b"], eos_token_id=0)
    >>> query = tt.gcd(tt.constraints.regex("ab").compile(vocab), 9).start(batch=1, budgets=5)
    >>> rehearsals = tt.decoding.Rehearsals()
    >>> rehearsals.add(tt.decoding.rehearse(query), of=query)
    >>> rehearsals.join()
    True
    """

    def __init__(self, slice_seconds: float = SLICE, pause: float = PAUSE) -> None:
        self._slice, self._pause, self._holds = slice_seconds, pause, 0
        self._waiting: deque[tuple[Iterator[None], ref[Any]]] = deque()
        self._changed, self._quiet = Condition(), 0.0  # when rehearsals may go on, if there are no holds
        self._thread: Thread | None = None

    def add(self, steps: Iterator[None], of: object) -> None:
        """Queue a rehearsal. It is dropped once nothing refers to ``of``, such as the row that it is for."""
        with self._changed:
            self._waiting.append((steps, ref(of)))
            if self._thread is None:
                self._thread = Thread(target=self._run, name="tractile-rehearsals", daemon=True)
                self._thread.start()

    def __enter__(self) -> None:
        self.hold()

    def __exit__(self, *error: object) -> None:
        self.release()

    def hold(self) -> None:
        """Let rehearsals wait until :meth:`release`, or within a ``with`` block; holds are counted."""
        with self._changed:
            self._holds += 1

    def release(self) -> None:
        """Take back one :meth:`hold`."""
        with self._changed:
            self._holds, self._quiet = self._holds - 1, time.monotonic() + QUIET
            self._changed.notify_all()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the last rehearsal to end, at most ``timeout`` seconds; return whether it has."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    def _run(self) -> None:
        while (steps := self._next()) is not None:
            begun = time.perf_counter()
            try:
                while (spent := time.perf_counter() - begun) < self._slice:
                    next(steps)
            except StopIteration:
                self._drop(steps)
            except Exception:  # a mask that cannot be computed: the engine's step says so, if it needs it
                logger.debug("a rehearsal ended early", exc_info=True)
                self._drop(steps)
            time.sleep(self._pause * spent)

    def _next(self) -> Iterator[None] | None:
        """Return the first rehearsal whose object is still there, as soon as there are no holds; None: there is none."""
        with self._changed:
            while self._holds or self._quiet > time.monotonic():
                self._changed.wait(None if self._holds else self._quiet - time.monotonic())
            while self._waiting:
                steps, of = self._waiting[0]
                if of() is not None:
                    return steps
                self._waiting.popleft()
            self._thread = None
            self._changed.notify_all()
            return None

    def _drop(self, steps: Iterator[None]) -> None:
        with self._changed:
            if self._waiting and self._waiting[0][0] is steps:
                self._waiting.popleft()
