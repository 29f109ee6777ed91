"""Intervals by hand, and how often they hold the enumerated truth."""

import itertools
import math

import pytest
import torch
from smc_reference import CASES, COMPILED, EOS, HMM, N, enumerate_target, padded

import tractile as tt


def post(weights, lineage=None):
    n = len(weights)
    log_weights = torch.tensor(weights, dtype=torch.float64).log()
    table = None if lineage is None else torch.tensor(lineage)
    return tt.inference.smc.Posterior([(i,) for i in range(n)], [str(i) for i in range(n)], log_weights, torch.zeros(n).double(),
                        lineage=table)  # fmt: skip


def value(particle):
    return float(particle.text)


def test_without_resampling_it_is_the_delta_method():
    found = post([1.0, 2.0, 1.0]).expectation(value, 0.9)
    w, x = torch.tensor([0.25, 0.5, 0.25]), torch.tensor([0.0, 1.0, 2.0])
    variance = 1.5 * float((w * (x - 1.0)).square().sum())
    assert found.value == post([1.0, 2.0, 1.0]).expectation(value) == 1.0
    assert found.error == pytest.approx(math.sqrt(variance))
    assert found.high - found.value == pytest.approx(found.value - found.low)
    assert found.high - found.low < post([1.0, 2.0, 1.0]).expectation(value, 0.99).high - found.low


def test_particles_of_one_ancestor_are_one_group_and_the_largest_variance_is_taken():
    """Two generations: all of one ancestor, which tells nothing, and pairs."""
    found = post([1.0] * 4, [[0, 0], [0, 0], [0, 1], [0, 1]]).expectation(value, 0.95)
    pairs = [0.25 * (-1.5 - 0.5), 0.25 * (0.5 + 1.5)]
    assert found.error == pytest.approx(math.sqrt(2 * sum(d * d for d in pairs)))
    alone = post([1.0] * 4, [[0], [0], [0], [0]]).expectation(value, 0.95)
    assert alone.error == 0.0


def test_shares_stay_between_zero_and_one():
    groups = post([1.0] * 10).group_by(lambda p: int(p.text) < 9, 0.95)
    assert list(groups) == [True, False]
    assert float(groups[True]) == pytest.approx(0.9)
    for share in groups.values():
        assert 0 <= share.low < share.value < share.high <= 1
    (certain,) = post([1.0] * 10).group_by(lambda p: "all", 0.95).values()
    assert certain.high == pytest.approx(1)
    assert certain.high <= 1
    assert 0.5 < certain.low < 0.9  # Wilson's interval of ten of ten
    (poor,) = post([1.0] * 10, [[0]] * 10).group_by(lambda p: "all", 0.95).values()
    assert poor.low < 0.1  # ten of one ancestor
    for level in (0, 1, 2.0, "0.9", True):
        with pytest.raises(tt.errors.EvidenceError, match="level must be"):
            post([1.0]).group_by(value, level)


def test_runs_differ_by_run():
    runs = tt.inference.smc.Runs([post([1.0, 3.0]), post([2.0, 2.0]), post([3.0, 1.0])])
    found, means = runs.expectation(value), torch.tensor([0.75, 0.5, 0.25])
    assert found.value == pytest.approx(0.5)
    assert found.error == pytest.approx(float(means.std()) / math.sqrt(3))
    assert found.error == pytest.approx(runs.group_by(value)[1.0].error)


def test_pooled_runs_share_no_ancestor():
    posts = tt.smc(CASES["ended"][0], prompts=[[], []], fa=COMPILED["ended"], proposal="gcd", particles=6,
                   max_new_tokens=N, ess_threshold=1.1)  # fmt: skip
    table, own = tt.inference.smc.Runs(posts).pooled().lineage, posts[0].lineage
    assert not set(table[:6].flatten().tolist()) & set(table[6:].flatten().tolist())
    assert all((table[:6, -1][i] == table[:6, -1][j]) == (own[i, -1] == own[j, -1]) for i, j in
               itertools.product(range(6), repeat=2))  # fmt: skip


@pytest.mark.parametrize(
    ("options", "least"),
    [({"ess_threshold": 0.0}, 0.85), ({"ess_threshold": 1.1, "resampling": "multinomial"}, 0.85), ({}, 0.85)],
    ids=["no resampling", "always", "systematic"],
)
def test_intervals_hold_the_truth(options, least):
    """95 % intervals of 80 runs of 24 particles: below 85 % has probability 4e-4 where 95 % are right."""
    lm, fsa = CASES["ended"]
    target = enumerate_target(lm, fsa, N)
    z = sum(target.values())
    truth = sum(p * sum(x) for x, p in target.items()) / z
    share = sum(p for x, p in target.items() if x[0] == 1) / z
    posts = tt.smc(lm, prompts=[[]] * 80, fa=COMPILED["ended"], proposal="gcd", hmm=HMM, particles=24,
                   max_new_tokens=N, **options)  # fmt: skip
    means = [one.expectation(lambda p: sum(padded(p.token_ids, N, EOS)), 0.95) for one in posts]
    groups = [one.group_by(lambda p: p.token_ids[0] == 1, 0.95).get(True) for one in posts]
    held = [e.low <= truth <= e.high for e in means]
    assert least <= sum(held) / 80
    assert least <= sum(e is not None and e.low <= share <= e.high for e in groups) / 80
    wide = sum(e.high - e.low for e in means) / 80
    spread = torch.tensor([e.value for e in means]).std()
    assert wide < 2 * 3 * float(spread)  # and no wider than three standard deviations to each side
