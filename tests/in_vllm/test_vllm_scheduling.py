"""What vLLM's scheduler does to constrained requests: preemption, prefill in parts, cached prefixes, drafts, aborts."""

import re

from engines import processor
from test_vllm_engine import PROMPT, SCHEMA, SENTENCE, answers, params, structured

OURS = {"tractile": {"json_schema": SCHEMA, "hmm": False}}


def drained(llm, requests, prompts, abort=()):
    """The finished outputs of requests by name, and how often vLLM set one of them aside; some are aborted on the way."""
    engine, found, aside = llm.llm_engine, {}, 0
    for name, request in requests.items():
        engine.add_request(name, prompts[name], request)
    scheduler = engine.engine_core.engine_core.scheduler
    steps = 0
    while engine.has_unfinished_requests():
        for output in engine.step():
            if output.finished:
                found[output.request_id] = output.outputs[0]
        aside = max(aside, sum(r.num_preemptions for r in scheduler.requests.values()))
        steps += 1
        if steps == 5:
            engine.abort_request(list(abort))
    return found, aside


def test_preemption_prefill_in_parts_cached_prefixes_and_aborts(start):
    llm = start(
        logits_processors=[processor()],
        num_gpu_blocks_override=9,
        block_size=32,
        max_model_len=160,
        max_num_batched_tokens=24,
        max_num_seqs=6,
        enable_chunked_prefill=True,
        enable_prefix_caching=True,
    )
    requests, prompts = {}, {}
    for i in range(12):
        name = f"r{i}"
        prompts[name] = PROMPT + " very" * (3 * (i % 4)) + " happy"
        requests[name] = [
            params(seed=None, temperature=i % 2, max_tokens=70, structured_outputs=structured(json=SCHEMA)),
            params(seed=None, temperature=i % 2, max_tokens=70, extra_args=OURS),
            params(seed=None, temperature=i % 2, max_tokens=40, extra_args={"tractile": {"regex": SENTENCE}}),
        ][i % 3]
    found, aside = drained(llm, requests, prompts, abort=["r3", "r4"])
    assert aside, "nothing was set aside: the test is not as narrow as it should be"
    for name in requests.keys() - {"r3", "r4"}:
        text = found[name].text
        assert re.fullmatch(SENTENCE, text) if int(name[1:]) % 3 == 2 else answers(text), (name, text)
    again, _ = drained(llm, {"r0": requests["r0"]}, prompts)
    assert (
        again["r0"].text == found["r0"].text
    )  # greedy: the same, with its prompt cached and no other request


def test_drafts_are_checked_token_by_token(start):
    llm = start(
        speculative_config={
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    )
    prompt = 'She wrote: {"name": "Anna", "friend": "Anna", "place": "Anna"} and then '
    kinds = [{"json": SCHEMA}, {"regex": r"( Anna){2,5}\."}, {"grammar": 'root ::= ("{\\"name\\": ")+ "."'}]
    for temperature in (0, 1):
        requests = [
            params(temperature=temperature, seed=None, max_tokens=60, structured_outputs=structured(**kind))
            for kind in kinds
        ]
        texts = [r.outputs[0].text for r in llm.generate([prompt] * 3, requests, use_tqdm=False)]
        assert answers(texts[0])
        assert re.fullmatch(r"( Anna){2,5}\.", texts[1])
        assert re.fullmatch(r'(\{"name": )+\.', texts[2])
