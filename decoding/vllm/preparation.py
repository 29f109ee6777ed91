"""Compute what the first token of a request needs in a thread, while the request waits in vLLM's scheduler.

vLLM lets a request with structured output wait until its grammar is compiled, and runs other requests meanwhile. A request
for Tractile's logits processors whose tables are missing waits in the same way for the automaton, the HMM's messages, the first
mask and the first scores:

    EngineCore.preprocess_add_request           hold      starts the tables, and puts them where a grammar would be
    Scheduler._handle_blocked_waiting_request   release   takes them out once they are ready, so the request is scheduled

If the model runs in another process than the scheduler (several GPUs), tables are computed in the engine's step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, final

from ..request import read_request
from .adapter import SERVING


@final
class Preparation:
    """A future of tables, which stands in for a request's ``structured_output_request``."""

    def __init__(self, tables: Future[Any]) -> None:
        self._tables = tables

    @property
    def grammar(self) -> Any:
        """The tables, the error with which they failed, or ``None`` while they are being computed."""
        return (self._tables.exception() or self._tables.result()) if self._tables.done() else None

    def wait(self) -> None:
        """Leave the interpreter to the thread for a moment."""
        wait([self._tables], timeout=0.001)


def hold(original: Callable[..., Any], self: Any, request: Any) -> Any:
    """Start the tables of a request and let it wait for them; wraps ``EngineCore.preprocess_add_request``."""
    held, wave = original(self, request)
    manager = self.structured_output_manager
    asked = None if held.sampling_params is None else read_request(held.sampling_params)
    if asked is None or not manager._use_async_grammar_compilation:
        return held, wave
    batches = [adapter.batch for adapter in SERVING if adapter.vllm_config is self.vllm_config]
    for batch in batches:
        prompt = held.num_prompt_tokens
        if not batch.ready(batch.key(asked, prompt)):
            from vllm.v1.request import RequestStatus

            held.structured_output_request = Preparation(
                manager.executor.submit(batch.prepare, asked, prompt)
            )
            held.status = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    return held, wave


def release(original: Callable[..., bool], self: Any, request: Any) -> bool:
    """Schedule a request whose tables are ready; wraps ``Scheduler._handle_blocked_waiting_request``."""
    goes = original(self, request)
    waited = request.structured_output_request
    if goes and isinstance(waited, Preparation):
        request.tractile_tables = waited.grammar  # a reference for the lifetime of the request
        request.structured_output_request = None
    elif isinstance(waited, Preparation) and not self.running:  # the engine's steps have nothing else to do
        waited.wait()
    return goes
