"""Information quantities, marginals, sampling and k-best against enumeration."""

import numpy as np
import oracle
import pytest
import torch
from chain_tables import markov, table
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log
from scipy import stats

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError, EvidenceError
from tractile.layers import Categorical, Dense, Gaussian, Hadamard, Sum

FEW = settings(max_examples=25, deadline=None)


def normalised(circuit):
    p = table(circuit)
    return p / p.sum()


def xlogy(x, y):
    return np.where(x > 0, x * log(np.where(x > 0, y, 1)), 0).sum()


@pytest.mark.parametrize("seed", range(6))
def test_deterministic_circuits(seed):
    rng = np.random.default_rng(seed)
    full, holes = markov(rng, zeros=0.0), markov(rng, zeros=0.3)
    p, q = normalised(holes), normalised(full)
    assert tt.entropy(holes).item() == pytest.approx(-xlogy(p, p), abs=1e-10)
    assert tt.inference.cross_entropy(holes, full).item() == pytest.approx(-xlogy(p, q), abs=1e-10)
    assert tt.inference.kl_divergence(holes, full).item() == pytest.approx(
        xlogy(p, p) - xlogy(p, q), abs=1e-10
    )
    assert tt.inference.kl_divergence(full, full).item() == pytest.approx(0, abs=1e-10)
    if (p == 0).any():
        assert tt.inference.kl_divergence(full, holes) == torch.inf


def test_entropies_of_chains():
    """A Markov chain is an HMM whose tokens are its states."""
    a = torch.tensor([[0.3, 0.7], [0.6, 0.4]], dtype=torch.float64)
    markov_chain = tt.HMM(torch.tensor([0.2, 0.8], dtype=torch.float64), a, torch.eye(2, dtype=torch.float64))
    fair = tt.Automaton.from_edges([(0, [0, 1], 0)], start=0, accept=[0], vocab_size=2)
    p = normalised(markov_chain.unroll(4))
    assert tt.entropy(markov_chain, n=4).item() == pytest.approx(-xlogy(p, p))
    assert tt.inference.kl_divergence(markov_chain, fair, n=4).item() == pytest.approx(
        xlogy(p, p) + 4 * np.log(2)
    )
    hidden = tt.HMM.random(2, 2, dtype=torch.float64)
    assert tt.inference.cross_entropy(hidden, markov_chain, n=4).item() == pytest.approx(
        -xlogy(normalised(hidden.unroll(4)), p)
    )
    odd = tt.Automaton.from_edges(
        [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)], start=0, accept=[1], vocab_size=2
    )
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


@given(data=st.data())
@FEW
def test_expectations(data):
    vtree = data.draw(oracle.vtrees())
    p, f = data.draw(oracle.plans(vtree)), data.draw(oracle.plans(vtree))
    sizes = dict(sorted(p.sizes.items()))
    evidence, weights = data.draw(oracle.evidence(sizes))
    tables = [oracle.weigh(p.total(), weights, row) for row in range(len(weights[0]))]
    assume(all(t.sum() > 0 for t in tables))
    expected = [(t * f.total()).sum() / t.sum() for t in tables]
    np.testing.assert_allclose(tt.inference.expectation(p.build(), f.build(), evidence), expected, rtol=1e-9)
    rng = np.random.default_rng(0)
    additive = {v: rng.normal(size=d) for v, d in sizes.items() if rng.random() < 0.8}
    if additive:
        expected = []
        for t in tables:
            axes = range(t.ndim)
            single = [t.sum(tuple(b for b in axes if b != a)) / t.sum() for a in axes]
            expected.append(sum(single[list(sizes).index(v)] @ w for v, w in additive.items()))
        actual = tt.inference.expectation(
            p.build(), {v: torch.tensor(w) for v, w in additive.items()}, evidence
        )
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def test_expectation_of_chains():
    rng = np.random.default_rng(0)
    hmm, fsa = oracle.random_hmm(rng, 3, 2), oracle.random_fsa(rng, 3, 2, False)
    p, f = hmm.total(4), fsa.total(4)
    assert tt.inference.expectation(hmm.build(), fsa.build(), n=4).item() == pytest.approx((p * f).sum())
    assert tt.inference.expectation(hmm.build().unroll(4), fsa.build()).item() == pytest.approx((p * f).sum())
    given_ones = tt.inference.expectation(hmm.build(), fsa.build(), torch.tensor([[-1, 1, -1, 0]]))
    assert given_ones.item() == pytest.approx((p * f)[:, 1, :, 0].sum() / p[:, 1, :, 0].sum())
    length = {t: torch.tensor([0.0, 1.0], dtype=torch.float64) for t in range(4)}  # how many ones
    ones = np.indices((2,) * 4).sum(0)
    assert tt.inference.expectation(hmm.build(), length, n=4).item() == pytest.approx((p * ones).sum())
    with pytest.raises(EvidenceError, match="no variables"):
        tt.inference.expectation(hmm.build(), {0: torch.ones(3)}, n=4)
    with pytest.raises(CircuitError, match="f has variables"):
        tt.inference.expectation(hmm.build().unroll(2), hmm.build().unroll(3))


