"""The processor for vLLM's second model runner on CPU tensors: every row is that of a processor of its own."""

import pytest
from second_runner import LENGTH, Guided, Masks, Params, Runner, check_a_return, check_rows


@pytest.mark.parametrize("adapter", [Masks, pytest.param(Guided, marks=pytest.mark.long)])
def test_every_row_is_as_if_it_were_alone(adapter):
    check_rows(Runner(adapter, 0))


def test_a_request_comes_back_with_what_it_had():
    check_a_return(Runner(Masks, 1))


def test_the_context_ends_before_max_tokens():
    runner = Runner(Masks, 2)
    runner.states.prompt_len.np[0] = LENGTH - 3
    runner.states.total_len.gpu[0] = LENGTH - 3
    runner.processor.add_request(0, Params(16, {"tractile": {"regex": "a{1,9}"}}))
    runner.live[0] = (Params(3, {"tractile": {"regex": "a{1,9}"}}), {"regex": "a{1,9}"})
    while runner.live:
        runner.step()
