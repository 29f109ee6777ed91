"""A server's front end: while it checks a request with a new constraint, the others' texts go on."""

import asyncio
import re
import time

import pytest
from engines import processor
from test_vllm_engine import PROMPT, SENTENCE, params, structured

from tractile.decoding import grammar_rows
from tractile.decoding.vllm import adapter
from tractile.embedded import LM_PATH

SECONDS = 2
OBJECT = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
DOORS = {
    "structured output": (grammar_rows, lambda **kind: {"structured_outputs": structured(**kind)}),
    "logits processor": (
        adapter,
        lambda regex=None, json=None: {
            "extra_args": {"tractile": {"regex": regex} if regex else {"json_schema": json, "hmm": False}}
        },
    ),
}


async def text_of(engine, name, asked, begun=None):
    """The text of a request, and the longest time in seconds between two of its outputs; ``begun`` is set at the first."""
    from vllm.inputs import tokens_input

    last, longest, text = None, 0.0, ""
    prompt = tokens_input(engine.get_tokenizer().encode(PROMPT))  # as the server hands it over
    async for output in engine.generate(prompt, asked, name):
        now = time.perf_counter()
        last, longest = now, max(longest, now - (last or now))
        text = output.outputs[0].text
        if begun is not None:
            begun.set()
    return text, longest


@pytest.mark.parametrize("door", DOORS)
def test_other_texts_go_on_while_a_constraint_is_compiled(door, monkeypatch):
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.exceptions import VLLMValidationError
    from vllm.v1.engine.async_llm import AsyncLLM

    owner, asks = DOORS[door]
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")

    async def served():
        engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                str(LM_PATH),
                enforce_eager=True,
                max_model_len=512,
                additional_config={"tractile": True},
                logits_processors=[processor()],
            )
        )
        compile_request = owner.compile_request

        def slowly(*given):
            time.sleep(SECONDS)
            return compile_request(*given)

        try:
            await text_of(engine, "warm", params(max_tokens=8, **asks(regex=SENTENCE)))
            monkeypatch.setattr(owner, "compile_request", slowly)  # in this process, not in the engine's
            begins = asyncio.Event()
            free = params(max_tokens=480, ignore_eos=True)
            running = asyncio.create_task(text_of(engine, "running", free, begins))
            await begins.wait()
            begun = time.perf_counter()
            text, _ = await text_of(engine, "new", params(max_tokens=40, **asks(json=OBJECT)))
            assert time.perf_counter() - begun > SECONDS
            assert '"name"' in text
            _, longest = await running
            assert longest < SECONDS / 2
            with pytest.raises(VLLMValidationError, match="at position"):
                await text_of(engine, "wrong", params(**asks(regex="(")))
            known, _ = await text_of(engine, "known", params(max_tokens=40, **asks(regex=SENTENCE)))
            assert re.fullmatch(SENTENCE, known)
        finally:
            engine.shutdown()

    asyncio.run(served())
