"""Hidden states that differ by any factor, beside what tests/fuzz/test_ranges.py draws: the middle of a text, best
explanations, products, learning and densities, against a recursion in log space."""

import math

import numpy as np
import pytest
import torch
from oracle import assert_log_close, log

import tractile as tt
from tractile.distill.sharding import ShardedHMM
from tractile.errors import EvidenceError
from tractile.inference import Real
from tractile.inference.queries.baum_welch import hmm_counts
from tractile.layers import Gaussian

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


def persistent(rare, dtype, leak=0.0):
    """Two states that keep to themselves but for a leak, each of which emits the other's token rarely."""
    stay, sure = ([[1 - x, x], [x, 1 - x]] for x in (leak, rare))
    return tt.HMM(*(torch.tensor(p, dtype=torch.float64).to(dtype) for p in ([0.5, 0.5], stay, sure)))


def left_to_right(dtype, states=4, vocab_size=3):
    """A chain of states from the first to the last, each with words that others hardly know."""
    g = torch.Generator().manual_seed(3)
    stay = 0.9 * torch.eye(states) + 0.1 * torch.diag(torch.ones(states - 1), 1)
    stay[-1, -1] = 1
    emission = torch.rand(states, vocab_size, generator=g) ** 12 + 1e-12
    first = torch.eye(states)[0]
    return tt.HMM(
        *((p.double() / p.double().sum(-1, keepdim=True)).to(dtype) for p in (first, stay, emission))
    )


def mixture(dtype):
    """Three sources of words between which nothing passes, one of them without the token 2."""
    emission = [[0.9, 0.1 - 1e-9, 1e-9], [1e-6, 0.5, 0.5 - 1e-6], [0.999, 0.001, 0.0]]
    return tt.HMM(
        *(
            torch.tensor(p, dtype=torch.float64).to(dtype)
            for p in ([0.6, 0.3, 0.1], np.eye(3).tolist(), emission)
        )
    )


