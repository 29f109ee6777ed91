"""Input layers against their definitions: rows by enumeration, densities by scipy."""

import numpy as np
import pytest
import torch
import zoo
from scipy import stats

import tractile as tt
from tractile.errors import CircuitError, EvidenceError, ShapeError
from tractile.layers import Bernoulli, Categorical, Dense, Gaussian, Hadamard, Indicator, Sum
from tractile.layers.input import KhatriRao

F64 = torch.float64


def tensor(*values):
    return torch.tensor(values, dtype=F64)


# each layer with its table (units, values), written down from the definition


@pytest.mark.parametrize("name", zoo.DISCRETE)
def test_rows_are_those_of_the_units_that_are_asked_for(name):
    """In any order, some more than once, and as many as there are."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        layer, table = zoo.DISCRETE[name](rng, 2, 0.2)
        for count in (1, len(table), 7):
            unit = rng.integers(len(table), size=count)
            assert np.allclose(layer.log_rows(torch.tensor(unit)).exp(), table[unit])


# ---------------------------------------------------------------------------------------------------------- densities

MEAN, VARIANCE, WEIGHT = np.array([0.0, 3.0, 3.5]), np.array([1.0, 0.25, 4.0]), np.array([0.3, 0.5, 0.2])
P = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])


def mixed(dtype=F64):
    """Σ_j w_j N(x_0; μ_j, σ²_j) P[j, x_1]."""
    circuit = tt.Circuit()
    a = circuit.input(Gaussian(torch.tensor(MEAN, dtype=dtype), torch.tensor(VARIANCE, dtype=dtype)), 0)
    b = circuit.input(Categorical(torch.tensor(P, dtype=dtype)), 1)
    circuit.sum(Sum(Dense(torch.tensor(WEIGHT[None], dtype=dtype))), circuit.product(Hadamard(), a, b))
    return circuit


def test_samples_of_a_real_variable():
    """Kolmogorov–Smirnov, each failing by chance once in 1,000."""
    circuit, generator = mixed(), torch.Generator().manual_seed(3)
    free = tt.sample(circuit, 2000, generator=generator)
    assert free.dtype == F64
    given_y = tt.sample(circuit, 2000, {1: 0}, generator=generator)
    assert set(given_y[:, 1].tolist()) == {0.0}

    def cdf(weight):
        return lambda x: sum(
            w * stats.norm.cdf(x, m, v**0.5)
            for w, m, v in zip(weight / weight.sum(), MEAN, VARIANCE, strict=True)
        )

    assert stats.kstest(free[:, 0].numpy(), cdf(WEIGHT)).pvalue > 1e-3
    assert stats.kstest(given_y[:, 0].numpy(), cdf(WEIGHT * P[:, 0])).pvalue > 1e-3
    nan = torch.nan
    part = tt.sample(circuit, 500, torch.tensor([[1.5, nan], [nan, 1.0]], dtype=F64), generator=generator)
    assert set(part[:, 0, 0].tolist()) == {1.5}
    assert stats.kstest(part[:, 1, 0].numpy(), cdf(WEIGHT * P[:, 1])).pvalue > 1e-3


def test_what_has_no_answer_over_real_variables_says_so():
    circuit = mixed()
    for asked in (0, (1, 0)):
        with pytest.raises(EvidenceError, match="continuous"):
            tt.conditional(circuit, None, asked)
    with pytest.raises(CircuitError, match="continuous"):
        tt.count(circuit, paths=True)
    with pytest.raises(CircuitError, match="continuous"):
        tt.entropy(circuit, joint=True)
    for item in ({1, 2}, torch.rand(3, 4), torch.inf, "a", torch.tensor([1, 2])):
        with pytest.raises(EvidenceError, match="variable 0 is continuous"):
            tt.log_marginal(circuit, {0: item})
    with pytest.raises(EvidenceError, match="whole numbers"):
        tt.log_marginal(circuit, torch.tensor([[0.0, 0.5]]))
    with pytest.raises(EvidenceError, match="observed values"):
        tt.log_marginal(circuit, torch.tensor([[0.0, 2.0]]))
    gaussian = circuit.layer(0)
    with pytest.raises(CircuitError, match="both must be Gaussian"):
        gaussian.times(Bernoulli(tensor(0.5)))
    with pytest.raises(ShapeError, match="must be tables"):
        KhatriRao(gaussian, gaussian)
    with pytest.raises(CircuitError, match="no table"):
        gaussian.table()


def test_one_variable_has_one_set_of_values():
    circuit = tt.Circuit()
    a, b = circuit.input(Bernoulli(tensor(0.5)), 0), circuit.input(Indicator(3), 0)
    circuit.sum(Sum(Dense(torch.ones(1, 1)), Dense(torch.ones(1, 3))), a, b)
    with pytest.raises(CircuitError, match="variable 0 has layers of 2 and of 3 values"):
        tt.partition(circuit)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bernoulli(tensor(0.5, 1.5)), lambda: Bernoulli(torch.rand(2, 2)), lambda: Bernoulli(torch.tensor([1])),
        lambda: Indicator(0), lambda: Gaussian(tensor(0.0), tensor(0.0)), lambda: Gaussian(tensor(0.0), tensor(1.0, 2.0)),
        lambda: Gaussian(tensor(0.0), tensor(1.0), tensor(0.0, 0.0)),
    ],
)  # fmt: skip
def test_bad_parameters(make):
    with pytest.raises(ShapeError):
        make()
