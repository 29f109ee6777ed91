"""One model for many callers: their requests are one batch, into which each comes and from which it goes.

The engine's own thread evaluates the model and extends the particles of all requests. What comes before and after (reading an
output, compiling its constraint, parsing a text) runs beside it, in a thread of each request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from itertools import chain
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Self, final

import torch

from ..argument_checks import whole
from ..errors import EngineBusy, EngineClosed, EvidenceError, TimeLimitPassed
from ..inference.smc.arguments import a_language_model
from ..inference.threads import is_small, one_thread
from ..lm.transformers import TransformersLM
from .generate import generate
from .seats import Batch, QueuedCall, Seat, Stopped, Visit
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
        self._waiting: list[QueuedCall] = []
        self._arrived: list[Visit] = []
        self._busy = 0  # requests that have a thread
        self._draining, self._stopped = False, False
        self._threads = ThreadPoolExecutor(self._most, "tractile-request")
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
            parts = generate(seat, None, prompt, output, stream=True, **settings)
            for part in chain([None], parts):  # at first nothing: there is no mistake in the arguments
                following = Future[Any]()
                request.give((part, following), following)
            request.give((None, following))

        request = self._take(ask, time_limit)
        return Stream(request.answer, request.cancel)

    def close(self, *, drain: bool = False) -> None:
        """Take no more requests; stop those that are there, or do them first if ``drain``. Return when all threads have ended."""
        with self._changed:
            self._draining = True
            self._stopped = self._stopped or not drain
            self._changed.notify_all()
        self._threads.shutdown()
        self._thread.join()

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
            self._threads.submit(self._do, request)
            self._changed.notify_all()
        return request

    # ------------------------------------------------------------ in the threads of requests

    def _do(self, request: QueuedCall) -> None:
        with self._changed:
            if request not in self._waiting:  # it was cancelled, or is late
                return
            self._waiting.remove(request)
            self._busy += 1
        try:
            request.check()
            if self._stopped:
                raise EngineClosed("the engine was closed before it began this request")
            request.ask(Seat(self._lm, request, self._join), request)
        except Stopped:
            request.cancel()
        except BaseException as error:
            request.fail(error)
        request.left = True
        request.following.release()
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()

    def _join(self, visit: Visit) -> None:
        with self._changed:
            visit.request.check()
            if self._stopped:
                raise EngineClosed("the engine was closed before it had done this request")
            self._arrived.append(visit)
            self._changed.notify_all()

    # ------------------------------------------------------------ in the engine's thread

    def _run(self) -> None:
        """Do rounds until the engine is closed; if one fails as none should, close it for all."""
        visits: list[Visit] = []
        try:
            self._rounds(visits)
        finally:
            with self._changed:
                self._draining = self._stopped = True
                for visit in (*visits, *self._arrived):
                    visit.error = EngineClosed("the engine was closed before it had done this request")
                    visit.request.turn.release()

    def _rounds(self, visits: list[Visit]) -> None:
        """Extend the particles of all visits, again and again."""
        small = is_small(self._lm)
        while not self._stopped:
            with self._changed:
                if not visits and not self._arrived:
                    if self._draining and not self._waiting and not self._busy:
                        return
                    self._changed.wait(SWEEP if self._waiting else None)
                visits += self._arrived
                self._arrived = []
                self._drop_late()
            if not visits:
                continue
            with one_thread() if small and all(visit.is_small for visit in visits) else nullcontext():
                self._batch.step(visits)
            going = [visit for visit in visits if not visit.over]
            waiting = [visit for visit in going if visit.each]
            for visit in visits:
                if visit.each or visit.over:
                    visit.request.turn.release()
            for visit in waiting:
                visit.request.following.acquire()
            visits[:] = [visit for visit in going if not visit.over]

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
