"""Reasoning before structured output inside vLLM: a text is finished however long the model would go on reasoning."""

import json

import pytest
from test_vllm_engine import PROMPT, SCHEMA, answers, params, structured

DRAFTS = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}


@pytest.fixture(scope="module", params=[None, DRAFTS], ids=["", "drafts"])
def llm(request, start):
    """An engine whose model reasons up to an exclamation mark."""
    from vllm.reasoning import ReasoningParserManager
    from vllm.reasoning.basic_parsers import BaseThinkingReasoningParser

    class Bang(BaseThinkingReasoningParser):
        start_token, end_token = "?", "!"

    ReasoningParserManager.register_module("bang", module=Bang)
    return start(reasoning_parser="bang", speculative_config=request.param)


@pytest.mark.parametrize("budget", [28, 40, 64])
def test_the_answer_is_finished_whatever_the_reasoning_takes(llm, budget):
    asked = params(
        n=4, max_tokens=budget, structured_outputs=structured(json=SCHEMA), skip_special_tokens=False
    )
    (result,) = llm.generate([PROMPT], asked, use_tqdm=False)
    tokenizer = llm.get_tokenizer()
    end = tokenizer.convert_tokens_to_ids("!")  # another token, of the byte alone, ends nothing
    for output in result.outputs:
        tokens = list(output.token_ids)
        answer = tokenizer.decode(tokens[tokens.index(end) + 1 :], skip_special_tokens=True)
        assert answers(answer.lstrip(" ")), output.text
        assert output.finish_reason == "stop"
        assert len(output.token_ids) <= budget


def test_a_prompt_that_has_ended_the_reasoning_has_an_answer_alone(llm):
    asked = params(max_tokens=28, structured_outputs=structured(json=SCHEMA))
    (result,) = llm.generate([PROMPT + " Sue!"], asked, use_tqdm=False)
    assert json.loads(result.outputs[0].text)
