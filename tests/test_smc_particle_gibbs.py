"""Particle Gibbs: begun in the target, a sweep stays there, with every proposal; chains from anywhere get there; R̂ by hand.

Statistical tests: two-sided error probability 1e-5 for each z-score, 1e-5 for each chi-square.
"""

import math

import pytest
import torch
from kernel_reference import PSI, RANDOM, TABULAR, exact_start, kernel_for, states_of
from scipy.stats import chisquare
from smc_reference import CASES, COMPILED, EOS, FUNCTIONS, HMM, LIMIT, N, enumerate_target, moments, padded

import tractile as tt
from tractile.inference.smc.chains import split_r_hat
from tractile.inference.smc.kernel import Kernel
from tractile.inference.smc.particle_gibbs import ConditionalRun
from tractile.inference.smc.particles import Particles
from tractile.inference.smc.proposals import draw_tokens

CHAINS = 600


def gibbs(case, proposal, **options):
    settings = {"particles": 3, "max_new_tokens": N, "ess_threshold": 1.1, "moves": 0, "sweeps": 0}
    return tt.inference.smc.particle_gibbs(
        CASES[case][0], [], COMPILED[case], proposal, HMM, **settings | options
    )


def begun_in_the_target(case, proposal, psi, **options):
    """Chains whose sequences are exact samples, and the target as {sequence: share}."""
    make, value = PSI[psi]
    _, found = states_of(case, proposal, make(), None, value)
    share = torch.tensor([p for *_, p in found], dtype=torch.float64)
    drawn = torch.multinomial(share, CHAINS, True, generator=torch.Generator().manual_seed(1))
    chains = gibbs(case, proposal, chains=CHAINS, potential=make(), **options)
    chains._start = Particles.joined([path for _, path, *_ in found]).take(drawn)
    return chains, {x: p for x, *_, p in found}


def p_value(chains, target):
    """Chi-square of the chains' last sequences against the target; rare ones together."""
    x = list(target)
    reached = [x.index(padded(chain[-1].token_ids, N, EOS)) for chain in chains.chains(0).draws]
    counts = torch.bincount(torch.tensor(reached), minlength=len(x)).double()
    expected = torch.tensor([target[one] for one in x], dtype=torch.float64) * len(reached)
    rare = expected < 5
    pair = [torch.cat([t[~rare], t[rare].sum()[None]]) for t in (counts, expected)]
    return chisquare(pair[0][pair[1] > 0], pair[1][pair[1] > 0]).pvalue


PROPOSALS = TABULAR | {"gcd, cold": tt.inference.smc.GCDProposal(0.4)}


@pytest.mark.parametrize(("case", "psi"), [("ended", "text"), ("exact", "none")])
@pytest.mark.parametrize("name", PROPOSALS)
def test_a_sweep_keeps_the_target(case, name, psi):
    """The law of the sequences, all particles by weight, and E[1/Ẑ] = 1/Z where not all particles can die."""
    chains, target = begun_in_the_target(case, PROPOSALS[name], psi)
    assert p_value(chains.refine(1), target) > 1e-5
    sweep = chains._history[0]
    x = [padded(ids, N, EOS) for ids in sweep.posterior.token_ids]
    weights = sweep.posterior.log_weights.view(CHAINS, -1).softmax(1)
    for f in FUNCTIONS[1:]:
        values = (weights * torch.tensor([f(one) for one in x]).view(CHAINS, -1)).sum(1)
        truth = sum(p * f(one) for one, p in target.items())
        assert abs(float(values.mean()) - truth) < LIMIT * float(values.std()) / math.sqrt(CHAINS) + 1e-9
    if name in ("lm", "lcd"):
        return
    inverse = (-sweep.log_evidence).exp()
    lm, fsa = CASES[case]
    z = sum(p * PSI[psi][1](one, case) for one, p in enumerate_target(lm, fsa, N).items())
    assert abs(float(inverse.mean()) - 1 / z) < LIMIT * float(inverse.std()) / math.sqrt(CHAINS) + 1e-9


@pytest.mark.parametrize("name", RANDOM)
def test_random_weights_belong_to_the_state(name):
    make, value = RANDOM[name]
    lm, fsa = CASES["exact"]
    target = {x: p * float(value(x, "exact")) for x, p in enumerate_target(lm, fsa, N).items()}
    kernel, generator = kernel_for("exact", make()), torch.Generator().manual_seed(3)
    chains = gibbs("exact", make(), chains=200, moves=1)
    chains._start = exact_start(kernel, 200, generator)
    z, *_ = moments(target)
    assert p_value(chains.refine(1), {x: p / z for x, p in target.items() if p}) > 1e-5


