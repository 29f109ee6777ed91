"""Annealed SMC: each rung's moves keep its target, E[Ẑ] = Z for ladders that are given, and ladders that are found.

Statistical tests: two-sided error probability 1e-5 for each z-score.
"""

import math
from dataclasses import replace

import pytest
import torch
from kernel_reference import PSI, TABULAR, no_double, states_of, transition_matrix
from smc_reference import (
    CASES,
    COMPILED,
    HMM,
    LIMIT,
    N,
    against_enumeration,
    enumerate_target,
    phi,
    spelled,
)

import tractile as tt
from tractile.inference import smc as sampling
from tractile.inference.smc.annealed import _Climb, conditional_ess
from tractile.inference.smc.kernel import Kernel, Powers
from tractile.inference.smc.particles import Particles

LADDER = (0.3, 0.8, 1.0)


@pytest.mark.parametrize(
    ("name", "potential_only"), [*((name, False) for name in TABULAR), ("gcd, warm", True)]
)
@pytest.mark.parametrize("case", CASES)
def test_one_particle_is_exact(case, name, potential_only):
    """By transition matrices: moves keep each π_λ; E of the weights' product, and of each text, is the target's weight."""
    make, value = PSI["text"]
    kernel, found = states_of(case, TABULAR[name], make(), None, value)
    climb, paths = (
        _Climb(kernel, potential_only, 1, sampling.multinomial, 0.0),
        Particles.joined([path for _, path, *_ in found]),
    )
    law = torch.tensor([sum(log_q) for _, _, log_q, _ in found], dtype=torch.float64).exp()
    weights, psi = paths.token_log_weights.sum(1), paths.log_psi
    flow = law * climb._log_gain(paths, climb._powers(0.0), Powers(0.0, 0.0)).exp()
    before = 0.0
    for power in (0.4, 1.0):
        a, b = climb._powers(power)
        flow = flow * climb._log_gain(paths, climb._powers(power), climb._powers(before)).exp()
        here = replace(kernel, powers=Powers(a, b))
        matrix = transition_matrix(here, found)
        pi = law * (a * weights + b * psi).exp()
        assert torch.allclose(pi @ matrix, pi, atol=1e-12)
        assert torch.allclose(flow.sum(), pi.sum(), atol=1e-12)
        flow, before = flow @ matrix, power
    lm, fsa = CASES[case]
    truth = {x: p * value(x, case) for x, p in enumerate_target(lm, fsa, N).items()}
    assert float(flow.sum()) == pytest.approx(sum(truth.values()), abs=1e-12)
    assert torch.allclose(flow, torch.tensor([truth[x] for x, *_ in found], dtype=torch.float64), atol=1e-12)


SETTINGS = {
    "lm": ({"proposal": "lm"}, lambda x, c: 1.0),
    "lcd": ({"proposal": "lcd", "resampling": "without-replacement"}, lambda x, c: 1.0),
    "gcd": ({"proposal": sampling.GCDProposal(2.0), "resampling": "multinomial"}, lambda x, c: 1.0),
    "pgcd": ({"proposal": "pgcd", "cut": lambda n: range(1, n + 1)}, lambda x, c: 1.0),
    "a function": (
        {
            "proposal": "gcd",
            "potential": sampling.FunctionPotential(phi, sampling.every_line),
        },
        lambda x, c: phi(spelled(x, c)),
    ),
    "a function alone": (
        {"proposal": "gcd", "potential": phi, "potential_only": True},
        lambda x, c: phi(spelled(x, c)),
    ),
    "a check, zero for some": (
        {
            "proposal": "lm",
            "potential": lambda text: float(no_double(text)),
            "potential_only": True,
            "particles": 30,
        },
        lambda x, c: float(no_double(spelled(x, c))),
    ),
    "awrs": (
        {"proposal": sampling.AWRSProposal(no_double)},
        lambda x, c: float(no_double(spelled(x, c))),
    ),
}


def target_of(case, psi):
    lm, fsa = CASES[case]
    return {x: p * psi(x, case) for x, p in enumerate_target(lm, fsa, N).items()}


def annealed(case, seed, **options):
    settings = {"particles": 5, "max_new_tokens": N, "ess_threshold": 0.9, "hmm": HMM, "ladder": LADDER}
    return sampling.annealed(CASES[case][0], [], COMPILED[case], seed=seed, **settings | options)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("case", CASES)
def test_unbiased_on_a_given_ladder(case, name):
    options, psi = SETTINGS[name]
    z = against_enumeration(lambda seed: annealed(case, seed, **options), target_of(case, psi), runs=16)
    assert bool((z.abs() < LIMIT).all()), z


