"""A chain of any kind as a language model, against enumeration: products, Monarch, weights; horizons and their limit."""

import itertools

import pytest
import torch

import tractile as tt
from tractile.circuits import Chain
from tractile.inference import log_marginal
from tractile.layers import Categorical, Dense, Gaussian, Identity
from tractile.lm import CircuitLM

V, N = 3, 6
F64 = torch.float64
FA = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1), (1, [0, 2], 1), (1, 1, 0)], 0, [1], V)
NFA = tt.Automaton.from_edges([(0, [0, 1, 2], 0), (0, 2, 1), (1, [0, 1], 1)], [0, 1], [1], V)
SEQUENCES = torch.tensor(list(itertools.product(range(V), repeat=N)))


def weighted():
    """A chain whose rows sum to anything, with an L of its own."""
    g = torch.Generator().manual_seed(0)
    return Chain(
        (torch.rand(2, generator=g),),
        Dense(torch.rand(2, 3, generator=g)),
        Categorical(torch.rand(3, V, generator=g)),
        Dense(torch.rand(3, 2, generator=g)),
        (torch.rand(2, generator=g),),
    )


A, B, M = tt.HMM.random(3, V, seed=1), tt.HMM.random(2, V, seed=2), tt.HMM.random(4, V, "monarch", seed=3)
CHAINS = {
    "an HMM": A, "Monarch": M, "two HMMs": A * B, "an HMM and an automaton": A * FA,
    "HMM × HMM × DFA × NFA": A * B * FA * NFA, "weighted": weighted(), "weighted × HMM": weighted() * A, "an automaton": FA,
}  # fmt: skip


def after(table, prefix):
    """p(x_t | prefix) under weights of all texts."""
    rest = table[tuple(prefix)]
    rest = rest.sum(tuple(range(1, rest.ndim)))
    return rest / rest.sum()


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("name", CHAINS)
def test_texts_of_a_horizon(name, dtype):
    """At every prefix; rows of different lengths, in another order, and a copy that stays behind."""
    chain = CHAINS[name].to(dtype=dtype)
    table = log_marginal(chain, SEQUENCES).double().exp().view([V] * N)
    lm = CircuitLM(chain, horizon=N)
    rows = [[], [0], [0, 2]]
    lm.start(rows)
    for token in (0, 2, 1):
        expected = torch.stack([after(table, row) for row in rows])
        torch.testing.assert_close(lm.log_probs().exp(), expected, rtol=1e-5, atol=1e-6)
        copy, before = lm.fork(), lm.log_probs()
        tokens = [token if table[(*row, token)].sum() > 0 else -1 for row in rows]
        lm.advance(torch.tensor(tokens))
        assert torch.equal(copy.log_probs(), before)
        lm.select(torch.tensor([2, 0, 1]))
        rows = [row + [t] * (t >= 0) for row, t in zip(rows, tokens, strict=True)]
        rows = [rows[2], rows[0], rows[1]]


@pytest.mark.parametrize("name", [name for name in CHAINS if name != "HMM × HMM × DFA × NFA"])
def test_without_a_horizon_it_is_the_limit(name):
    near, far = CircuitLM(CHAINS[name]), CircuitLM(CHAINS[name].map(lambda t: t.double()), horizon=80)
    for lm in (near, far):
        lm.start([[], [0], [0, 2]])
    torch.testing.assert_close(near.log_probs().exp(), far.log_probs().exp(), rtol=1e-6, atol=1e-9)
    for lm in (near, far):
        lm.advance(torch.tensor([0, 2, -1]))
    torch.testing.assert_close(near.log_probs().exp(), far.log_probs().exp(), rtol=1e-6, atol=1e-9)


def test_a_text_has_no_more_tokens_than_its_horizon():
    lm = CircuitLM(A * B, eos_token_id=2, horizon=2)
    lm.start([[0, 1], [2]])
    assert bool(lm.log_probs()[0].isneginf().all())
    lm.advance(torch.tensor([-1, 2]))
    assert lm.log_probs()[1].tolist() == [-torch.inf, -torch.inf, 0.0]  # and is pinned
    lm.advance(torch.tensor([-1, 2]))
    with pytest.raises(tt.errors.EvidenceError, match="the horizon, 2 tokens"):
        lm.advance(torch.tensor([0, 2]))


def test_what_is_no_language_model_is_refused():
    turns = Chain(
        (torch.tensor([1.0, 0.0]),),
        Identity(2),
        Categorical(torch.tensor([[0.9, 0.1], [0.2, 0.8]])),
        Dense(torch.tensor([[0.0, 1.0], [2.0, 0.0]])),
        (torch.tensor([1.0, 3.0]),),
    )
    with pytest.raises(tt.errors.CircuitError, match="give horizon"):
        CircuitLM(turns)
    CircuitLM(turns, horizon=3)
    ends = tt.Automaton.from_edges([(0, [0, 1], 1)], 0, [1], V)
    with pytest.raises(tt.errors.CircuitError, match="give horizon"):
        CircuitLM(ends)
    with pytest.raises(tt.errors.CircuitError, match="no weight to any text"):
        CircuitLM(ends, horizon=2)
    with pytest.raises(tt.errors.EvidenceError, match="probability is zero"):
        CircuitLM(FA, horizon=1).start([[0]])
    numbers = Gaussian(torch.zeros(2), torch.ones(2))
    real = Chain((torch.ones(2),), Identity(2), numbers, Dense(torch.eye(2)), (torch.ones(2),))
    with pytest.raises(tt.errors.CircuitError, match="over numbers"):
        CircuitLM(real)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_rows_out_of_range_go_on_in_a_wider_one(dtype):
    """Two states apart, of which one falls behind by 1e-400 and then explains what follows; beside an ordinary row."""
    hmm = tt.HMM(
        *(
            torch.tensor(p, dtype=dtype)
            for p in ([0.5, 0.5], [[1.0, 0], [0, 1.0]], [[0.99, 0.01], [0.01, 0.99]])
        )
    )
    lm = CircuitLM(hmm)
    lm.start([[0] * 200, [0, 1]])
    for _ in range(199):
        lm.advance(torch.tensor([1, 0]))
    p = 1 / (1 + 0.99 / 0.01)  # the first state is ahead by one token
    expected = torch.tensor([(1 - p) * 0.99 + p * 0.01, (1 - p) * 0.01 + p * 0.99], dtype=F64)
    torch.testing.assert_close(lm.log_probs()[0].exp(), expected, rtol=1e-4, atol=0)
