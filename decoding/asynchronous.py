"""Values from language models while an event loop goes on: calls wait for their turn in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

from .generate import generate
from .stream import Part


@cache
def _worker() -> ThreadPoolExecutor:
    """One thread: models of transformers are not made to be called by two."""
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


async def stream_async(*arguments: Any, **settings: Any) -> AsyncIterator[Part]:
    """Iterate over the parts of :func:`.generate` with ``stream=True``; several streams take turns, token by token.

    Each stream needs a language model of its own: give a model of transformers and its tokenizer, not one
    :class:`.LanguageModel` to several.

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
    parts = await generate_async(*arguments, stream=True, **settings)
    while (part := await _away(partial(next, parts, None))) is not None:
        yield part
