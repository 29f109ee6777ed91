"""Constrained adaptive rejection sampling: exact from the first draw on, cheaper with each, and properly weighted in smc."""

import math

import pytest
import torch
from smc_reference import (
    CASES,
    COMPILED,
    EOS,
    LIMIT,
    N,
    against_enumeration,
    enumerate_target,
    padded,
    z_scores,
)

import tractile as tt


def accepted(case, samples, seed, proposal=None):
    return tt.inference.smc.rejection_sampling(CASES[case][0], [], COMPILED[case], samples, N, seed,
                                 proposal=proposal or tt.inference.smc.CARSProposal())  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_first_sample_and_the_second_are_exact(case):
    """By z-tests over fresh objects: the law of a sample does not depend on how much was learned before it."""
    target = enumerate_target(*CASES[case], N)
    z = sum(target.values())
    runs = [accepted(case, 2, seed).posterior.token_ids for seed in range(120)]
    for place in (0, 1):
        drawn = [padded(run[place], N, EOS) for run in runs]
        for x, p in target.items():
            share = p / z
            error = math.sqrt(share * (1 - share) / len(runs))
            assert abs(drawn.count(x) / len(runs) - share) < LIMIT * error


@pytest.mark.parametrize("case", CASES)
def test_the_chance_of_acceptance_is_z_over_the_bound(case):
    """The bound before each try is above Z, never rises, and tells the chance of acceptance."""
    z = sum(enumerate_target(*CASES[case], N).values())
    surplus = []
    for seed in range(12):
        proposal, bound = tt.inference.smc.CARSProposal(), 0.0
        for t in range(8):
            assert proposal.log_bound <= bound + 1e-9
            bound = proposal.log_bound
            found = tt.inference.smc.rejection_sampling(CASES[case][0], [], COMPILED[case], 1, N, 100 * seed + t, max_tries=1,
                                          proposal=proposal)  # fmt: skip
            assert bound >= math.log(z) - 1e-6
            if found.accepted:
                assert found.posterior.log_evidence == pytest.approx(bound, abs=1e-6)
            surplus.append(found.accepted - z / math.exp(bound))
    assert abs(float(z_scores(torch.tensor(surplus)[:, None], [0.0]))) < LIMIT


@pytest.mark.parametrize("case", CASES)
def test_proper_weights_in_smc_while_it_learns(case):
    target, proposal = enumerate_target(*CASES[case], N), tt.inference.smc.CARSProposal()
    z = against_enumeration(
        lambda seed: tt.smc(
            CASES[case][0], [], COMPILED[case], proposal, None, 4, N, seed, ess_threshold=0.9
        ),
        target,
    )
    assert bool((z.abs() < LIMIT).all()), z


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_rejected_once_all_is_known(case):
    proposal = tt.inference.smc.CARSProposal()
    accepted(case, 250, 0, proposal)
    found = accepted(case, 60, 1, proposal)
    z = sum(enumerate_target(*CASES[case], N).values())
    assert math.exp(proposal.log_bound) == pytest.approx(z, rel=1e-3)
    assert found.tries <= 62
    assert found.acceptance_rate == pytest.approx(z, rel=0.03)


def test_it_stops_learning_where_it_is_full_and_stays_exact():
    target = enumerate_target(*CASES["ended"], N)
    z, proposal = sum(target.values()), tt.inference.smc.CARSProposal(max_prefixes=2)
    found = accepted("ended", 400, 0, proposal)
    drawn = [padded(ids, N, EOS) for ids in found.posterior.token_ids]
    for x, p in target.items():
        share = p / z
        assert abs(drawn.count(x) / 400 - share) < LIMIT * math.sqrt(share * (1 - share) / 400)
    assert found.tries > 400


def test_another_proposal_is_refused():
    with pytest.raises(tt.errors.EvidenceError, match="CARSProposal"):
        tt.inference.smc.rejection_sampling(
            CASES["ended"][0], [], COMPILED["ended"], 1, N, proposal=tt.inference.smc.GCDProposal()
        )
