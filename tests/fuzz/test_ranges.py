"""Random chains whose states differ by any factor, with exact zeros, in every query, against a recursion in log space."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.distill.evaluate import predictions
from tractile.inference import NextToken, Real
from tractile.inference.queries.counts import counts_by_derivatives
from tractile.layers import Categorical, Dense, Identity


def rows(rng, *shape, spread, zeros):
    """Distributions with entries over ``spread`` decimal orders, some zero, none all zero."""
    weight = 10.0 ** -(rng.random(shape) * spread) * (rng.random(shape) >= zeros)
    last = rng.integers(shape[-1], size=shape[:-1])
    np.put_along_axis(weight, last[..., None], 1.0, -1)
    return weight / weight.sum(-1, keepdims=True)


@st.composite
def cases(draw):
    """(HMM, two texts of one length, tolerance): states that keep to themselves, go left to right, or mix."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    hidden, vocab_size, n = (
        int(rng.integers(1, 5)),
        int(rng.integers(2, 4)),
        int(rng.integers(1, rng.choice([60, 160]))),
    )
    dtype, spread, zeros = rng.choice([0, 1]), rng.choice([1, 5, 12, 30]), rng.choice([0.0, 0.0, 0.4])
    dtype = (torch.float32, torch.float64)[dtype]
    transition = rows(rng, hidden, hidden, spread=spread, zeros=zeros)
    kind = rng.choice(["apart", "nearly apart", "left to right", "mixed"])
    if kind == "apart":
        transition = np.eye(hidden)
    elif kind == "nearly apart":
        transition = np.eye(hidden) + 10.0 ** -rng.integers(5, 36) * transition
    elif kind == "left to right":
        transition = np.triu(transition) + np.eye(hidden)
    transition = transition / transition.sum(1, keepdims=True)
    first = rows(rng, hidden, spread=spread, zeros=zeros)
    emission = rows(rng, hidden, vocab_size, spread=spread, zeros=zeros)
    hmm = tt.HMM(*(torch.tensor(p).to(dtype) for p in (first, transition, emission)))
    runs = np.repeat(rng.integers(0, vocab_size, 4), rng.integers(0, 20, 4))[:n]
    text = np.concatenate([runs, rng.integers(0, vocab_size, n - len(runs))])
    x = torch.tensor(np.stack([text, rng.integers(0, vocab_size, n)]))
    return hmm, x, 2e-4 if dtype == torch.float32 else 1e-8


def recursion(hmm, text):
    """(log p(text), log p(x_<t, v) for each t and the token after the text, log p(z_t | text) for each t)."""
    initial, a, b = (
        log(p.double().numpy()) for p in (hmm.initial_probs, hmm.transition.dense(), hmm.emission_probs)
    )
    alpha, opened, alphas, beta = initial, [], [], np.zeros(len(a))
    for v in text:
        opened.append(np.logaddexp.reduce(alpha[:, None] + b, 0))
        alphas.append(alpha + b[:, v])
        alpha = np.logaddexp.reduce(alphas[-1][:, None] + a, 0)
    opened.append(np.logaddexp.reduce(alpha[:, None] + b, 0))
    total, posterior = np.logaddexp.reduce(alphas[-1]), []
    for t in reversed(range(len(text))):
        posterior.append(alphas[t] + beta - total)
        beta = np.logaddexp.reduce(a + b[:, text[t]] + beta, 1)
    return total, opened, np.exp(posterior[::-1])


def normalised(row):
    return row - np.logaddexp.reduce(row)


@given(case=cases())
def test_states_that_differ_by_any_factor(case):
    hmm, x, tolerance = case
    n = x.shape[1]
    with np.errstate(invalid="ignore"):
        found = [recursion(hmm, text) for text in x.tolist()]
    total = np.array([one[0] for one in found])
    chain = tt.circuits.Chain(
        (hmm.initial_probs,),
        Identity(hmm.hidden),
        Categorical(hmm.emission_probs),
        Dense(hmm.transition.weight),
        hmm.final,
    )
    learned = hmm.map(lambda p: p.clone().requires_grad_())
    for logs in (tt.log_marginal(hmm, x), tt.log_marginal(chain, x), tt.log_marginal(learned, x).detach()):
        assert_log_close(logs, total, tolerance)
    assert_log_close(
        predictions(hmm, x)[0].double().sum(1)[np.isfinite(total)], total[np.isfinite(total)], tolerance
    )
    possible = np.flatnonzero(np.isfinite(total))
    if not len(possible):
        return
    x = x[possible]
    found, opened = [found[i] for i in possible], torch.cat([x, torch.full((len(possible), 1), -1)], 1)
    ahead = [normalised(one[1][-1]) for one in found]
    lm = tt.CircuitLM(hmm)
    lm.start(x.tolist())
    assert_log_close(lm.log_probs(), ahead, tolerance)
    query = NextToken(hmm, n + 1, Real()).start(len(x))
    query.resume(x)
    assert_log_close(query.scores(), ahead, tolerance)
    assert_log_close(tt.conditional(hmm, opened, n), ahead, tolerance)
    assert_log_close(tt.inference.marginals(hmm, opened)[n], ahead, tolerance)
    posterior = np.stack([one[2] for one in found])
    np.testing.assert_allclose(tt.smooth(hmm, x).exp(), posterior, rtol=2e-3, atol=1e-4)
    for counts in (
        counts_by_derivatives(hmm, x).of(hmm.initial_probs),
        tt.inference.expected_counts(hmm, x).of(hmm.initial_probs),
    ):
        np.testing.assert_allclose(counts, posterior[:, 0].sum(0), rtol=2e-3, atol=1e-3)