def test_moves_of_the_last_target_at_every_rung_are_caught(monkeypatch):
    right = Kernel.log_acceptance
    monkeypatch.setattr(Kernel, "log_acceptance", lambda self, *a: right(replace(self, powers=Powers()), *a))
    options = {"proposal": sampling.GCDProposal(2.0), "potential": phi, "particles": 20, "moves": 3}
    target = target_of("ended", SETTINGS["a function"][1])
    z = against_enumeration(lambda seed: annealed("ended", seed, **options), target, runs=40)
    assert float(z.abs().max()) > LIMIT


@pytest.mark.parametrize("case", CASES)
def test_a_ladder_frozen_from_a_pilot_is_unbiased(case):
    options, psi = SETTINGS["a function"]

    def run(seed):
        pilot = annealed(case, 1000 + seed, **options | {"ladder": 0.8})
        return annealed(case, seed, **options | {"ladder": pilot.ladder})

    z = against_enumeration(run, target_of(case, psi), runs=16)
    assert bool((z.abs() < LIMIT).all()), z


def test_a_ladder_that_is_found_is_consistent():
    """200 particles: within 4.42 standard errors of the truth."""
    options, psi = SETTINGS["a function"]
    options = options | {"ladder": 0.8, "particles": 200}
    z = against_enumeration(lambda seed: annealed("ended", seed, **options), target_of("ended", psi), runs=12)
    assert bool((z.abs() < LIMIT).all()), z


def rare(text):
    return 1e-3 ** text.count("a")


def test_the_conditional_effective_sample_size_sets_the_ladder():
    by_share = {}
    for share in (0.2, 0.5, 0.9):
        post = annealed(
            "exact",
            0,
            proposal="gcd",
            potential=rare,
            ladder=share,
            particles=50,
            moves=0,
            ess_threshold=0.0,
        )
        assert post.ladder[-1] == 1.0
        assert all(a < b for a, b in zip(post.ladder, post.ladder[1:], strict=False))
        # Without moves or resampling the rungs can be followed: the weights are (W Ψ)^λ.
        log_value, before = post.log_weights, 0.0
        for rung in post.ladder:
            weights = (before * log_value).softmax(0)
            kept = conditional_ess(weights, (rung - before) * log_value)
            assert kept == pytest.approx(share, abs=1e-9) or (rung == 1.0 and kept > share)
            before = rung
        by_share[share] = post.ladder[0]
    assert by_share[0.2] > by_share[0.5] > by_share[0.9]


def test_one_rung_without_moves_is_importance_sampling():
    post = annealed("exact", 3, proposal="gcd", potential=phi, ladder=[1], moves=0, ess_threshold=0.0)
    lm = CASES["exact"][0]
    plain = sampling.importance_sampling(lm, [], COMPILED["exact"], "gcd", None, 5, N, 3, potential=phi)
    assert post.token_ids == plain.token_ids
    assert post.log_weights.tolist() == pytest.approx(plain.log_weights.tolist())
    assert post.ladder == (1.0,)


def test_copies_are_moved_and_the_same_seed_gives_the_same():
    lm = tt.CircuitLM(tt.HMM.random(6, 12, seed=1, dtype=torch.float64))
    few = sampling.FunctionPotential(lambda text: 0.02 ** len(set(text.split())))

    def run(seed, moves):
        return sampling.annealed(lm, [], None, "lm", None, 16, 6, seed, potential=few, moves=moves)

    post = run(0, 1)
    assert post.token_ids == run(0, 1).token_ids
    assert post.resampled
    assert len(post.ess_trace) == len(post.ladder) + 1
    assert post.lineage.shape == (16, len(post.resampled))
    assert sum(run(seed, 1).distinct for seed in range(4)) > 1.3 * sum(
        run(seed, 0).distinct for seed in range(4)
    )


def test_all_dead_is_a_failed_posterior():
    post = annealed("exact", 0, proposal="gcd", potential=lambda text: 0.0)
    assert post.failed
    assert post.ladder == ()
    assert post.log_evidence == -math.inf


@pytest.mark.parametrize(
    "ladder", [0.0, 1.0, 1.5, [], [0.5], [0.5, 0.5, 1], [0.0, 1.0], [1.0, 0.5], "x", None, True]
)
def test_ladders_that_do_not_climb_are_refused(ladder):
    with pytest.raises(tt.errors.EvidenceError, match="ladder must"):
        annealed("exact", 0, proposal="gcd", ladder=ladder)


def test_bad_settings():
    for bad in ({"particles": 0}, {"moves": -1}, {"resampling": "no such"}, {"ess_threshold": -1}):
        with pytest.raises(tt.errors.EvidenceError):
            annealed("exact", 0, proposal="gcd", **bad)
    with pytest.raises(tt.BudgetTooSmall):
        annealed("ended", 0, proposal="gcd", max_new_tokens=1)