def words(hmm, n, seed=0):
    """Two texts of n tokens: long runs of one token after another, the rarest last, which all states allow."""
    usual = hmm.vocab_size - 1 if hmm.vocab_size == 2 else 1
    runs = [0] * (n // 2 - 6) + [usual] * (n - n // 2 + 6)
    mixed = np.random.default_rng(seed).integers(0, 2, n)
    return torch.tensor([runs, mixed.tolist()])


MODELS = {
    "persistent": lambda dtype: persistent(1e-5, dtype),
    "hardly persistent": lambda dtype: persistent(0.01, dtype),
    "nearly persistent": lambda dtype: persistent(1e-5, dtype, 1e-30),
    "left to right": left_to_right,
    "mixture": mixture,
}
SHORT_CASES = [
    pytest.param(m, n, d, marks=[pytest.mark.long] * (n > 24))
    for m in MODELS
    for n in (24, 150)
    for d in DTYPES
]
SHORT = pytest.mark.parametrize(("name", "n", "dtype"), SHORT_CASES)


def logs(hmm):
    return [log(p.double().numpy()) for p in (hmm.initial_probs, hmm.transition.dense(), hmm.emission_probs)]


def add(x, axis):
    return np.logaddexp.reduce(x, axis)


def alphas(hmm, x):
    """log p(x_<t, z_t) for t = 0 … n: (n + 1, hidden)."""
    alpha, a, b = logs(hmm)
    out = [alpha]
    for v in x:
        out.append(add((out[-1] + b[:, v])[:, None] + a, 0))
    return np.array(out)


def betas(hmm, x):
    """log p(x_t … | z_t) for t = 0 … n: (n + 1, hidden)."""
    _, a, b = logs(hmm)
    out = [np.zeros(len(a))]
    for t, v in reversed(list(enumerate(x))):
        out.append(b[:, v] + (add(a + out[-1], 1) if t < len(x) - 1 else 0))
    return np.array(out[::-1])


def log_p(hmm, x):
    return add(alphas(hmm, x[:-1])[-1] + logs(hmm)[2][:, x[-1]], 0)


def next_token(hmm, x):
    """log p(v | x) of the next token."""
    row = add(alphas(hmm, x)[-1][:, None] + logs(hmm)[2], 0)
    return row - add(row, 0)


@SHORT
def test_values_of_a_position_in_the_middle(name, n, dtype):
    hmm = MODELS[name](dtype)
    x, t = words(hmm, n), n // 3
    alpha, beta, (_, a, b) = alphas(hmm, x[0].tolist()), betas(hmm, x[0].tolist()), logs(hmm)
    row = add((alpha[t] + add(a + beta[t + 1], 1))[:, None] + b, 0)
    open_ = x[:1].clone()
    open_[0, t] = -1
    assert_log_close(tt.conditional(hmm, open_, t)[0], row - add(row, 0), TOLERANCE[dtype])
    assert_log_close(tt.inference.marginals(hmm, open_)[t][0], row - add(row, 0), TOLERANCE[dtype])
    worth = {t: torch.arange(hmm.vocab_size).double()}
    found = tt.inference.expectation(hmm, worth, open_)
    assert found.item() == pytest.approx(np.exp(row - add(row, 0)) @ np.arange(hmm.vocab_size), rel=1e-3)


@SHORT
def test_best_explanations(name, n, dtype):
    hmm = MODELS[name](dtype)
    x = words(hmm, n)
    initial, a, b = logs(hmm)
    for row in x.tolist():
        best = initial
        for v in row:
            best = ((best + b[:, v])[:, None] + a).max(0)
        values, score = tt.mpe(hmm, [*row, None], n=n + 1)
        assert_log_close(score, [(best[:, None] + b).max()], TOLERANCE[dtype])
        assert values[0, :n].tolist() == row


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_with_an_automaton(dtype):
    """Texts of n tokens with exactly one 1 at the end: partition, conditional and sample of HMM × automaton."""
    hmm, n = persistent(1e-5, dtype), 150
    fa = tt.Automaton.from_edges(
        [(s, 0, s + 1) for s in range(n)] + [(n + s, 1, n + s + 1) for s in range(n)], 0, [2 * n], 2
    )
    (x,) = [[0] * n + [1] * n]
    assert_log_close(tt.partition(hmm * fa, n=2 * n), log_p(hmm, x), TOLERANCE[dtype])
    assert_log_close(tt.log_marginal(hmm * fa, torch.tensor([x])), [log_p(hmm, x)], TOLERANCE[dtype])
    assert tt.sample(hmm * fa, 2, n=2 * n).tolist() == [x, x]
    ends = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 1, 1), (0, 0, 2)], 0, [1, 2], 2)
    x = [0] * 70 + [1] * 80
    expected = next_token(hmm, x)
    assert_log_close(tt.conditional(hmm * ends, [*x, None], n)[0], expected, TOLERANCE[dtype])
    query = tt.pgcd(hmm, ends, 2 * n).start(1, budgets=n + 1)
    query.resume(torch.tensor([x]), torch.tensor([n + 1]))
    assert_log_close(query.scores()[0], expected, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_entropy_of_persistent_states(dtype):
    """Joint entropy of a chain of states that keep to themselves: log 2 and n times that of a token."""
    rare, n = 1e-5, 400
    one = -(rare * math.log(rare) + (1 - rare) * math.log1p(-rare))
    assert tt.entropy(persistent(rare, dtype), n=n, joint=True).item() == pytest.approx(
        math.log(2) + n * one, rel=1e-4
    )


def test_gradients_of_rows_computed_again_are_right():
    """Gradients by the logits, beside those of a row that stays in range."""
    hmm = persistent(1e-5, torch.float32, 1e-30)
    x = torch.tensor([[0] * 30 + [1] * 40, [0] * 70])
    trainable = tt.inference.Trainable(hmm)
    tt.log_marginal(trainable(), x).sum().backward()
    exact = tt.inference.Trainable(hmm.to(dtype=torch.float64))
    tt.log_marginal(exact(), x, semiring=tt.inference.Log()).sum().backward()
    for a, b in zip(trainable.raw, exact.raw, strict=True):
        torch.testing.assert_close(a.grad.double(), b.grad, rtol=1e-4, atol=1e-3)


def test_real_itself_gives_no_answer_where_it_lost_one():
    hmm = persistent(1e-5, torch.float32)
    x = torch.tensor([[0] * 10 + [1] * 12, [0] * 22])
    found = tt.log_marginal(hmm, x, semiring=Real())
    assert bool(found[0].isnan())
    wide = hmm.to(dtype=torch.float64)
    assert_log_close(tt.log_marginal(wide, x, semiring=Real()), [log_p(wide, r) for r in x.tolist()], 1e-9)


# ------------------------------------------------------------------------------------------------------------ learning


def test_one_sequence_out_of_range_does_not_stop_learning():
    """201 ordinary sequences and one on which a hidden state is lost in float64, too."""
    hmm = persistent(1e-5, torch.float64)
    g = torch.Generator().manual_seed(0)
    usual = torch.randint(0, 2, (201, 1), generator=g).expand(-1, 150)
    odd = torch.tensor([[0] * 70 + [1] * 80])
    b = hmm.emission_probs
    both = tt.inference.expected_counts(hmm, torch.cat([usual, odd])).of(b)
    torch.testing.assert_close(both, sum(tt.inference.expected_counts(hmm, x).of(b) for x in (usual, odd)))
    new, _ = tt.inference.em_step(hmm, torch.cat([usual, odd]))
    torch.testing.assert_close(new.emission_probs, both / both.sum(1, keepdim=True))
    assert float((new.emission_probs - hmm.emission_probs).abs().max()) > 1e-3


def test_an_impossible_sequence_is_named():
    hmm = mixture(torch.float64)
    never = tt.HMM(hmm.initial_probs, hmm.transition, torch.tensor([[0.5, 0.5, 0.0]]).double().expand(3, 3))
    with pytest.raises(EvidenceError, match="row 1 of the evidence has probability zero"):
        tt.inference.expected_counts(never, torch.tensor([[0, 1], [0, 2]]))


def test_counts_that_are_not_numbers_are_refused():
    hmm = persistent(0.1, torch.float64)
    counts = hmm_counts(hmm.initial_probs, hmm.transition, hmm.emission_probs, torch.tensor([[0, 1, 1]]))
    counts.emission[1, 0] = math.nan
    with pytest.raises(EvidenceError, match="emission row 1"):
        ShardedHMM.of(hmm).m_step(counts)


# ---------------------------------------------------------------------------------------------------------- densities


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sigmas", [5.0, 15.0, 40.0, 1000.0])
def test_conditioning_far_from_the_mean(dtype, sigmas):
    """Two standard normals apart, and a mixture of two components."""
    normal = Gaussian(torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype))
    two = tt.circuits.builders.factorised([normal, normal])
    expected = -0.5 * sigmas**2 - 0.5 * math.log(2 * math.pi)
    assert_log_close(tt.partition(tt.inference.condition(two, {0: sigmas})), expected, 1e-5)
    layer = Gaussian(torch.tensor([0.0, 5.0], dtype=dtype), torch.ones(2, dtype=dtype))
    mixed = tt.circuits.builders.cp([layer, layer], torch.tensor([0.5, 0.5], dtype=dtype))
    for other in (0.5, -sigmas):  # the second observation may call for the other component
        parts = [-0.5 * ((sigmas - m) ** 2 + (other - m) ** 2) - math.log(2 * math.pi) for m in (0.0, 5.0)]
        rest = tt.inference.condition(mixed, {0: sigmas})
        for found in (
            tt.log_marginal(rest, {1: other}),
            tt.log_marginal(mixed, torch.tensor([[sigmas, other]], dtype=dtype)),
        ):
            assert_log_close(found, [np.logaddexp(*parts) - math.log(2)], 1e-5)
