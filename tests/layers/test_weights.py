"""Weights that are no weights are refused where a layer or model is made, and where a caller's function returns them."""

import pytest
import torch

import tractile as tt
from tractile.circuits import mixture
from tractile.circuits.builders import factorised
from tractile.circuits.chain import Chain
from tractile.errors import EvidenceError, ShapeError
from tractile.inference.smc.resampling import multinomial
from tractile.layers import Categorical, Dense, Gaussian, Identity, Monarch
from tractile.layers.dense_tensor import DenseTensor

NAN, INF = float("nan"), float("inf")


def logs(*p):
    return torch.tensor(p, dtype=torch.float64).log()


# ------------------------------------------------------------------------------------------------ layers

COIN = factorised([Categorical(torch.tensor([[0.5, 0.5]]))])
MAKERS = {
    "Categorical": lambda w: Categorical(torch.tensor([[0.5, w]])),
    "Dense": lambda w: Dense(torch.tensor([[0.5, w]])),
    "DenseTensor": lambda w: DenseTensor(torch.tensor([[0.5, w]]), 1),
    "Monarch": lambda w: Monarch([torch.tensor([[[0.5, w], [0.5, 0.5]]]), torch.ones(1, 2, 1)]),
    "mixture": lambda w: mixture([0.5, w], [COIN, COIN]),
    "cp": lambda w: tt.circuits.builders.cp([Categorical(torch.ones(2, 2))], torch.tensor([0.5, w])),
    "HMM: initial": lambda w: tt.HMM([1 - w, w], torch.eye(2), torch.ones(2, 1)),
    "HMM: transition": lambda w: tt.HMM([0.5, 0.5], [[1 - w, w], [0.5, 0.5]], torch.ones(2, 1)),
    "HMM: emission": lambda w: tt.HMM([1.0], [[1.0]], [[1 - w, w]]),
    "Chain: final": lambda w: Chain(
        (torch.ones(1),), Identity(1), Categorical(torch.ones(1, 2)), Identity(1), (torch.tensor([w]),)
    ),
    "map": lambda w: COIN.map(lambda t: t * w),
}


@pytest.mark.parametrize("weight", [-0.5, NAN, INF])
@pytest.mark.parametrize("name", MAKERS)
def test_a_weight_that_is_negative_or_no_number_is_refused(name, weight):
    with pytest.raises(ShapeError):
        MAKERS[name](weight)
    if not name.startswith("HMM"):
        MAKERS[name](0.0)


@pytest.mark.parametrize(("mean", "variance"), [(NAN, 1.0), (INF, 1.0), (0.0, NAN), (0.0, INF), (0.0, -1.0)])
def test_a_gaussian_of_no_numbers_is_refused(mean, variance):
    with pytest.raises(ShapeError, match="Gaussian"):
        Gaussian(torch.tensor([mean]), torch.tensor([variance]))


# ------------------------------------------------------------------------------------------------ resampling

LM = tt.lm.TableLM({(): logs(0.6, 0.4), (0,): logs(0.1, 0.9), (1,): logs(0.7, 0.3)})
FA = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2), (2, [0, 1], 3)], 0, 3, 2)
NONSENSE = {
    "too few": lambda w, g, n: multinomial(w, g, n)[1:], "none": lambda w, g, n: multinomial(w, g, n)[:0],
    "a table": lambda w, g, n: multinomial(w, g, n)[None], "out of range": lambda w, g, n: multinomial(w, g, n) + len(w),
    "negative": lambda w, g, n: multinomial(w, g, n) - len(w), "no indices": lambda w, g, n: w,
    "nothing": lambda w, g, n: None, "the dead": lambda w, g, n: torch.full((n,), int(w.argmin())),
    "too few weights": lambda w, g, n: (multinomial(w, g, n), torch.ones(n - 1)),
    "negative weights": lambda w, g, n: (multinomial(w, g, n), torch.full((n,), -1.0)),
    "no weights": lambda w, g, n: (multinomial(w, g, n), torch.full((n,), NAN)),
}  # fmt: skip


@pytest.mark.parametrize("name", NONSENSE)
def test_a_scheme_that_returns_nonsense_is_refused(name):
    kills = tt.smc(LM, [], FA, "lm", particles=20, max_new_tokens=3, seed=0)
    assert any(p.log_weight == -INF for p in kills.particles)  # so that there are dead particles to choose
    with pytest.raises(EvidenceError, match="resampling"):
        tt.smc(
            LM,
            [],
            FA,
            "lm",
            particles=20,
            max_new_tokens=3,
            ess_threshold=INF,
            resampling=NONSENSE[name],
            seed=0,
        )


# ------------------------------------------------------------------------------------------------ speculative sampling


@pytest.mark.parametrize("proposal", ["gcd", "pgcd", "pgcd-mixture"])
def test_a_draft_that_the_model_cannot_continue_has_failed(proposal):
    """After 0 the constraint wants a 2, to which the model gives zero."""
    lm = tt.lm.TableLM({(): logs(0.5, 0.5, 0, 0), (0,): logs(0, 0, 0, 1.0), (1,): logs(0, 0, 1.0, 0)})
    fa = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 2, 2)], 0, 2, 4)
    hmm = tt.HMM.random(2, 4, seed=0, dtype=torch.float64)
    found = tt.decoding.speculative(
        lm, [], fa, hmm, proposal, particles=400, max_new_tokens=2, seed=0
    ).posterior
    assert not found.failed
    assert abs(found.log_evidence - logs(0.5)) < 0.15
    assert {p.token_ids for p in found.particles if p.weight > 0} == {(1, 2)}
    assert all(p.log_weight == -INF for p in found.particles if p.token_ids != (1, 2))
    never = tt.lm.TableLM({(): logs(0, 0, 0.5, 0.5)})
    failed = tt.decoding.speculative(never, [], fa, hmm, proposal, particles=4, max_new_tokens=2)
    assert failed.posterior.failed
    assert failed.posterior.log_evidence == -INF
    assert failed.tokens_per_pass <= 1
