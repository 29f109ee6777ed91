"""The entry point ``vllm.general_plugins``: structured output by Tractile, in engines whose configuration asks for it.

    LLM(model, additional_config={"tractile": True})
    vllm serve MODEL --additional-config '{"tractile": {"whitespace": "flexible"}}'

Requests stay as they are: ``StructuredOutputsParams(json=…)``, ``response_format``, ``structural_tag``. vLLM's list of back ends
is closed, and ``compile_grammar`` is not told the token budget of a request. So :func:`register` wraps the methods that read
requests: ``InputProcessor.__init__`` and ``SamplingParams._validate_structured_outputs`` in the front end, ``__init__``,
``grammar_init``, ``grammar_bitmask`` and ``_fill_bitmasks`` of ``StructuredOutputManager`` in the engine. Engines that do not ask
for Tractile behave as before.

The masks of all requests of a step are computed in one call, once vLLM has gathered them: its ``grammar_bitmask`` asks for one
after another.

Where a reasoning parser names the text that ends the reasoning, the grammar of a request is asked from the first token, and lets
the reasoning go on as long as the tokens left suffice for the answer.

The front end of a server compiles a constraint to check its request. ``AsyncLLM.add_request`` is wrapped so that it does so in a
thread, and the texts of other requests go on.

Requests of Tractile's logits processors wait for their tables: see :mod:`.preparation`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

from ...constraints.vocabulary.reading import vocabulary_within
from ...errors import TractileError, UnsupportedConstraint
from ..request import ARGUMENT
from .batch import budget_of
from .preparation import hold, release
from .structured_output import Spec, TractileBackend, TractileGrammar, fill_together, grammars_of

NAME = "tractile"
OPTIONS = "whitespace", "max_whitespace", "order", "formats", "numbers", "max_digits"  # of json_schema


def register() -> None:
    """Wrap the methods of vLLM that read structured output; a second call does nothing."""
    from vllm.sampling_params import SamplingParams
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.engine.input_processor import InputProcessor
    from vllm.v1.structured_output import StructuredOutputManager

    wrap(InputProcessor, "__init__", choose)
    wrap(SamplingParams, "_validate_structured_outputs", admit)
    wrap(AsyncLLM, "add_request", check_aside)
    wrap(StructuredOutputManager, "__init__", provide)
    wrap(StructuredOutputManager, "grammar_init", begin)
    wrap(StructuredOutputManager, "grammar_bitmask", fill_all)
    wrap(StructuredOutputManager, "_fill_bitmasks", put_off)
    wrap(EngineCore, "preprocess_add_request", hold)
    wrap(Scheduler, "_handle_blocked_waiting_request", release)


def wrap(owner: type, method: str, around: Callable[..., Any]) -> None:
    """Replace a method of a class by ``around(method, self, …)``, unless it is replaced already."""
    original = getattr(owner, method)
    if hasattr(original, "by_tractile"):
        return

    @wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(original, self, *args, **kwargs)

    wrapped.by_tractile = True  # type: ignore[attr-defined]
    setattr(owner, method, wrapped)


def settings(vllm_config: Any) -> Mapping[str, Any] | None:
    """Read the options of ``json_schema`` in an engine's configuration; ``None`` if the engine does not ask for Tractile.

    Raises :class:`UnsupportedConstraint` for unknown options.
    """
    given = getattr(vllm_config, "additional_config", None)
    given = given.get(NAME) if isinstance(given, Mapping) else None
    if given is None or given is False:
        return None
    options = {} if given is True else given
    if not isinstance(options, Mapping) or not set(options) <= set(OPTIONS):
        raise UnsupportedConstraint(
            f"give true, or options of JSON Schemas ({', '.join(OPTIONS)}), not {given!r}",
            path=f"additional_config/{NAME}",
        )
    return options


def asked_by(params: Any, kind: str, text: str, options: Mapping[str, Any]) -> Spec:
    """Combine the structured output that ``StructuredOutputsParams`` ask for with the engine's options."""
    if getattr(params, "whitespace_pattern", None):
        raise UnsupportedConstraint(
            "a pattern of white space is not supported; choose it for the engine", path="whitespace_pattern"
        )
    own: dict[str, Any] = {"whitespace": "none"} if params.disable_any_whitespace else {}
    if params.disable_additional_properties:
        own["open_objects"] = False
    return Spec(kind, text, {**options, **own})


