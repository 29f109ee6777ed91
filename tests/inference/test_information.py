"""Information quantities, marginals, sampling and k-best against enumeration."""

import numpy as np
import pytest
import torch
from chain_tables import markov, table
from oracle import log
from scipy import stats

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError, EvidenceError
from tractile.inference import alpha_divergence, chi_squared, hellinger, power, renyi_divergence
from tractile.layers import Categorical, Dense, Gaussian, Hadamard, Sum


def normalised(circuit):
    p = table(circuit)
    return p / p.sum()


def xlogy(x, y):
    return np.where(x > 0, x * log(np.where(x > 0, y, 1)), 0).sum()


@pytest.mark.parametrize("seed", range(6))
def test_powers_and_divergences(seed):
    rng = np.random.default_rng(seed)
    full, holes = markov(rng, zeros=0.0), markov(rng, zeros=0.3)
    p, q = normalised(holes), normalised(full)
    for a in (0.5, 2, -1.5, 0):
        values = table(holes)
        expected = np.where(values > 0, np.where(values > 0, values, 1) ** float(a), 0)
        np.testing.assert_allclose(table(power(holes, a)), expected, rtol=1e-10, atol=1e-300)
    for a in (0.3, 2.5):
        overlap = (p**a * q ** (1 - a)).sum()
        assert renyi_divergence(holes, full, a).item() == pytest.approx(np.log(overlap) / (a - 1), abs=1e-10)
        assert alpha_divergence(holes, full, a).item() == pytest.approx(
            (1 - overlap) / (a * (1 - a)), rel=1e-10, abs=1e-10
        )
    assert chi_squared(holes, full).item() == pytest.approx((p**2 / q).sum() - 1, abs=1e-10)
    assert hellinger(holes, full).item() == pytest.approx(np.sqrt(1 - np.sqrt(p * q).sum()), abs=1e-7)
    assert hellinger(full, full).item() == pytest.approx(0, abs=1e-6)
    assert renyi_divergence(full, full, 3).item() == pytest.approx(0, abs=1e-10)
    if (p == 0).any():
        assert (
            renyi_divergence(full, holes, 2)
            == chi_squared(full, holes)
            == alpha_divergence(full, holes, 2)
            == torch.inf
        )
        assert renyi_divergence(full, holes, 0.5) < torch.inf


def test_divergences_of_what_they_are_not_for():
    hidden, fair = tt.HMM.random(2, 2), tt.Automaton.from_edges([(0, [0, 1], 0)], 0, [0], vocab_size=2)
    for a in (1, 0, -1, float("nan"), float("inf")):
        with pytest.raises(CircuitError, match="α"):
            renyi_divergence(fair, fair, a, n=2)
    for pair, name in (((hidden, fair), "p"), ((fair, hidden), "q")):
        with pytest.raises(CircuitError, match=f"{name} must be deterministic"):
            hellinger(*pair, n=2)
    with pytest.raises(CircuitError, match="power: the circuit must be deterministic"):
        power(hidden.unroll(2), 2)
    with pytest.raises(CircuitError, match="finite"):
        power(fair.unroll(2), float("inf"))


def test_divergences_have_derivatives():
    def coins(x):
        return builders.factorised([Categorical(torch.stack([1 - p, p])[None]) for p in x])

    p, q = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([0.3, 0.8], [0.6, 0.4]))
    for ask in (chi_squared, hellinger, lambda a, b: renyi_divergence(a, b, 0.5)):
        assert torch.autograd.gradcheck(lambda x, y, ask=ask: ask(coins(x), coins(y)), (p, q))


def test_entropies_of_chains():
    """A Markov chain is an HMM whose tokens are its states."""
    a = torch.tensor([[0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    markov_chain = tt.HMM(torch.tensor([0.2, 0.8], dtype=torch.float64), a, torch.eye(2, dtype=torch.float64))
    fair = tt.Automaton.from_edges([(0, [0, 1], 0)], start=0, accept=[0], vocab_size=2)
    p = normalised(markov_chain.unroll(4))
    assert tt.entropy(markov_chain, n=4).item() == pytest.approx(-xlogy(p, p))
    divergence = tt.inference.kl_divergence(markov_chain, fair, n=4).item()
    assert divergence == pytest.approx(xlogy(p, p) + 4 * np.log(2))
    hidden = tt.HMM.random(2, 2, dtype=torch.float64)
    assert tt.inference.cross_entropy(hidden, markov_chain, n=4).item() == pytest.approx(
        -xlogy(normalised(hidden.unroll(4)), p)
    )
    odd = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)], 0, [1], 2)
    assert tt.inference.cross_entropy(fair, odd, n=4) == torch.inf
    assert tt.inference.kl_divergence(odd, fair, n=4).item() == pytest.approx(np.log(2))


