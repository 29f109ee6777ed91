"""The batch of an engine: samplers come and go, and the particles of all that are there are extended together.

A :class:`QueuedCall` has a :class:`Seat` as its language model. A sampler that runs on a seat is a :class:`Visit` to the batch: a
round is one pass of the model for all visits, and one draw for those with equal proposals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any, TypeVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import TimeLimitPassed
from ..inference.smc.loop import Sampler, draw_together
from ..inference.smc.run import Draw, Run
from ..inference.smc.step import is_range
from ..inference.threads import is_small
from ..lm.base import Prompt
from ..lm.transformers import TransformersLM

T = TypeVar("T")


class Stopped(BaseException):
    """Raised in a request that was cancelled; it unwinds the sampler."""


@final
class QueuedCall:
    """A request: what it asks, until when, and the future of what it gives next.

    The engine releases ``turn`` when it has done what the request's thread waits for; the thread releases ``following`` when the
    engine may go on, if it waits. ``left``: the request wants no more steps.
    """

    def __init__(self, ask: Callable[[Seat, QueuedCall], None], time_limit: float | None) -> None:
        self.ask, self.time_limit = ask, time_limit
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.answer: Future[Any] = Future()
        self._cancelled, self.left = False, False
        self.turn, self.following = Lock(), Lock()
        self.turn.acquire()
        self.following.acquire()

    def cancel(self) -> None:
        """Stop the request before its next step."""
        self._cancelled = True
        self.answer.cancel()

    def check(self) -> None:
        """Raise :class:`Stopped` if the request was cancelled, :class:`TimeLimitPassed` if it has no time left."""
        if self._cancelled or self.answer.cancelled():
            raise Stopped
        if self.deadline is not None and time.monotonic() > self.deadline:
            assert self.time_limit is not None
            raise TimeLimitPassed(self.time_limit)

    def give(self, value: Any, following: Future[Any] | None = None) -> None:
        """Give a value to the caller, who is given a ``following`` one later."""
        if not self.answer.set_running_or_notify_cancel():
            raise Stopped
        answer, self.answer = self.answer, following or self.answer
        answer.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Give the caller an error."""
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_exception(error)


@final
class Seat:
    """The language model of one request: the engine's, but for its samplers, which ``join`` brings to the engine's batch.

    A request that asks the model itself has rows of its own. ``scale`` is the engine's temperature over that of the request.
    """

    def __init__(
        self, lm: TransformersLM, request: QueuedCall, join: Callable[[Visit], None], scale: float = 1.0
    ) -> None:
        self._lm, self.request, self._join, self.scale = lm, request, join, scale

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)

    def at(self, temperature: float) -> Seat:
        """Return the seat at another temperature."""
        scale = self.scale * self._lm.temperature / temperature
        return Seat(self._lm.at(temperature), self.request, self._join, scale)

    def start(self, prompts: Sequence[Prompt]) -> None:
        self._lm = self._lm.fork()
        self._lm.start(prompts)

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        self.request.check()
        self._lm.advance(tokens)

    def steps(self, runs: Sequence[Run], limit: int | None, each: bool) -> Iterator[int]:
        """Extend the particles of these runs in the batch, as :func:`tractile.inference.smc.loop.steps` has it."""
        visit = Visit(runs, self, limit, each)
        self._join(visit)
        while True:
            self.request.turn.acquire()
            if visit.error is not None:
                raise visit.error
            yield visit.growing
            if visit.over:
                return
            self.request.following.release()


@final
class Visit(Sampler):
    """The sampler of a request in the batch, for at most ``limit`` steps.

    The request's thread has a turn after the last step, or after ``each``. ``error``: what a step raised. ``first``: the first
    row in the batch.
    """

    def __init__(self, runs: Sequence[Run], seat: Seat, limit: int | None, each: bool) -> None:
        super().__init__(runs)
        self.request, self.scale, self.limit, self.each = seat.request, seat.scale, limit, each
        self.is_small = all(is_small(run.request.hmm) for run in runs)
        self.first, self.taken = 0, 0
        self.error: BaseException | None = None

    @property
    def over(self) -> bool:
        """Whether no step follows."""
        return self.request.left or self.error is not None or not self.growing or self.taken == self.limit

    def follow(self) -> tuple[Int[Tensor, " states"], Int[Tensor, " states"]]:
        self.request.check()
        return super().follow()

    def ask(self, table: Float[Tensor, "rows vocab"]) -> list[Draw]:
        own = table[self.first : self.first + self.rows.size]
        return super().ask(own if self.scale == 1 else (own * self.scale).log_softmax(1))

    def extend(self, draws: Sequence[Draw]) -> None:
        super().extend(draws)
        self.taken += 1


@final
class Batch:
    """The rows of all visits; ``lm`` gives copies of the model without rows."""

    def __init__(self, lm: TransformersLM) -> None:
        self._lm = lm
        self._rows: TransformersLM | None = None

    def step(self, visits: Sequence[Visit]) -> None:
        """Extend the particles of all visits by a token; drop the rows of those that are not there any more."""
        followed = _tried([visit for visit in visits if visit.taken], Visit.follow)
        going = list(followed)
        try:
            self._advance(followed)
        except Exception as error:
            self._rows = None
            for visit in going:
                visit.error = error
            going = []
        if new := list(_tried([visit for visit in visits if not visit.taken], Visit.start)):
            going += self._start(new) or [visit for visit in new if self._start([visit])]
        if self._rows is None:
            return
        table, first = self._rows.log_probs(), 0
        for visit in going:
            visit.first = first
            first += visit.rows.size
        draws = _tried(going, lambda visit: visit.ask(table))
        draw_together([draw for some in draws.values() for draw in some])
        _tried(list(draws), lambda visit: visit.extend(draws[visit]))

    def _advance(self, followed: Mapping[Visit, tuple[Tensor, Tensor]]) -> None:
        if not followed or self._rows is None:
            self._rows = None
            return
        source = torch.cat([rows + visit.first for visit, (rows, _) in followed.items()])
        if not is_range(source, len(self._rows.log_probs())):
            self._rows.select(source)
        self._rows.advance(torch.cat([tokens for _, tokens in followed.values()]))

    def _start(self, visits: Sequence[Visit]) -> Sequence[Visit]:
        """Read the prompts of new visits in one pass; return the visits, none after an error, which they have then."""
        error: Exception | None = None
        try:
            (new := self._lm.fork()).start([prompt for visit in visits for prompt in visit.prompts])
            if self._rows is not None:
                self._rows.join(new)
            self._rows = self._rows or new
        except Exception as raised:
            error = raised
        for visit in visits:
            visit.error = error
        return visits if error is None else ()


def _tried(visits: Sequence[Visit], act: Callable[[Visit], T]) -> dict[Visit, T]:
    """Return what ``act`` gives of each visit; one for which it raises has the error, and is left out."""
    found = {}
    for visit in visits:
        try:
            found[visit] = act(visit)
        except BaseException as error:
            visit.error = error
    return found
