"""An HMM whose states emit what the prompt has more readily."""

import pytest
import torch

import tractile as tt
from tractile_bench.guides import cache_model


def test_emissions_of_the_prompt_are_raised_and_sum_to_one():
    hmm = tt.HMM.random(3, 6, seed=1, dtype=torch.float64)
    raised = cache_model(hmm, [2, 4, 2], boost=3.0)
    for state in range(3):
        weights = [float(hmm.emission_probs[state, v]) * (4 if v in (2, 4) else 1) for v in range(6)]
        expected = torch.tensor([w / sum(weights) for w in weights], dtype=torch.float64)
        torch.testing.assert_close(raised.emission_probs[state], expected)
    torch.testing.assert_close(raised.initial_probs, hmm.initial_probs)
    text = torch.tensor([[2, 4, 4, 2]])
    assert tt.log_marginal(raised, text) > tt.log_marginal(hmm, text)


def test_no_boost_and_no_prompt_change_nothing():
    hmm = tt.HMM.random(3, 6, seed=1, dtype=torch.float64)
    for same in (cache_model(hmm, [1, 2], boost=0.0), cache_model(hmm, [])):
        torch.testing.assert_close(same.emission_probs, hmm.emission_probs)


@pytest.mark.parametrize(("prompt", "boost"), [([6], 1.0), ([-1], 1.0), ([1], -0.5), ([1], float("nan"))])
def test_what_is_no_boost_and_no_token_is_refused(prompt, boost):
    with pytest.raises(tt.errors.ShapeError, match="cache_model"):
        cache_model(tt.HMM.random(3, 6, seed=1), prompt, boost)
