"""Values from language models while an event loop goes on: calls wait for their turn in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Self, final

from .generate import generate
from .stream import Part


@cache
def _worker() -> ThreadPoolExecutor:
    """One thread, in which calls wait for their turn."""
    return ThreadPoolExecutor(1, "tractile")


async def _away(call: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_worker(), call)


async def generate_async(*arguments: Any, **settings: Any) -> Any:
    """Await :func:`.generate`, which runs in a thread meanwhile: one call after the other. Many prompts are one call with a list.

    A call that is cancelled runs on to its end.

    >>> import asyncio
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> word = tt.constraints.any_of(" cat", " dog")
    >>> asyncio.run(tt.decoding.generate_async(model, tokenizer, "It is a", word, max_new_tokens=6)) in (" cat", " dog")
    True
    """
    return await _away(partial(generate, *arguments, **settings))


@final
class AsyncParts:
    """The parts of a text; ``await`` it to learn of errors before the first part."""

    def __init__(self, begun: Future[Any]) -> None:
        self._begun = begun

    def __await__(self) -> Generator[Any, None, Self]:
        yield from asyncio.wrap_future(self._begun).__await__()
        return self

    async def __aiter__(self) -> AsyncIterator[Part]:
        parts = await asyncio.wrap_future(self._begun)
        while (part := await _away(partial(next, parts, None))) is not None:
            yield part


def stream_async(*arguments: Any, **settings: Any) -> AsyncParts:
    """Iterate over the parts of :func:`.generate` with ``stream=True``; several streams take turns, token by token.

    ``parts = await stream_async(…)`` raises what is wrong with the arguments (:class:`BudgetTooSmall`) before the first part, so
    that a server can still answer with a status. For more than a few callers there is :class:`.Engine`.

    >>> import asyncio
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> async def written():
    ...     word = tt.constraints.any_of(" cat", " dog")
    ...     parts = tt.decoding.stream_async(model, tokenizer, "It is a", word, max_new_tokens=6)
    ...     return "".join([part.new async for part in parts])
    >>> asyncio.run(written()) in (" cat", " dog")
    True
    """
    return AsyncParts(_worker().submit(partial(generate, *arguments, stream=True, **settings)))
