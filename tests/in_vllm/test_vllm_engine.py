"""Constraints in vLLM's offline engine: structured output, V1 logits processors, and both beside free requests."""

import json
import re

import pytest
from engines import processor

import tractile as tt

SCHEMA = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("name", "friend", "place")},
    "required": ["name", "friend", "place"],
}
SENTENCE = r" [A-Z][a-z]+ and [A-Z][a-z]+\."
PROMPT = "The names of the girls were"
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "sequence",
        "elements": [
            {"type": "any_text", "max_tokens": 5},
            {"type": "const_string", "value": "</think>"},
            {"type": "json_schema", "json_schema": SCHEMA, "max_tokens": 40},
        ],
    },
}
answers = tt.constraints.json_schema(SCHEMA).accepts
tagged = tt.constraints.json_schema(SCHEMA, whitespace="flexible").accepts  # as structural tags write it
KINDS = [
    ({"json": SCHEMA}, answers),
    ({"json": json.dumps(SCHEMA)}, answers),
    ({"json_object": True}, lambda text: isinstance(json.loads(text), dict)),
    ({"regex": SENTENCE}, re.compile(SENTENCE).fullmatch),
    ({"choice": [" yes", " no, never"]}, [" yes", " no, never"].__contains__),
    ({"grammar": 'root ::= " a" [b-d]+ "."'}, re.compile(" a[b-d]+[.]").fullmatch),
    ({"grammar": 'start: " a" /[b-d]+/ "."'}, re.compile(" a[b-d]+[.]").fullmatch),
    ({"structural_tag": json.dumps(TAG)}, lambda text: tagged(text.split("</think>")[1])),
]  # fmt: skip
OURS = [
    ({"regex": SENTENCE}, re.compile(SENTENCE).fullmatch),
    ({"regex": SENTENCE, "hmm": False}, re.compile(SENTENCE).fullmatch),
    ({"regex": SENTENCE, "strength": 0.5, "max_new_tokens": 14}, re.compile(SENTENCE).fullmatch),
    ({"keywords": [["dog"]], "hmm": False}, re.compile(r"(?s).*\bdog\b.*").fullmatch),
    (json.dumps({"json_schema": SCHEMA, "hmm": False}), answers),
]


@pytest.fixture(scope="module")
def llm(start):
    return start(logits_processors=[processor()])


def params(**settings):
    from vllm import SamplingParams

    return SamplingParams(**{"temperature": 1.0, "seed": 0, "max_tokens": 64, **settings})


def structured(**settings):
    from vllm.sampling_params import StructuredOutputsParams

    return StructuredOutputsParams(**settings)


def texts(llm, requests, prompt=PROMPT):
    return [r.outputs[0] for r in llm.generate([prompt] * len(requests), requests, use_tqdm=False)]


@pytest.mark.parametrize("budget", [28, 30, 33, 64])
def test_structured_output_is_finished_within_any_budget(llm, budget):
    kinds = KINDS if budget == 64 else KINDS[:-1]
    outputs = texts(llm, [params(structured_outputs=structured(**k), max_tokens=budget) for k, _ in kinds])
    for output, (kind, accepts) in zip(outputs, kinds, strict=True):
        assert accepts(output.text), (kind, output.text)
        assert output.finish_reason == "stop"
        assert len(output.token_ids) <= budget


def test_parts_keep_their_own_budgets(llm):
    (output,) = texts(llm, [params(structured_outputs=structured(structural_tag=json.dumps(TAG)))])
    thought, answer = output.text.split("</think>")
    tokenize = llm.get_tokenizer().encode
    assert len(tokenize(thought, add_special_tokens=False)) <= 6
    assert json.loads(answer)


def test_mixed_batches(llm):
    """Both doors, free requests beside them; each request's text is what it is alone."""
    requests = [params(structured_outputs=structured(**k)) for k, _ in KINDS]
    requests += [params(extra_args={"tractile": wish}) for wish, _ in OURS]
    requests += [params(), params(temperature=0)]
    checks = [accepts for _, accepts in KINDS + OURS] + [str, str]
    order = [(7 * i) % len(requests) for i in range(len(requests))]
    outputs = texts(llm, [requests[i] for i in order])
    for i, output in zip(order, outputs, strict=True):
        assert checks[i](output.text), (i, output.text)
    alone = [texts(llm, [requests[i]])[0].text for i in order[:5]]
    assert alone == [output.text for output in outputs[:5]]


