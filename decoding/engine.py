"""One model for many callers: their requests are one batch, into which each comes and from which it goes.

A request has a thread, but one runs at a time: the engine's own thread evaluates the model for all of them, then lets each take
its step in turn. What comes before the first step of a request (reading its output, compiling its constraint) runs beside them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from threading import Condition, Lock, Thread
from types import TracebackType
from typing import Any, Self, final

import torch

from ..argument_checks import whole
from ..errors import EngineBusy, EngineClosed, EvidenceError, TimeLimitPassed
from ..inference.smc.arguments import a_language_model
from ..inference.threads import is_small, one_thread
from ..lm.transformers import TransformersLM
from .generate import generate
from .seats import Batch, QueuedCall, Seat, Stopped
from .stream import Stream

SWEEP = 0.05  # seconds between looks at the time limits of requests that wait


@final
class Engine:
    """One model that many callers ask at once; :func:`tractile.generate` has what they may ask.

    All requests in the batch are given a token in each round, whatever they ask. Use it in a ``with`` block (or ``async with``):
    at its end the requests that are there are done, and no new ones taken; after an error they are stopped. Python functions that
    a request brings (validators, potentials) run between rounds: while one waits, all do.

    The values are those of :func:`tractile.generate`, up to the last digits of the model's logits, which depend on the batch.

    Parameters
    ----------
    model, tokenizer
        A causal language model of transformers and its tokenizer; or a :class:`.TransformersLM`, and None.
    batch
        The most requests that are in the batch at the same time; each has as many rows as it has particles.
    queue
        The most requests that wait for a place; first come, first served.
    time_limit
        The seconds that a request may take by default, its time in the queue included; None: no limit.

    Examples
    --------
    >>> import asyncio
    >>> import tractile as tt
    >>> word = tt.constraints.any_of(" cat", " dog")
    >>> async def both(engine):
    ...     ask = lambda prompt: engine.generate(prompt, word, max_new_tokens=6, time_limit=60)
    ...     return await asyncio.gather(ask("It barks. It is a"), ask("It mews. It is a"))
    >>> with tt.Engine(*tt.embedded.load_lm()) as engine:
    ...     found = asyncio.run(both(engine))
    >>> set(found) <= {" cat", " dog"}
    True
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        batch: int = 16,
        queue: int = 256,
        time_limit: float | None = None,
    ) -> None:
        if isinstance(model, torch.nn.Module) and tokenizer is not None:
            # Rows of few particles share little.
            model = TransformersLM(model, tokenizer, share_prompts=False)
        lm = a_language_model(model, tokenizer, "Engine")
        if not isinstance(lm, TransformersLM):
            raise EvidenceError(
                f"Engine: a {type(lm).__name__} has no batch that rows can join; give a model of transformers and its tokenizer"
            )
        self._lm, self._batch = lm, Batch(lm)
        self._most, self._queue = whole(batch, "Engine: batch"), whole(queue, "Engine: queue", 0)
        self._time_limit = time_limit
        self._changed = Condition()  # guards what follows
        self._waiting: deque[QueuedCall] = deque()
        self._arrived: list[Seat] = []
        self._threads: list[Thread] = []
        self._idle, self._busy = 0, 0  # threads without a request, and with one
        self._draining, self._stopped = False, False
        self._moved = Lock()  # held while seats take their steps
        self._moved.acquire()
        self._thread = Thread(target=self._run, name="tractile-engine", daemon=True)
        self._thread.start()

    async def generate(
        self, prompt: Any, output: Any, *, time_limit: float | None = None, **settings: Any
    ) -> Any:
        """Await what :func:`tractile.generate` returns for these arguments.

        A task that is cancelled stops its request. Raises :class:`EngineBusy` at once if the queue is full,
        :class:`TimeLimitPassed`, :class:`EngineClosed`, and what :func:`tractile.generate` raises.
        """
        return await asyncio.wrap_future(self.submit(prompt, output, time_limit=time_limit, **settings))

    def submit(
        self, prompt: Any, output: Any, *, time_limit: float | None = None, **settings: Any
    ) -> Future[Any]:
        """Return the future of what :func:`tractile.generate` returns, for callers in threads; ``cancel`` it to stop the request.

        Raises :class:`EngineBusy` if the queue is full and :class:`EngineClosed` if the engine was closed.
        """
        if "stream" in settings:
            raise EvidenceError("Engine: for the parts of a text ask engine.stream(…)")

        def ask(seat: Seat, request: QueuedCall) -> None:
            request.give(generate(seat, None, prompt, output, **settings))

        return self._take(ask, time_limit).answer

    def stream(self, prompt: Any, output: Any, *, time_limit: float | None = None, **settings: Any) -> Stream:
        """Return the :class:`Stream` of the parts that :func:`tractile.generate` yields with ``stream=True``.

        Raises what :meth:`submit` raises; ``await`` the stream, or take its first part, to learn of what is wrong with the
        arguments.
        """

        def ask(seat: Seat, request: QueuedCall) -> None:
            following: Future[Any] = Future()
            parts = generate(seat, None, prompt, output, stream=True, **settings)
            request.give((None, following), following)
            for part in parts:
                following = Future()
                request.give((part, following), following)
            request.give((None, following))

        request = self._take(ask, time_limit)
        return Stream(request.answer, request.cancel)

    def close(self, *, drain: bool = False) -> None:
        """Take no more requests; stop those that are there, or do them first if ``drain``. Return when all threads have ended."""
        with self._changed:
            self._draining = True
            self._stopped = self._stopped or not drain
            stopped = list(self._waiting) if self._stopped else []
            if self._stopped:
                self._waiting.clear()
            self._changed.notify_all()
        for request in stopped:
            request.fail(EngineClosed("the engine was closed before it began this request"))
        for thread in (*self._threads, self._thread):
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=error is None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close, drain=error is None)

    # ------------------------------------------------------------ in the callers' threads

    def _take(self, ask: Callable[[Seat, QueuedCall], None], time_limit: float | None) -> QueuedCall:
        request = QueuedCall(ask, self._time_limit if time_limit is None else time_limit)
        with self._changed:
            if self._draining:
                raise EngineClosed("the engine was closed; make another one")
            waiting = len(self._waiting) - (self._most - self._busy)  # for others there is a place
            if waiting >= self._queue:
                raise EngineBusy(waiting)
            self._waiting.append(request)
            if self._idle < len(self._waiting) and len(self._threads) < self._most:
                thread = Thread(target=self._work, name="tractile-request", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()
        return request

    # ------------------------------------------------------------ in the threads of requests

    def _work(self) -> None:
        """Do one request after the other, until none are left of a closed engine."""
        while (request := self._next_request()) is not None:
            self._do(request)
            del request
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _next_request(self) -> QueuedCall | None:
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting or self._draining)
            self._idle -= 1
            if not self._waiting:
                return None
            self._busy += 1
            return self._waiting.popleft()

    def _do(self, request: QueuedCall) -> None:
        def wait(seat: Seat) -> None:
            request.check()
            if seat.inside:
                seat.following.release()
            else:
                self._arrive(seat)
            seat.turn.acquire()
            if self._stopped:
                raise EngineClosed("the engine was closed before it had done this request")
            request.check()

        seat = Seat(self._lm, wait)
        try:
            request.check()
            request.ask(seat, request)
        except Stopped:
            request.cancel()
        except BaseException as error:
            request.fail(error)
        finally:
            seat.left = True
            if seat.inside:
                seat.following.release()

    def _arrive(self, seat: Seat) -> None:
        with self._changed:
            if self._stopped:
                raise EngineClosed("the engine was closed before it had done this request")
            seat.inside = True
            self._arrived.append(seat)
            self._changed.notify_all()

    # ------------------------------------------------------------ in the engine's thread

    def _run(self) -> None:
        """Do rounds until the engine is closed; if one fails as none should, close it for all."""
        seats: list[Seat] = []
        try:
            self._rounds(seats)
        finally:
            with self._changed:
                self._draining = self._stopped = True
                for seat in (*seats, *self._arrived):
                    seat.turn.release()

    def _rounds(self, seats: list[Seat]) -> None:
        """Evaluate the model for all seats, then let each take its step, again and again."""
        threads = one_thread if is_small(self._lm) else nullcontext
        while True:
            with self._changed:
                if not seats and not self._arrived:
                    if self._draining and not self._waiting and not self._busy:
                        return
                    self._changed.wait(SWEEP if self._waiting else None)
                seats += self._arrived
                self._arrived = []
                self._drop_late()
            if not seats:
                continue
            with threads():
                self._batch.step(seats)
            for seat, following in zip(seats, [*(seat.turn for seat in seats[1:]), self._moved], strict=True):
                seat.following = following
            seats[0].turn.release()
            self._moved.acquire()
            seats[:] = [seat for seat in seats if not seat.left]

    def _drop_late(self) -> None:
        """Take requests out of the queue that were cancelled there, or have no time left."""
        for request in list(self._waiting):
            try:
                request.check()
            except Stopped:
                self._waiting.remove(request)
            except TimeLimitPassed as error:
                self._waiting.remove(request)
                request.fail(error)
