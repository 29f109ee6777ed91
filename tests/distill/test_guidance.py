"""How much an HMM guides, by the spread of weights, and posteriors of its hidden states."""

import pytest
import torch

import tractile as tt
from tractile import distill


def test_what_a_guide_is_worth() -> None:
    """An HMM that is the model leaves nothing to chance, and a weaker one something; without one there is more."""
    truth = tt.HMM.random(5, 4, seed=3, dtype=torch.float64)
    other = tt.HMM.random(5, 4, seed=4, dtype=torch.float64)
    mixed = tt.HMM(
        torch.lerp(truth.initial_probs, other.initial_probs, 0.3),
        torch.lerp(truth.transition.weight, other.transition.weight, 0.3),
        torch.lerp(truth.emission_probs, other.emission_probs, 0.3),
    )
    lm = tt.CircuitLM(truth)
    edges = [(0, [1, 2, 3], 0), (0, 0, 1), (1, 1, 0), (1, 0, 2), (2, [1, 2], 2)]
    fa = tt.Automaton.from_edges(edges, 0, {2}, 4)

    def after(prompt: list[int]) -> tt.HMM:
        message = truth.initial_probs
        for token in prompt:
            message = (message * truth.emission_probs[:, token]) @ truth.transition.dense()
        return tt.HMM(message / message.sum(), truth.transition, truth.emission_probs)

    guides = {"none": None, "mixed": mixed, "truth": after}
    found = distill.guidance(lm, [[], [1], [2, 3]], fa, guides, 7)
    assert found["truth"].deviation < 1e-6
    assert found["truth"].effective == pytest.approx(1)
    assert 1e-3 < found["mixed"].deviation < found["none"].deviation
    assert found["none"].effective < found["mixed"].effective < 1
