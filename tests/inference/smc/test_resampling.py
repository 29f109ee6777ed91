"""Resampling schemes are unbiased and never copy a dead particle; the effective sample size is what it says."""

import math

import pytest
import torch
from smc_reference import z_scores

from tractile.inference.smc.resampling import (
    effective_sample_size,
    multinomial,
    residual,
    stratified,
    systematic,
    without_replacement,
)

SCHEMES = [multinomial, stratified, systematic, residual]
WEIGHTS = [
    torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64),
    torch.tensor([0.0, 0.85, 0.0, 0.15, 0.0], dtype=torch.float64),
    torch.tensor([1e-12, 0.5, 0.25, 0.25 - 1e-12], dtype=torch.float64),
]


@pytest.mark.parametrize("weights", WEIGHTS, ids=["spread", "sparse", "tiny"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_expected_copies_are_n_times_the_weight(scheme, weights):
    """z-test over 4,000 draws at error probability 1e-5 for each particle."""
    generator = torch.Generator().manual_seed(0)
    n = len(weights)
    copies = torch.stack(
        [torch.bincount(scheme(weights, generator), minlength=n) for _ in range(4000)]
    ).double()
    assert bool((copies.sum(dim=1) == n).all())
    assert bool((copies[:, weights == 0] == 0).all())
    z = z_scores(copies, n * weights)
    assert bool((z[copies.std(dim=0) > 0].abs() < 4.42).all())
    fixed = copies.std(dim=0) == 0
    torch.testing.assert_close(copies.mean(dim=0)[fixed], (n * weights)[fixed], rtol=0.0, atol=1e-3)


@pytest.mark.parametrize("scheme", [stratified, systematic, residual])
def test_low_variance_schemes_keep_equal_weights_as_they_are(scheme):
    weights = torch.full((7,), 1 / 7, dtype=torch.float64)
    for seed in range(20):
        ancestors = scheme(weights, torch.Generator().manual_seed(seed))
        assert ancestors.tolist() == list(range(7))


@pytest.mark.parametrize("scheme", [multinomial, stratified, systematic])
@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2**-53])
def test_no_random_number_revives_the_dead(monkeypatch, scheme, uniform):
    weights = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda n, **kw: torch.full((n,), uniform, dtype=kw["dtype"]))
    ancestors = scheme(weights, torch.Generator())
    assert set(ancestors.tolist()) <= {1, 3}


def test_systematic_copies_are_rounded_up_or_down():
    generator = torch.Generator().manual_seed(3)
    for n, count in [(50, 50), (7, 30), (40, 5)] * 5:
        weights = torch.rand(n, dtype=torch.float64, generator=generator)
        weights /= weights.sum()
        copies = torch.bincount(systematic(weights, generator, count), minlength=n)
        assert int(copies.sum()) == count
        assert bool(((copies - count * weights).abs() < 1).all())


@pytest.mark.parametrize("count", [1, 3, 5])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_any_number_of_ancestors(scheme, count):
    generator = torch.Generator().manual_seed(0)
    weights = WEIGHTS[0]
    copies = torch.stack(
        [torch.bincount(scheme(weights, generator, count), minlength=4) for _ in range(500)]
    ).double()
    z = z_scores(copies, count * weights)
    assert bool((z[copies.std(dim=0) > 0].abs() < 4.42).all())


@pytest.mark.parametrize("count", [1, 2, 4, 6, 9])
def test_without_replacement_keeps_expectations_total_and_differences(count):
    """E[new weight of i] = weight of i; no particle twice; heavy ones keep their weight. Error probability 1e-5 each."""
    generator = torch.Generator().manual_seed(1)
    weights = torch.tensor([0.4, 0.0, 0.2, 0.13, 0.1, 0.07, 0.05, 0.05], dtype=torch.float64)
    alive = int((weights > 0).sum())
    found = torch.zeros(600, len(weights), dtype=torch.float64)
    for row in found:
        ancestors, new = without_replacement(weights, generator, count)
        assert len(ancestors.unique()) == len(ancestors) == min(count, alive)
        assert float(new.sum()) == pytest.approx(1.0)
        row[ancestors] = new
    noisy = found.std(dim=0) > 1e-12
    assert bool((z_scores(found, weights)[noisy].abs() < 4.42).all())
    torch.testing.assert_close(found.mean(dim=0)[~noisy], weights[~noisy])
    assert bool((found[:, 0] == 0.4).all()) or count < 3


def test_effective_sample_size():
    assert effective_sample_size(torch.zeros(8, dtype=torch.float64)) == pytest.approx(8)
    assert effective_sample_size(torch.tensor([-1e5, -math.inf, -math.inf])) == pytest.approx(1)
    assert effective_sample_size(torch.tensor([1.0, 3.0]).log()) == pytest.approx(16 / 10)
    assert effective_sample_size(torch.full((3,), -math.inf)) == 0.0