def test_a_chain_that_forgets_its_sequence_is_caught(monkeypatch):
    """The next sequence is one of the new particles."""

    def renewed(self):
        index, _ = draw_tokens(self.log_weights[:, 1:].softmax(1), self.generator)
        return self.particles.take(self._shape[1] * torch.arange(len(index)) + index + 1)

    monkeypatch.setattr(ConditionalRun, "chosen", renewed)
    chains, target = begun_in_the_target("ended", tt.inference.smc.GCDProposal(0.4), "text")
    assert p_value(chains.refine(3), target) < 1e-5


@pytest.mark.parametrize("proposal", ["gcd", "pgcd"])
def test_averages_arrive_at_the_truth(proposal):
    """Chains from anywhere; the error of batches of sweeps."""
    case, value = "ended", PSI["text"][1]
    lm, fsa = CASES[case]
    target = {x: p * value(x, case) for x, p in enumerate_target(lm, fsa, N).items()}
    z, *totals = moments(target)
    chains = gibbs(case, proposal, potential=PSI["text"][0](), chains=20, moves=1, particles=3, sweeps=40)
    post = chains.posterior(burn_in=10)
    of_chain = torch.arange(30 * 20 * 3).view(30, 20, 3)
    for f, total in zip(FUNCTIONS[1:], totals, strict=True):
        values = torch.tensor([f(padded(ids, N, EOS)) for ids in post.token_ids])
        means = torch.stack([(post.weights * values)[of_chain[:, c].flatten()].sum() * 20 for c in range(20)])
        assert abs(float(means.mean()) - total / z) < 5.9 * float(means.std()) / math.sqrt(20)
    assert abs(post.log_evidence - math.log(z)) < 0.1
    assert chains.chains().r_hat() < 1.2


def test_it_goes_on_where_it_stopped():
    whole = gibbs("ended", "gcd", sweeps=6, chains=2, moves=1)
    parts = gibbs("ended", "gcd", sweeps=2, chains=2, moves=1).refine(1).refine(3)
    assert whole.sweeps == parts.sweeps == 6
    assert whole.posterior().token_ids == parts.posterior().token_ids
    assert whole.chains().draws == parts.chains().draws
    assert whole.chains(0).trace.shape == (2, 7)


def test_an_interrupted_sweep_is_not_recorded(monkeypatch):
    def interrupted(self, *given):
        raise KeyboardInterrupt

    chains = gibbs("ended", "gcd", chains=2, moves=1, sweeps=3)
    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "move", interrupted)
        with pytest.raises(KeyboardInterrupt):
            chains.refine(1)
    assert chains.sweeps == 3
    assert len(chains.refine(2).posterior(0).texts) == 5 * 2 * 3


def test_it_stops_when_the_chains_agree():
    found = gibbs("ended", "gcd", chains=6, moves=1, particles=8, sweeps=200, until=1.2)
    assert 4 <= found.sweeps < 200
    assert found.chains().r_hat() < 1.2


def test_split_r_hat_by_hand():
    values = torch.tensor([[0.0, 2.0, 4.0, 2.0], [1.0, 1.0, 3.0, 5.0]])
    halves = torch.tensor([[0.0, 2.0], [1.0, 1.0], [4.0, 2.0], [3.0, 5.0]])
    within, between = float(halves.var(1).mean()), float(halves.mean(1).var())
    assert split_r_hat(values) == pytest.approx(math.sqrt(0.5 + between / within))
    assert split_r_hat(torch.ones(2, 6)) == 1.0
    assert split_r_hat(torch.tensor([[1.0] * 4, [2.0] * 4])) == math.inf
    assert 0.99 < split_r_hat(torch.randn(4, 4000, generator=torch.Generator().manual_seed(0))) < 1.01


def test_bad_settings():
    for bad in ({"particles": 1}, {"chains": 0}, {"sweeps": -1}, {"moves": -1}, {"ess_threshold": -1}):
        with pytest.raises(tt.errors.EvidenceError):
            gibbs("ended", "gcd", **bad)
    with pytest.raises(tt.errors.EvidenceError, match="no sweep is left"):
        gibbs("ended", "gcd").posterior()
    with pytest.raises(tt.errors.EvidenceError, match="four samples"):
        gibbs("ended", "gcd", sweeps=2).chains().r_hat()
    with pytest.raises(tt.BudgetTooSmall):
        gibbs("ended", "gcd", max_new_tokens=1)
    with pytest.raises(tt.errors.NoParticleSurvived, match="no chain can begin"):
        gibbs("ended", "gcd", potential=lambda text: 0.0)
