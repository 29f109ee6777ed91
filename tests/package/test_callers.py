"""One model, many callers: threads, tasks, streams that are dropped, calls that fail; the model is as it was."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

import networks
import pytest
import torch
from pydantic import BaseModel

import tractile as tt
from tractile.inference.smc import LookaheadProposal

MODEL, TOKENIZER = tt.embedded.load_lm()
LM = tt.TransformersLM(MODEL, TOKENIZER)
HMM = tt.embedded.load_hmm()
IDS = TOKENIZER("Once upon a time", return_tensors="pt", return_token_type_ids=False)
NAME = tt.constraints.regex(r" [A-Z][a-z]{2,9}\.")
DOG = tt.constraints.keywords(["dog"], inflections=False)
ask = partial(tt.generate, MODEL, TOKENIZER)


class Pet(BaseModel):
    name: Literal["Tom", "Sue"]
    kind: Literal["cat", "dog"]


def plain(model=MODEL, **more):
    """The model's own generate."""
    with torch.no_grad():
        return model.generate(
            **IDS, max_new_tokens=12, do_sample=False, pad_token_id=TOKENIZER.eos_token_id, **more
        )


def masked():
    processor = tt.ConstraintLogitsProcessor(NAME, tokenizer=TOKENIZER)
    return TOKENIZER.decode(plain(logits_processor=[processor])[0])


def streamed(seed):
    parts = tt.generate(MODEL, TOKENIZER, "My name is", NAME, max_new_tokens=10, stream=True, seed=seed)
    return "".join(part.new for part in parts)


def dropped(seed):
    parts = tt.generate(MODEL, TOKENIZER, "My name is", NAME, max_new_tokens=10, stream=True, seed=seed)
    return next(parts).new


def refused(seed):
    """A call whose potential fails in the middle."""

    def potential(text):
        raise ValueError(text)

    with pytest.raises(tt.errors.PotentialError):
        tt.smc(LM, "Tom has a", NAME, particles=2, max_new_tokens=8, potential=potential, seed=seed)


CALLS = {
    "literal": lambda seed: ask("Tom has a", Literal[" cat", " dog"], max_new_tokens=6, seed=seed),
    "class": lambda seed: ask("Tom", Pet, max_new_tokens=32, particles=4, seed=seed),
    "guided": lambda seed: ask(
        "Tom has a", DOG, hmm=HMM, method=LookaheadProposal(1.0), max_new_tokens=10, seed=seed
    ),
    "one lm": lambda seed: tt.smc(LM, "Tom has a", NAME, particles=3, max_new_tokens=10, seed=seed).texts,
    "stream": streamed,
    "dropped stream": dropped,
    "processor": lambda seed: masked(),
    "model.generate": lambda seed: plain().tolist(),
    "error": refused,
}


def hammer(calls, threads):
    """Make all calls, an iterator of functions, from several threads; return their results in order."""
    together = threading.Barrier(threads)

    def some(first):
        together.wait()
        return [(i, calls[i]()) for i in range(first, len(calls), threads)]

    with ThreadPoolExecutor(threads) as pool:
        done = [pair for part in pool.map(some, range(threads)) for pair in part]
    return [result for _, result in sorted(done, key=lambda pair: pair[0])]


@pytest.fixture
def untouched():
    """The model's own logits, its configuration and hooks are the same before and after."""

    def state():
        out = plain(output_logits=True, return_dict_in_generate=True)
        modules = [
            (type(m).forward, dict(m._forward_hooks), dict(m._forward_pre_hooks), "forward" in vars(m))
            for m in MODEL.modules()
        ]
        return out.sequences, torch.stack(out.logits), MODEL.config.to_json_string(), modules

    before = state()
    yield
    after = state()
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])
    assert before[2:] == after[2:]
    assert MODEL.config._attn_implementation == "sdpa"


def test_threads_get_what_one_caller_gets(untouched):
    calls = [partial(call, seed) for seed in range(3) for call in CALLS.values()]
    expected = [call() for call in calls]
    assert hammer(calls, 8) == expected


def test_one_model_is_shared_by_streams_and_other_calls():
    """Also one ``TransformersLM``: each call has rows of its own."""
    streams = [
        tt.generate(LM, None, prompt, NAME, max_new_tokens=10, stream=True, seed=seed)
        for prompt in ("My name is", "I am")
        for seed in range(3)
    ]
    found = [""] * len(streams)
    while streams_left := [i for i, stream in enumerate(streams) if stream is not None]:
        for i in streams_left:
            part = next(streams[i], None)
            if part is None:
                streams[i] = None
            else:
                found[i] += part.new
        tt.smc(LM, "Tom has a", NAME, particles=2, max_new_tokens=3 + len(found[0]))
    expected = [
        tt.generate(LM, None, prompt, NAME, max_new_tokens=10, particles=1, seed=seed)
        for prompt in ("My name is", "I am")
        for seed in range(3)
    ]
    assert found == expected


def test_a_call_inside_a_call():
    """A check of one call may ask the model itself."""

    def probable(text):
        answer = tt.generate(LM, None, f"{text} is a", Literal[" cat", " dog"], max_new_tokens=6)
        return float(answer in (" cat", " dog"))

    post = tt.smc(LM, "My name is", NAME, particles=2, max_new_tokens=10, potential=probable)
    assert all(map(NAME.accepts, post.texts))


@pytest.mark.parametrize("failing", [False, True])
def test_the_model_keeps_its_attention_while_it_is_shared(failing):
    """At no moment does the model given look otherwise, whatever happens in a forward pass."""
    model = networks.llama(64)
    seen, calls = set(), 0

    def look(*_):
        nonlocal calls
        calls += 1
        seen.add(model.config._attn_implementation)
        if failing and calls == 12:
            raise RuntimeError("out of memory")

    model.model.layers[0].register_forward_hook(look)
    lm = tt.TransformersLM(model, None, eos_token_id=0)
    if failing:
        with pytest.raises(RuntimeError, match="out of memory"):
            tt.smc(lm, [3, 4], None, particles=4, max_new_tokens=20)
    post = tt.smc(lm, [3, 4], None, particles=4, max_new_tokens=12)
    assert len(post.texts) == 4
    assert seen == {model.config._attn_implementation}
    assert calls > 12