def choose(original: Callable[..., None], self: Any, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
    """Name the back end, so that :func:`admit` checks requests; wraps ``InputProcessor.__init__``."""
    original(self, vllm_config, *args, **kwargs)
    asked = settings(vllm_config)
    if asked is not None:
        self.structured_outputs_config = copy.copy(vllm_config.structured_outputs_config)
        self.structured_outputs_config.backend = NAME
        self.structured_outputs_config.tractile = asked
        backend_of(vllm_config, self.tokenizer)


def admit(original: Callable[..., None], self: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """Refuse requests that cannot be served, with the reason; wraps ``SamplingParams._validate_structured_outputs``."""
    params = self.structured_outputs
    if getattr(config, "backend", None) != NAME or params is None:
        if params is not None and params._backend == NAME:
            params._backend = None  # an engine without Tractile chooses again
        return original(self, model_config, config, tokenizer)
    check(self, model_config, config, tokenizer)
    params._backend = NAME


def check(asked: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """Compile the structured output of ``SamplingParams``; raise vLLM's ``VLLMValidationError`` if it cannot be served."""
    from vllm.exceptions import VLLMValidationError as error
    from vllm.v1.structured_output.request import get_structured_output_key

    if tokenizer is None:
        raise error("structured output needs a tokenizer: leave skip_tokenizer_init out")
    try:
        key, text = get_structured_output_key(asked.structured_outputs)
        constraint = asked_by(asked.structured_outputs, key.name, text, config.tractile).constraint()
        stops = frozenset(asked.all_stop_token_ids)
        most = model_config.max_model_len
        budget = budget_of(asked.max_tokens or most, 0, most)
        vocabulary = vocabulary_within(tokenizer, model_config.get_vocab_size())
        grammars_of(vocabulary, stops).row(constraint, budget)
    except TractileError as reason:
        raise error(f"structured output: {reason}", parameter="structured_outputs") from None


async def check_aside(
    original: Callable[..., Any],
    self: Any,
    request_id: str,
    prompt: Any,
    params: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Check a request's constraint in a thread: the event loop, which checks it again, finds it compiled.

    Wraps ``AsyncLLM.add_request``.
    """
    reading = self.input_processor
    config = reading.structured_outputs_config
    if getattr(config, "backend", None) == NAME and getattr(params, "structured_outputs", None) is not None:
        await asyncio.to_thread(check, params, reading.model_config, config, reading.tokenizer)
    if ARGUMENT in (getattr(params, "extra_args", None) or {}):
        await asyncio.to_thread(reading.validate_logits_processors_params, params)
    return await original(self, request_id, prompt, params, *args, **kwargs)


def provide(original: Callable[..., None], self: Any, vllm_config: Any) -> None:
    """Make Tractile's back end when vLLM's engine starts: replaces ``StructuredOutputManager.__init__``, which it calls first."""
    original(self, vllm_config)
    if settings(vllm_config) is not None:
        self.backend = backend_of(vllm_config, self.tokenizer)


def backend_of(vllm_config: Any, tokenizer: Any) -> TractileBackend:
    """Make the back end of an engine."""
    return TractileBackend(vllm_config, tokenizer, vllm_config.model_config.get_vocab_size())


def begin(original: Callable[..., None], self: Any, request: Any) -> None:
    """Compile a request's constraint, in a thread beside the engine's steps; wraps ``StructuredOutputManager.grammar_init``."""
    options, asked = settings(self.vllm_config), request.structured_output_request
    if asked is None or options is None:
        return original(self, request)
    backend, most = self.backend, self.vllm_config.model_config.max_model_len
    end, opening = end_of_reasoning(self, request)
    if end:
        asked.reasoning_ended = True  # for vLLM, which then asks the grammar from the first token

    def left() -> int:
        budget = budget_of(request.max_tokens, request.num_prompt_tokens, most)
        return budget - int(request.num_output_tokens)

    def make() -> Any:
        key, text = asked.structured_output_key
        stops = request.sampling_params.all_stop_token_ids
        asked_for = asked_by(asked.params, key.name, text, options)
        return backend.grammar(asked_for, stops, left, end, opening)

    # With the executor "external_launcher" all ranks must see the grammar ready in the same step: they wait for it.
    asked.grammar = future = self.executor.submit(make)
    if not self._use_async_grammar_compilation:
        future.exception()


def fill_all(
    original: Callable[..., Any],
    self: Any,
    requests: Any,
    ids: Sequence[str],
    drafts: Mapping[str, Sequence[int]],
) -> Any:
    """Fill the masks of a step in one call, if no tokens are drafted ahead; wraps ``StructuredOutputManager.grammar_bitmask``."""
    if settings(self.vllm_config) is None or any(drafts.values()):
        return original(self, requests, ids, drafts)
    rows: list[tuple[TractileGrammar, int]] = []
    self.tractile_rows = rows
    try:
        found = original(self, requests, ids, drafts)  # a view of the bit mask
    finally:
        del self.tractile_rows
    if rows:
        fill_together(rows, self._grammar_bitmask)
    return found


def put_off(original: Callable[..., None], self: Any, batch: Iterable[tuple[Any, int, bool]]) -> None:
    """Note the rows that :func:`fill_all` fills; wraps ``StructuredOutputManager._fill_bitmasks``."""
    rows: list[tuple[TractileGrammar, int]] | None = getattr(self, "tractile_rows", None)
    if rows is None:
        return original(self, batch)
    for grammar, row, applies in batch:
        if applies and not grammar.is_terminated():
            rows.append((grammar, row))
        else:
            original(self, [(grammar, row, applies)])


def end_of_reasoning(manager: Any, request: Any) -> tuple[list[int], set[int]]:
    """Return the tokens that end the reasoning of a request, and those that do so by opening the answer (as a call).

    None of either if it does not reason, or if no text is known to end that.
    """
    asked = request.structured_output_request
    reasoner = None if manager.enable_in_reasoning else manager._get_reasoner(request)
    if reasoner is None or asked.reasoning_ended or reasoner.is_reasoning_end(request.prompt_token_ids or []):
        return [], set()
    text, tokenizer = reasoner.reasoning_end_str, manager.tokenizer
    if not text:
        return [], set()
    token = tokenizer.get_vocab().get(text)
    end = list(tokenizer.encode(text, add_special_tokens=False)) if token is None else [token]
    return end, set(getattr(reasoner, "reasoning_end_token_ids", ())) - set(end)