def test_marginals_of_a_chain():
    hmm = oracle.random_hmm(np.random.default_rng(0), 3, 2)
    tokens = torch.tensor([[1, -1, -1], [-1, -1, 0]])
    actual = tt.inference.marginals(hmm.build(), tokens)
    p = hmm.total(3)
    assert_log_close(actual[1], log(np.stack([p[1].sum(1) / p[1].sum(), p[..., 0].sum(0) / p[..., 0].sum()])))


def test_next_variable_in_any_order():
    """p(x) = Π p(x_v | the variables before v) in every order of the variables."""
    rng = np.random.default_rng(0)
    plan = oracle.random_plan(rng, ("kron", 0, ("hadamard", 1, 2)), {0: 2, 1: 3, 2: 2})
    circuit, total = plan.build(), plan.total()
    for order in ([2, 0, 1], [1, 2, 0], [0, 1, 2]):
        x = np.unravel_index(total.argmax(), total.shape)
        log_p = sum(
            tt.conditional(circuit, {u: int(x[u]) for u in order[:i]}, v)[0, x[v]]
            for i, v in enumerate(order)
        )
        assert log_p.item() == pytest.approx(np.log(total[x] / total.sum()))


# ------------------------------------------------------------------------------------------------- sampling, MPE, k-best


@pytest.mark.parametrize("seed", range(4))
def test_circuit_samples(seed):
    """A χ² test of 4,000 samples for each seed; each fails by chance with probability 1e-4."""
    rng = np.random.default_rng(seed)
    vtree = [("kron", 0, ("hadamard", 1, 2)), ("hadamard", 2, 0, 1), 1, ("kron", ("kron", 0, 1), 2)][seed]
    plan = oracle.random_plan(rng, vtree, {0: 2, 1: 3, 2: 2} if seed != 2 else {1: 3})
    p = plan.total().flatten()
    generator = torch.Generator().manual_seed(seed)
    x = tt.sample(plan.build(), 4000, generator=generator).numpy()
    counts = np.bincount(np.ravel_multi_index(x.T, plan.total().shape), minlength=p.size)
    assert counts[p == 0].sum() == 0
    kept = p > 0
    assert stats.chisquare(counts[kept], 4000 * p[kept] / p.sum()).pvalue > 1e-4


def test_samples_given_evidence_of_several_rows():
    """Each row's frequencies within 4.5 standard deviations: an error probability below 1e-4 in all."""
    rng = np.random.default_rng(7)
    plan = oracle.random_plan(rng, ("kron", 0, ("hadamard", 1, 2)), dict.fromkeys(range(3), 2))
    p = plan.total() + 0.0
    evidence = torch.tensor([[1, -1, -1], [-1, 0, -1]])
    x = tt.sample(plan.build(), 5000, evidence, generator=torch.Generator().manual_seed(0))
    assert x.shape == (5000, 2, 3)
    assert bool((x[:, 0, 0] == 1).all())
    assert bool((x[:, 1, 1] == 0).all())
    for actual, exact in ((x[:, 0, 2], p[1].sum(0)), (x[:, 1, 0], p[:, 0].sum(1))):
        q = exact[1] / exact.sum()
        assert abs(actual.double().mean().item() - q) <= 4.5 * np.sqrt(q * (1 - q) / 5000)


