"""The processor for vLLM's second model runner on CPU tensors: every row is that of a processor of its own."""

import pytest
from second_runner import LENGTH, SLOTS, TOKENIZER, WISHES, Guided, Masks, Params, Runner


@pytest.mark.parametrize("adapter", [Masks, pytest.param(Guided, marks=pytest.mark.long)])
def test_every_row_is_as_if_it_were_alone(adapter):
    runner = Runner(adapter, 0)
    for _ in range(14):
        for slot in range(SLOTS):
            if slot not in runner.live and runner.random.random() < 0.5:
                runner.add(slot, runner.random.choice(WISHES))
        if runner.live:
            runner.step()


def test_a_request_comes_back_with_what_it_had():
    runner = Runner(Masks, 1)
    a = TOKENIZER.convert_tokens_to_ids("a")
    runner.add(2, {"regex": "(a|b)*c", "max_new_tokens": 4}, output=[a, a])
    runner.step()


def test_the_context_ends_before_max_tokens():
    runner = Runner(Masks, 2)
    runner.states.prompt_len.np[0] = LENGTH - 3
    runner.states.total_len.gpu[0] = LENGTH - 3
    runner.processor.add_request(0, Params(16, {"tractile": {"regex": "a{1,9}"}}))
    runner.live[0] = (Params(3, {"tractile": {"regex": "a{1,9}"}}), {"regex": "a{1,9}"})
    while runner.live:
        runner.step()
