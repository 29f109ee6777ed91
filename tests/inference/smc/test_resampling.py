"""Resampling schemes are unbiased and never copy a dead particle; the effective sample size is what it says."""

import itertools
import math

import pytest
import torch

from tractile.inference.smc.resampling import (
    SCHEMES,
    effective_sample_size,
    multinomial,
    residual,
    stratified,
    systematic,
)


@pytest.mark.parametrize("scheme", [stratified, systematic, residual])
def test_low_variance_schemes_keep_equal_weights_as_they_are(scheme):
    weights = torch.full((7,), 1 / 7, dtype=torch.float64)
    for seed in range(20):
        ancestors = scheme(weights, torch.Generator().manual_seed(seed), 7)
        assert ancestors.tolist() == list(range(7))


@pytest.mark.parametrize("scheme", [multinomial, stratified, systematic])
@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2**-53])
def test_no_random_number_revives_the_dead(monkeypatch, scheme, uniform):
    weights = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0], dtype=torch.float64)
    monkeypatch.setattr(torch, "rand", lambda n, **kw: torch.full((n,), uniform, dtype=kw["dtype"]))
    ancestors = scheme(weights, torch.Generator(), 5)
    assert set(ancestors.tolist()) <= {1, 3}


def test_effective_sample_size():
    assert effective_sample_size(torch.zeros(8, dtype=torch.float64)) == pytest.approx(8)
    assert effective_sample_size(torch.tensor([-1e5, -math.inf, -math.inf])) == pytest.approx(1)
    assert effective_sample_size(torch.tensor([1.0, 3.0]).log()) == pytest.approx(16 / 10)
    assert effective_sample_size(torch.full((3,), -math.inf)) == 0.0


@pytest.mark.parametrize("weights", [[0.5, 0.2, 0.1, 0.1, 0.1], [0.1, 0.2, 0.3, 0.4], [0.0, 0.85, 0.0, 0.15]])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_scheme_makes_the_copies_that_it_promises(scheme, weights):
    w = torch.tensor(weights, dtype=torch.float64)
    for count, seed in itertools.product((1, 2, 3, 5), range(8)):
        drawn = SCHEMES[scheme](w, torch.Generator().manual_seed(seed), count)
        ancestors, new = drawn if isinstance(drawn, tuple) else (drawn, None)
        copies, expected = torch.bincount(ancestors, minlength=len(w)), count * w
        if new is not None:
            assert float(new.sum()) == pytest.approx(1.0)
            assert int(copies.max()) == 1
            assert len(ancestors) == min(count, int((w > 0).sum()))
        if scheme in ("systematic", "residual"):
            assert bool((copies >= (expected - 1e-9).floor()).all())
        if scheme == "systematic":
            assert bool((copies <= (expected + 1e-9).ceil()).all())
        if scheme == "stratified":
            assert bool(((copies - expected).abs() < 2).all())
