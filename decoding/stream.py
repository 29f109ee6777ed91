"""A value from a language model while it is written: the text so far, what of it is complete, and its parts as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, final
from weakref import finalize

from ..constraints.output_type import OutputType
from ..inference.smc.boundaries import Texts
from ..inference.smc.loop import prepared, steps
from ..inference.smc.request import Request
from ..inference.smc.run import Run
from ..inference.threads import one_thread
from .outputs import drawn
from .partial import growing_json, partial_value

REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class Part:
    """What is written so far.

    ``text``: all of it; ``new``: what came since the part before. ``value``: of JSON the complete members or items of the
    outermost object or array (items as the output's type reads them, if it does), of other texts None; with ``done``, the value
    of the output's type. ``growing``: where a string of JSON is being written, its place as a JSON pointer ("/pets/0/name"), else
    None; ``unfinished`` is then the value with the string as far as it is written, as JSON, else None.

    Examples
    --------
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> for part in tt.generate(model, tokenizer, "I can count to", list[int], max_new_tokens=12, stream=True):
    ...     assert isinstance(part, tt.decoding.Part)
    >>> part.done, type(part.value)
    (True, <class 'list'>)
    """

    text: str
    new: str
    value: Any
    done: bool
    # of an unfinished text, without the reasoning before it
    json: str | None = field(default=None, repr=False)

    @cached_property
    def _growing(self) -> tuple[Any, str] | None:
        return None if self.json is None else growing_json(self.json)

    @property
    def growing(self) -> str | None:
        """The place of the string that is being written."""
        return None if self._growing is None else self._growing[1]

    @property
    def unfinished(self) -> Any:
        """The value with the string that is being written."""
        return None if self._growing is None else self._growing[0]


def parts(request: Request, kind: OutputType[Any]) -> Iterator[Part]:
    """Return the parts of one text, a token at a time. Raises :class:`BudgetTooSmall` at once, before the model is called."""
    (run,) = prepared([request])
    return _parts(run, kind)


def _parts(run: Run, kind: OutputType[Any]) -> Iterator[Part]:
    texts, shown, going = Texts(run.request.lm.decode), "", steps([run])
    while True:
        with one_thread(run.request.lm, run.request.hmm):
            growing = next(going, 0)
        if not growing:
            break
        # Without a character whose bytes are not all there.
        text = texts(run.particles.token_ids(0)).rstrip(REPLACEMENT)
        if text.startswith(shown) and text != shown:
            written = kind.json_of(text)
            value = None
            if written is not None and kind.parse is not str:
                value = partial_value(written, lambda closed: kind.parse(kind.after + closed))
            yield Part(text, text[len(shown) :], value, False, written)
            shown = text
    post = run.posterior()
    value, text = drawn(post, kind, None, 0), post.best.text
    yield Part(text, text[len(shown) :], value, True)


@final
class Stream:
    """The parts of a text as they come: an asynchronous iterator, and an iterator for threads.

    ``await`` it to learn what is wrong with the request before its first part; the value is the stream itself. A stream that is
    closed, or dropped, stops its request.

    Examples
    --------
    >>> import tractile as tt
    >>> with tt.Engine(*tt.embedded.load_lm()) as engine:
    ...     stream = engine.stream("It is a", tt.constraints.any_of(" cat", " dog"), max_new_tokens=6)
    ...     text = "".join(part.new for part in stream)
    >>> text in (" cat", " dog")
    True
    """

    def __init__(self, answer: Future[Any], cancel: Callable[[], None]) -> None:
        self._next, self._ready = answer, False
        self._drop = finalize(self, cancel)

    def __await__(self) -> Generator[Any, None, Self]:
        if not self._ready:
            self._taken((yield from asyncio.wrap_future(self._next).__await__()))
        return self

    def __aiter__(self) -> AsyncIterator[Part]:
        return self

    async def __anext__(self) -> Part:
        await self
        part = self._taken(await asyncio.wrap_future(self._next))
        if part is None:
            raise StopAsyncIteration
        return part

    def __iter__(self) -> Iterator[Part]:
        return self

    def __next__(self) -> Part:
        if not self._ready:
            self._taken(self._next.result())
        part = self._taken(self._next.result())
        if part is None:
            raise StopIteration
        return part

    def close(self) -> None:
        """Stop the request."""
        self._drop()

    async def aclose(self) -> None:
        """Stop the request."""
        self.close()

    def _taken(self, given: tuple[Part | None, Future[Any]]) -> Part | None:
        (part, self._next), self._ready = given, True
        return part