def test_what_is_missing_is_named():
    hidden, fair = tt.HMM.random(2, 2), tt.Automaton.from_edges([(0, [0, 1], 0)], 0, [0], vocab_size=2)
    with pytest.raises(CircuitError, match=r"entropy.*joint=True.*not deterministic"):
        tt.entropy(hidden, n=3)
    with pytest.raises(CircuitError, match="q must be deterministic"):
        tt.inference.cross_entropy(fair, hidden, n=3)
    with pytest.raises(CircuitError, match="p must be deterministic"):
        tt.inference.kl_divergence(hidden, fair, n=3)
    with pytest.raises(CircuitError, match="variables"):
        tt.inference.cross_entropy(fair.unroll(2), fair.unroll(3))


# ---------------------------------------------------------------------------------------------- expectation, marginals


# ------------------------------------------------------------------------------------------------- sampling, MPE, k-best


def test_k_best_asks_for_one_row_and_finite_variables():
    hmm = tt.HMM.random(2, 2)
    with pytest.raises(EvidenceError, match="one row"):
        tt.inference.k_best(hmm, 2, torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(EvidenceError, match="k_best: k must be a whole number, 1 or more"):
        tt.inference.k_best(hmm, 0, n=2)
    c = tt.Circuit()
    c.input(Gaussian(torch.zeros(1), torch.ones(1)), 0)
    with pytest.raises(CircuitError, match="continuous"):
        tt.inference.k_best(c, 1)


def test_samples_where_hidden_states_differ_by_more_than_a_float_can():
    """float32 loses e⁻²⁰⁰ beside 1 in one column; the branch of the evidence is still found."""
    c = tt.Circuit()
    tiny = torch.tensor([[1.0, 1e-30]])
    inputs = [c.input(Categorical(torch.cat([tiny, tiny.flip(1)])), v) for v in range(8)]
    c.sum(Sum(Dense(torch.tensor([[1.0, 1e-30]]))), c.product(Hadamard(), *inputs))
    x = tt.sample(c, 3, [0, 1, 0, 1, 0, 1, 0, None])
    assert x[:, 7].tolist() == [0, 0, 0]  # three ones and four zeros: the second branch is 1e-60 as likely
    some = torch.tensor([[0] * 3 + [1] * 5, [1] * 8, [0] * 7 + [1]])
    expected = torch.tensor([-120.0, -30, -30], dtype=torch.float64) * np.log(10)
    torch.testing.assert_close(tt.log_marginal(c, some), expected, rtol=1e-6, atol=0)


def test_a_support_that_lacks_one_value_of_very_many():
    """50²⁰⁰ paths, past every float; and one of 10¹³ values that q excludes."""
    u = torch.full((1, 50), 1 / 50, dtype=torch.float64)
    q = torch.cat([torch.full((1, 49), 1 / 49, dtype=torch.float64), torch.zeros(1, 1)], 1)
    wide, narrow = (builders.factorised([Categorical(w)] * 200) for w in (u, q))
    assert float(tt.inference.kl_divergence(wide, narrow)) == torch.inf
    assert float(tt.inference.kl_divergence(narrow, wide)) == pytest.approx(200 * np.log(50 / 49))
    assert float(tt.inference.kl_divergence(wide, wide)) == pytest.approx(0, abs=1e-9)
    fa = tt.Automaton.from_edges([(0, 0, 0), (0, list(range(1, 10)), 1), (1, list(range(10)), 1)], 0, [1], 10)
    every = builders.factorised([Categorical(torch.full((1, 10), 0.1, dtype=torch.float64))] * 13)
    assert float(tt.inference.kl_divergence(every, every * fa.unroll(13))) == torch.inf


def test_samples_of_a_sum_of_more_terms_than_torch_draws_from(monkeypatch):
    monkeypatch.setattr("tractile.inference.queries.sample_mpe.MOST_TERMS", 2)
    hmm = tt.HMM.random(3, 4, seed=0, dtype=torch.float64)
    drawn = tt.sample(hmm, 20_000, n=2, generator=torch.Generator().manual_seed(0))
    counts = torch.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16)
    expected = tt.conditional(hmm, None, (0, 1), n=2)[0].exp().flatten()
    assert stats.chisquare(counts, expected / expected.sum() * 20_000).pvalue > 1e-4