def test_several_samples_and_logprobs(llm):
    request = params(n=6, logprobs=3, seed=None, max_tokens=16, structured_outputs=structured(regex=SENTENCE))
    ours = params(n=6, logprobs=3, seed=None, max_tokens=16, extra_args={"tractile": {"regex": SENTENCE}})
    for result in llm.generate([PROMPT] * 2, [request, ours], use_tqdm=False):
        assert len(result.outputs) == 6
        assert len({output.text for output in result.outputs}) > 1
        for output in result.outputs:
            assert re.fullmatch(SENTENCE, output.text)
            assert len(output.logprobs) == len(output.token_ids)


def test_stop_strings_and_stop_tokens(llm):
    """A stop string cuts a text; a stop token stands where the text may end, and nowhere else."""
    dot = llm.get_tokenizer().encode(".", add_special_tokens=False)[-1]
    outputs = texts(
        llm,
        [
            params(structured_outputs=structured(regex=SENTENCE), stop=[" and"]),
            params(structured_outputs=structured(regex=r" [a-z]+ [a-z]+"), stop_token_ids=[dot]),
            params(extra_args={"tractile": {"regex": SENTENCE}}, stop=[" and"]),
        ],
    )
    assert re.fullmatch(" [A-Z][a-z]+", outputs[0].text)
    assert outputs[0].stop_reason == " and"
    assert re.fullmatch(r" [a-z]+ [a-z]+\.?", outputs[1].text)
    assert re.fullmatch(" [A-Z][a-z]+", outputs[2].text)


def test_greedy_and_penalties(llm):
    settings = {"temperature": 0, "repetition_penalty": 1.3, "max_tokens": 28}
    outputs = texts(llm, [params(structured_outputs=structured(json=SCHEMA), **settings)] * 2)
    assert outputs[0].text == outputs[1].text
    assert answers(outputs[0].text)


def test_a_prompt_that_leaves_few_tokens(llm):
    """The context ends before max_tokens: that is the budget."""
    prompt = {"prompt_token_ids": [5] * 482}
    requests = [
        params(structured_outputs=structured(json=SCHEMA), max_tokens=400),
        params(extra_args={"tractile": {"json_schema": SCHEMA}}, max_tokens=400),
    ]
    for result in llm.generate([prompt] * 2, requests, use_tqdm=False):
        assert answers(result.outputs[0].text)
    requests = [params(extra_args={"tractile": {"regex": "(abc ){40}"}}, max_tokens=400)]
    (result,) = llm.generate([prompt], requests, use_tqdm=False)
    assert result.outputs[0].finish_reason == "length"  # nothing fits, and the engine goes on
    assert texts(llm, [params(structured_outputs=structured(choice=["a"]))])[0].text == "a"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"json": SCHEMA}, "26 tokens are needed"),
        ({"regex": "("}, "at position"),
        ({"regex": r"a[^\s\S]"}, "satisf"),
        ({"json": {"type": "nothing"}}, "nothing"),
        ({"grammar": "root ::= missing"}, "missing"),
        ({"structural_tag": "{}"}, "format"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(llm, kind, message):
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError, match=message):
        texts(llm, [params(structured_outputs=structured(**kind), max_tokens=5)])
    assert texts(llm, [params(structured_outputs=structured(choice=["a"]))])[0].text == "a"


def test_engines_that_do_not_ask_keep_their_own_back_end(start):
    """The last of this module: it ends the engine of the others."""
    plain = start(additional_config={})
    (output,) = texts(plain, [params(structured_outputs=structured(choice=[" yes", " no"]))])
    assert output.text in (" yes", " no")
    manager = plain.llm_engine.engine_core.engine_core.structured_output_manager
    assert type(manager.backend).__name__ == "XgrammarBackend"