def test_product_circuits_are_sampled_by_rows():
    """Kronecker operators and row-wise Kronecker inputs, unrolled: the samples have the chain's distribution (1e-4)."""
    rng = np.random.default_rng(1)
    hmm = oracle.random_hmm(rng, 2, 2)
    fsa = oracle.OracleFSA([(0, 0, 1), (0, 1, 0), (1, 1, 0), (1, 0, 1), (0, 0, 0)], [0], [1], 2)
    p = (hmm.total(3) * fsa.total(3)).flatten()
    circuit = (hmm.build() * fsa.build()).unroll(3)
    x = tt.sample(circuit, 4000, generator=torch.Generator().manual_seed(0)).numpy()
    counts = np.bincount(np.ravel_multi_index(x.T, (2, 2, 2)), minlength=8)
    assert counts[p == 0].sum() == 0
    assert stats.chisquare(counts[p > 0], 4000 * p[p > 0] / p.sum()).pvalue > 1e-4


@given(data=st.data())
@FEW
def test_k_best(data):
    if data.draw(st.booleans()):
        model, n = data.draw(oracle.chains(shapes=[(2, 3), (3, 2), (2, 1)]))
        best, sizes, built = model.best(n), dict.fromkeys(range(n), model.vocab_size), model.build()
    else:
        plan = data.draw(oracle.plans())
        best, sizes, built, n = plan.best(), dict(sorted(plan.sizes.items())), plan.build(), None
    evidence, weights = data.draw(oracle.evidence(sizes, batch=1))
    best = oracle.weigh(best, weights, 0)
    k = data.draw(st.sampled_from([1, 3, 100]))
    if best.max() == 0:
        with pytest.raises(EvidenceError, match="probability zero"):
            tt.inference.k_best(built, k, evidence, n=n)
        return
    x, scores = tt.inference.k_best(built, k, evidence, n=n)
    expected = np.sort(best[best > 0])[::-1][:k]
    assert_log_close(scores, log(expected))
    assert_log_close(log(np.array([best[tuple(row)] for row in x.tolist()])), scores.numpy())
    assert len({tuple(row) for row in x.tolist()}) == len(x)


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


def test_continuous_variables_are_drawn_and_maximised():
    """Mean and share of 10,000 samples within 4.5 standard deviations: an error probability below 1e-4 in all."""
    c = tt.Circuit()
    x = c.input(Gaussian(torch.tensor([-3.0, 3.0]), torch.tensor([1.0, 0.25])), 0)
    y = c.input(Categorical(torch.tensor([[0.9, 0.1], [0.2, 0.8]])), 1)
    c.sum(Sum(Dense(torch.tensor([[0.4, 0.6]]))), c.product(Hadamard(), x, y))
    draws = tt.sample(c, 10_000, generator=torch.Generator().manual_seed(0))
    right = draws[:, 0] > 0
    share = 0.6 + 0.4 * stats.norm.sf(3)
    assert abs(right.double().mean().item() - share) <= 4.5 * np.sqrt(share * (1 - share) / 10_000)
    assert abs(draws[right, 0].mean().item() - 3.0) < 0.05
    ones = draws[right, 1].double().mean().item()
    assert abs(ones - 0.8) <= 4.5 * np.sqrt(0.16 / 6000) + 0.01
    values, score = tt.mpe(c)
    assert values[0].tolist() == [3.0, 1.0]
    assert score.item() == pytest.approx(np.log(0.6 * 0.8 * stats.norm.pdf(0, scale=0.5)), rel=1e-6)
    with pytest.raises(CircuitError, match="continuous"):
        tt.inference.marginals(c)
    with pytest.raises(CircuitError, match="continuous"):
        tt.entropy(c, joint=True)


def test_samples_where_hidden_states_differ_by_more_than_a_float_can():
    """float32 loses e⁻²⁰⁰ beside 1 in one column; the branch of the evidence is still found."""
    c = tt.Circuit()
    tiny = torch.tensor([[1.0, 1e-30]])
    inputs = [c.input(Categorical(torch.cat([tiny, tiny.flip(1)])), v) for v in range(8)]
    c.sum(Sum(Dense(torch.tensor([[1.0, 1e-30]]))), c.product(Hadamard(), *inputs))
    x = tt.sample(c, 3, [0, 1, 0, 1, 0, 1, 0, None])
    assert x.shape == (3, 8)


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
