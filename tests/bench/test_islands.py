"""Islands: unbiased together, the first is the run alone, and never worse than one island with its share."""

import math

import pytest
import torch
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
from tractile_bench.islands import Island, run_islands

ISLANDS = {
    "names": [Island("gcd", 3), Island("pgcd", 4)],
    "strengths": [Island("gcd", 3), Island(sampling.LookaheadProposal(0.4), 2), Island("pgcd", 2)],
    "twists": [
        Island("lcd", 2, {"potential": sampling.LookaheadPotential()}),
        Island("pgcd", 5, {"potential": sampling.PrefixPotential()}),
    ],
}


def run(islands, case, seed, **settings):
    given = {"lm": CASES[case][0], "prompt": [], "fa": COMPILED[case], "hmm": HMM, "max_new_tokens": N}
    return run_islands(islands, seed, **(given | settings))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ISLANDS)
def test_unbiased(case, name):
    target = enumerate_target(*CASES[case], N)
    z = against_enumeration(lambda seed: run(ISLANDS[name], case, seed, ess_threshold=1.1)[0], target)
    assert bool((z.abs() < LIMIT).all()), z


def test_a_potential_of_all_islands():
    expert = sampling.FunctionPotential(phi, sampling.at_end)
    target = {x: p * phi(spelled(x, "ended")) for x, p in enumerate_target(*CASES["ended"], N).items()}
    z = against_enumeration(lambda seed: run(ISLANDS["names"], "ended", seed, potential=expert)[0], target)
    assert bool((z.abs() < LIMIT).all()), z


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(5))
def test_never_worse_than_gcd_with_its_share(case, seed):
    """Also beside a guide that is wrong on purpose; the first island is GCD alone, to the bit."""
    wrong = Island(sampling.LookaheadProposal(9.0), 12, {"potential": sampling.LookaheadPotential(9.0)})
    post, parts = run([Island("gcd", 4), wrong], case, seed)
    alone = tt.smc(CASES[case][0], [], COMPILED[case], "gcd", HMM, 4, N, seed)
    assert parts[0].to_dict() == alone.to_dict()
    assert post.log_evidence >= alone.log_evidence + math.log(4 / 16) - 1e-12
    mean = (4 * math.exp(alone.log_evidence) + 12 * math.exp(parts[1].log_evidence)) / 16
    assert post.log_evidence == pytest.approx(math.log(mean))
    assert len(post.particles) == 16
    assert torch.isfinite(post.log_potentials[post.log_weights > -torch.inf]).all()
