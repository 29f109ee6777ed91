"""Rejection sampling is exact. CARS: exact from the first draw on, cheaper with each, and properly weighted in smc."""

import math

import pytest
import torch
from smc_reference import (
    CASES,
    COMPILED,
    EOS,
    LIMIT,
    Fsa,
    N,
    as_automaton,
    enumerate_target,
    padded,
    z_scores,
)

import tractile as tt
from tractile_bench.cars import CARS
from tractile_bench.rejection import rejection_sampling

ONE_ONE = Fsa([(0, 0, 0), (0, 1, 1), (1, 0, 1)], 0, [1], 2)


def accepted(case, samples, seed, proposal=None):
    return rejection_sampling(CASES[case][0], [], COMPILED[case], samples, N, seed,
                                 cars=proposal or CARS())  # fmt: skip


def assert_drawn_from_target(samples, case):
    """The share of each sequence within its standard error."""
    target = enumerate_target(*CASES[case], N)
    drawn = [padded(ids, N, EOS) for ids in samples]
    for x, p in target.items():
        share = p / sum(target.values())
        error = math.sqrt(share * (1 - share) / len(drawn))
        assert abs(drawn.count(x) / len(drawn) - share) < LIMIT * error


@pytest.mark.parametrize("case", CASES)
def test_the_chance_of_acceptance_is_z_over_the_bound(case):
    """The bound before each try is above Z, never rises, and tells the chance of acceptance."""
    z = sum(enumerate_target(*CASES[case], N).values())
    surplus = []
    for seed in range(12):
        proposal, bound = CARS(), 0.0
        for t in range(8):
            assert proposal.log_bound <= bound + 1e-9
            bound = proposal.log_bound
            found = rejection_sampling(CASES[case][0], [], COMPILED[case], 1, N, 100 * seed + t, max_tries=1,
                                          cars=proposal)  # fmt: skip
            assert bound >= math.log(z) - 1e-6
            if found.accepted:
                assert found.posterior.log_evidence == pytest.approx(bound, abs=1e-6)
            surplus.append(found.accepted - z / math.exp(bound))
    assert abs(float(z_scores(torch.tensor(surplus)[:, None], [0.0]))) < LIMIT


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_rejected_once_all_is_known(case):
    proposal = CARS()
    accepted(case, 150, 0, proposal)
    found = accepted(case, 40, 1, proposal)
    z = sum(enumerate_target(*CASES[case], N).values())
    assert math.exp(proposal.log_bound) == pytest.approx(z, rel=1e-3)
    assert found.tries <= 42
    assert found.acceptance_rate == pytest.approx(z, rel=0.03)


@pytest.mark.long
def test_it_stops_learning_where_it_is_full_and_stays_exact():
    found = accepted("ended", 400, 0, CARS(max_prefixes=2))
    assert_drawn_from_target(found.posterior.token_ids, "ended")
    assert found.tries > 400


def test_another_proposal_is_refused():
    with pytest.raises(tt.errors.EvidenceError, match="must be None or a CARS"):
        rejection_sampling(
            CASES["ended"][0], [], COMPILED["ended"], 1, N, cars=tt.inference.smc.GCDProposal()
        )


def test_moves_and_chains_refuse_what_learns():
    for sampler in (tt.inference.smc.mcmc, tt.inference.smc.resample_move, tt.smc):
        with pytest.raises(tt.errors.EvidenceError, match=r"proposal must be a tt.inference.smc.Proposal"):
            sampler(CASES["ended"][0], [], COMPILED["ended"], CARS(), max_new_tokens=N)


def test_another_prompt_is_refused():
    cars = CARS()
    for prompt, refused in (((0, 1), False), ((1, 1, 0), True)):
        given = (CASES["ended"][0], prompt, COMPILED["ended"], 5, 6)
        if refused:
            with pytest.raises(tt.errors.EvidenceError, match="another language model, prompt"):
                rejection_sampling(*given, cars=cars)
        else:
            rejection_sampling(*given, cars=cars)


def test_a_product_of_models_has_no_probabilities_to_reject_by():
    with pytest.raises(tt.errors.EvidenceError, match="do not sum to one"):
        rejection_sampling(CASES["ended"][0] ** 2, [], COMPILED["ended"], 3, N)


@pytest.mark.parametrize("name", ["samples", "max_tries", "batch_size"])
@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2"])
def test_numbers_that_are_not_whole_are_refused(name, bad):
    with pytest.raises(tt.errors.EvidenceError, match=f"rejection_sampling: {name} must be a whole number"):
        rejection_sampling(CASES["ended"][0], [], COMPILED["ended"], max_new_tokens=N, **{name: bad})


@pytest.mark.parametrize("case", CASES)
def test_rejection_sampling_is_exact(case):
    """Chi-square against the enumerated conditional at error probability about 1e-5, and a z-test of the rate."""
    lm, fsa = CASES[case]
    target = enumerate_target(lm, fsa, N)
    z = sum(target.values())
    result = rejection_sampling(
        lm, [], as_automaton(fsa), samples=2000, max_new_tokens=N, max_tries=100_000, batch_size=1000
    )
    assert result.accepted == 2000
    counts = {}
    for ids in result.posterior.token_ids:
        x = padded(ids, N, EOS)
        counts[x] = counts.get(x, 0) + 1
    assert set(counts) <= set(target)
    chi = sum((counts.get(x, 0) - 2000 * p / z) ** 2 / (2000 * p / z) for x, p in target.items())
    assert chi < len(target) + 6 * math.sqrt(2 * len(target)) + 12
    assert result.acceptance_rate == pytest.approx(z, abs=4.42 * z * math.sqrt((1 - z) / 2000))
    assert result.posterior.log_evidence == pytest.approx(math.log(result.acceptance_rate))
    assert result.tries >= result.accepted


def test_the_acceptance_rate_is_unbiased_though_sampling_stops_at_a_success():
    """z-test over 250 runs of three samples each, error probability 1e-5; accepted / tries would fail it."""
    lm, fsa = CASES["ended"]
    fa, z = as_automaton(fsa), sum(enumerate_target(*CASES["ended"], N).values())
    runs = [
        rejection_sampling(lm, [], fa, samples=3, max_new_tokens=N, seed=s, batch_size=8) for s in range(250)
    ]
    score = z_scores(torch.tensor([[run.acceptance_rate] for run in runs]), [z])
    assert abs(float(score)) < LIMIT
    naive = z_scores(torch.tensor([[run.accepted / run.tries] for run in runs]), [z])
    assert float(naive) > LIMIT


def test_rejection_sampling_says_when_nothing_was_accepted():
    lm = tt.lm.TableLM({(): torch.tensor([1 - 1e-9, 1e-9], dtype=torch.float64).log()})
    result = rejection_sampling(lm, [], as_automaton(ONE_ONE), samples=5, max_new_tokens=3, max_tries=100)
    assert (result.accepted, result.tries, result.acceptance_rate) == (0, 100, 0.0)
    assert result.posterior.failed
    assert result.posterior.log_evidence == -math.inf
    with pytest.raises(tt.TractileError):
        _ = result.posterior.best
