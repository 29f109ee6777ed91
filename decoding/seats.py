"""The batch of an engine: requests come and go, and all that are there are extended by one pass of the language model.

A :class:`QueuedCall` runs the ordinary sampler on its :class:`Seat`, a language model whose rows are rows of the batch. What a
seat is asked for is done in the next round, with what the others are asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import TimeLimitPassed
from ..inference.smc.step import is_range
from ..lm.base import Prompt
from ..lm.transformers import TransformersLM


class Stopped(BaseException):
    """Raised in a request that was cancelled; it unwinds the sampler."""


@final
class QueuedCall:
    """A request: what it asks, until when, and the future of what it gives next."""

    def __init__(self, ask: Callable[[Seat, QueuedCall], None], time_limit: float | None) -> None:
        self.ask, self.time_limit = ask, time_limit
        self.deadline = None if time_limit is None else time.monotonic() + time_limit
        self.answer: Future[Any] = Future()
        self._cancelled = False

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
    """The language model of one request; :class:`.LanguageModel` has its methods.

    ``wait`` is called with the seat when it needs a round, and returns after it. ``prompts``: those to start, None to append
    ``tokens`` to the rows ``rows`` of the seat's last round. ``error``: what the round raised for this seat.
    """

    def __init__(self, lm: TransformersLM, wait: Callable[[Seat], None]) -> None:
        self.temperature, self._own, self._wait = lm.temperature, lm.temperature, wait
        self.vocab_size, self.eos_token_id = lm.vocab_size, lm.eos_token_id
        self.vocabulary_fingerprint = lm.vocabulary_fingerprint
        self.tokenizer, self.model = lm.tokenizer, lm.model
        self.check_room, self.decode = lm.check_room, lm.decode
        self.prompts: Sequence[Prompt] | None = None
        self.rows: Int[Tensor, " rows"] = torch.zeros(0, dtype=torch.long)
        self.tokens: Int[Tensor, " rows"]
        self.table: Float[Tensor, "rows vocab"]
        self.error: BaseException | None = None
        self.inside, self.left = False, False  # whether its request has come into the batch, and has gone
        self.turn = Lock()  # released when it is this seat's turn to take a step
        self.turn.acquire()
        self.following: Lock  # the turn that comes after

    def at(self, temperature: float) -> Seat:
        """Set the temperature of the request, and return its seat."""
        self.temperature = temperature
        return self

    def start(self, prompts: Sequence[Prompt]) -> None:
        self.prompts = prompts
        self._ask()

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        self.tokens = tokens.cpu()
        self._ask()

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self.rows = self.rows[indices.cpu()]

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        same = is_range(self.rows, len(self.table))
        return self.table if same else self.table[self.rows.to(self.table.device)]

    def take(self, table: Float[Tensor, "rows vocab"]) -> None:
        """Set :meth:`log_probs` to the model's table of a round, at the temperature of this seat's request."""
        scale = self._own / self.temperature
        self.table = table if scale == 1 else (table * scale).log_softmax(1)
        self.rows, self.prompts = torch.arange(len(table)), None

    def _ask(self) -> None:
        self._wait(self)
        if self.error is not None:
            raise self.error


@final
class Batch:
    """The rows of all seats; ``lm`` gives copies of the model without rows."""

    def __init__(self, lm: TransformersLM) -> None:
        self._lm = lm
        self._rows: TransformersLM | None = None
        self._first: dict[Seat, int] = {}  # the first row of each seat

    def step(self, seats: Sequence[Seat]) -> None:
        """Do what the seats ask for; drop the rows of all others."""
        going = [seat for seat in seats if seat.prompts is None]
        try:
            self._advance(going)
        except Exception as error:
            self._rows = None
            for seat in going:
                seat.error = error
            going = []
        if new := [seat for seat in seats if seat.prompts is not None]:
            going += self._start(new) or [seat for seat in new if self._start([seat])]
        if self._rows is None:
            return
        table, first = self._rows.log_probs(), 0
        self._first = {}
        for seat in going:
            count = len(seat.rows if seat.prompts is None else seat.prompts)
            self._first[seat] = first
            seat.take(table[first : first + count])
            first += count

    def _advance(self, going: Sequence[Seat]) -> None:
        if not going or self._rows is None:
            self._rows = None
            return
        source = torch.cat([seat.rows + self._first[seat] for seat in going])
        if not is_range(source, len(self._rows.log_probs())):
            self._rows.select(source)
        self._rows.advance(torch.cat([seat.tokens for seat in going]))

    def _start(self, seats: Sequence[Seat]) -> Sequence[Seat]:
        """Read the prompts of new seats in one pass; return the seats, none after an error, which they have then."""
        error: Exception | None = None
        try:
            (new := self._lm.fork()).start([prompt for seat in seats for prompt in seat.prompts or ()])
            if self._rows is not None:
                self._rows.join(new)
            self._rows = self._rows or new
        except Exception as raised:
            error = raised
        for seat in seats:
            seat.error = error
        return seats if error is None else ()
