"""Hidden states, filtered, smoothed and best paths, against enumeration of all paths of states."""

import itertools
import math

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile.circuits import Chain
from tractile.errors import CircuitError, EvidenceError
from tractile.layers import Gaussian, Identity

FEW = settings(max_examples=12, deadline=None)


class Paths:
    """All paths of units of a chain of n tokens, and the weight of each with some evidence, by ordinary products."""

    def __init__(self, chain, n, weights):
        self.left, self.right = chain.left.dense().double(), chain.right.dense().double()
        self.dims, self.n = chain.inputs.unit_dims, n
        self.initial, self.last = self.outer(chain.initial), self.outer(chain.unit_final)
        table = chain.inputs.table().double().flatten(0, -2)
        seen = [table @ torch.tensor(w).double() for w in weights]
        self.paths = list(itertools.product(range(chain.inputs.num_units), repeat=n))
        self.weights = torch.tensor([self.weight(path, seen) for path in self.paths], dtype=torch.float64)

    @staticmethod
    def outer(vectors):
        out = torch.ones(1).double()
        for v in vectors:
            out = torch.outer(out, v.double()).flatten()
        return out

    def weight(self, path, seen):
        out = float(self.initial @ self.left[:, path[0]]) * float(seen[0][path[0]])
        for t, (i, j) in enumerate(itertools.pairwise(path), 1):
            out *= float(self.right[i] @ self.left[:, j]) * float(seen[t][j])
        return out * float(self.last[path[-1]])

    def marginal(self, t):
        found = torch.zeros(math.prod(self.dims)).double()
        for path, weight in zip(self.paths, self.weights, strict=True):
            found[path[t]] += weight
        return (found / found.sum()).view(self.dims)


def small_chains():
    return oracle.chains(shapes=[(2, 1), (2, 2), (3, 2), (2, 3)])


def drawn(data):
    """A chain, its length, evidence of one row, and the weights that the evidence gives each value."""
    model, n = data.draw(small_chains())
    chain = model.build()
    evidence, weights = data.draw(oracle.evidence(dict.fromkeys(range(n), model.vocab_size), batch=1))
    return chain, n, evidence, [np.asarray(w)[0] for w in weights]


@given(st.data())
@FEW
def test_smoothed_states_and_the_best_path_are_those_of_enumeration(data):
    chain, n, evidence, weights = drawn(data)
    if chain.inputs.num_units**n > 20_000:
        return
    every = Paths(chain, n, weights)
    if not float(every.weights.sum()):
        for ask in (tt.smooth, tt.viterbi):
            with pytest.raises(EvidenceError, match="row 0"):
                ask(chain, evidence, n=n)
        return
    smoothed = tt.smooth(chain, evidence, n=n)[0].exp()
    for t in range(n):
        torch.testing.assert_close(smoothed[t], every.marginal(t), atol=1e-9, rtol=1e-9)
    states, score = tt.viterbi(chain, evidence, n=n)
    assert math.isclose(float(score.exp()), float(every.weights.max()), rel_tol=1e-9)
    found = np.ravel_multi_index(states[0].numpy().reshape(n, -1).T, chain.inputs.unit_dims)
    path = every.paths.index(tuple(found.tolist()))
    assert math.isclose(float(every.weights[path]), float(every.weights.max()), rel_tol=1e-9)


@given(st.data())
@FEW
def test_filtered_states_are_smoothed_ones_without_later_evidence(data):
    chain, n, evidence, weights = drawn(data)
    if chain.inputs.num_units**n > 20_000 or not float(Paths(chain, n, weights).weights.sum()):
        return
    found = tt.filter(chain, evidence, n=n)[0].exp()
    for t in range(n):
        sofar = [*weights[: t + 1], *[np.ones_like(w) for w in weights[t + 1 :]]]
        torch.testing.assert_close(found[t], Paths(chain, n, sofar).marginal(t), atol=1e-9, rtol=1e-9)


@given(seed=st.integers(0, 2**31), kind=st.sampled_from(["dense", "monarch", "product"]))
@FEW
def test_rows_of_several_lengths_are_rows_alone(seed, kind):
    rng = np.random.default_rng(seed)
    chain = tt.HMM.random(4, 3, "monarch" if kind == "monarch" else "dense", seed=seed)
    if kind == "product":
        chain = chain * tt.Automaton.from_edges(
            [(0, [0, 1, 2], 0), (0, 2, 1), (1, [0, 2], 1)], 0, [0, 1], vocab_size=3
        )
    lengths = torch.tensor(rng.integers(1, 6, 4))
    tokens = torch.tensor(rng.integers(-1, 3, (4, 5)))
    together = [ask(chain, tokens, lengths=lengths) for ask in (tt.filter, tt.smooth)]
    states, scores = tt.viterbi(chain, tokens, lengths=lengths)
    for i, length in enumerate(lengths.tolist()):
        row = tokens[i : i + 1, :length]
        for found, ask in zip(together, (tt.filter, tt.smooth), strict=True):
            torch.testing.assert_close(found[i, :length], ask(chain, row)[0], atol=1e-5, rtol=1e-5)
            assert bool(found[i, length:].isneginf().all())
        path, score = tt.viterbi(chain, row)
        assert states[i, :length].tolist() == path[0].tolist()
        assert bool((states[i, length:] == -1).all())
        torch.testing.assert_close(scores[i], score[0])


def test_derivatives_are_those_of_differences():
    hmm = tt.HMM.random(3, 4, seed=1, dtype=torch.float64)
    x = torch.tensor([[0, 3, -1, 2], [1, 1, 2, 0]])

    def parts(t):
        chain = Chain((hmm.initial[0],), Identity(3), tt.layers.Categorical(t), hmm.right, hmm.final)
        return tt.smooth(chain, x), tt.filter(chain, x), tt.viterbi(chain, x)[1]

    assert torch.autograd.gradcheck(parts, (hmm.emission_probs.clone().requires_grad_(),))


def test_what_float32_loses_is_computed_again():
    """A state that is less probable than another by more than float32 holds, and that the last token makes certain."""
    hmm = tt.HMM([1 - 1e-6, 1e-6], [[1.0, 0.0], [0.0, 1.0]], [[0.999, 0.001, 0.0], [1e-9, 0.5, 0.5 - 1e-9]])
    x = torch.tensor([[0] * 20 + [2]])
    torch.testing.assert_close(tt.smooth(hmm, x)[0, 0].exp(), torch.tensor([0.0, 1.0]).double())
    torch.testing.assert_close(tt.filter(hmm, x)[0, 19, 0].exp(), torch.tensor(1.0).double())
    assert tt.viterbi(hmm, x)[0].tolist() == [[1] * 21]


def test_a_continuous_chain():
    """Two clusters far apart: the states are read off."""
    from tractile.layers import Dense

    stay = Dense(torch.tensor([[0.9, 0.1], [0.1, 0.9]]))
    chain = Chain(
        (torch.tensor([0.5, 0.5]),), Identity(2),
        Gaussian(torch.tensor([-10.0, 10.0]), torch.ones(2)), stay, (torch.ones(2),),
    )  # fmt: skip
    x = torch.tensor([[-9.0, float("nan"), 11.0, 10.0]])
    assert tt.viterbi(chain, x)[0][0, [0, 2, 3]].tolist() == [0, 1, 1]
    for query, share in ((tt.smooth, 0.5), (tt.filter, 0.9)):
        expected = torch.tensor([share, 1 - share]).double()
        torch.testing.assert_close(query(chain, x)[0, 1].exp(), expected, atol=1e-5, rtol=0)


def test_what_is_refused():
    hmm = tt.HMM([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    for ask in (tt.filter, tt.smooth, tt.viterbi):
        with pytest.raises(EvidenceError, match="row 1 of the evidence has probability zero"):
            ask(hmm, torch.tensor([[0, 0], [0, 1]]))
        with pytest.raises(EvidenceError, match="lengths"):
            ask(hmm, torch.tensor([[0, 0]]), lengths=torch.tensor([3]))
        with pytest.raises(CircuitError, match="chain"):
            ask(hmm.unroll(2), torch.tensor([[0, 0]]))
    assert tt.filter(hmm, torch.tensor([[0, 1]]), lengths=torch.tensor([1]))[0, 0].exp().tolist() == [
        1.0,
        0.0,
    ]
    assert tt.smooth(hmm, n=0).shape == (1, 0, 2)
    assert tt.viterbi(hmm, n=0)[0].shape == (1, 0)


def test_figures_are_those_of_hmmlearn():
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.default_rng(4)
    x = rng.integers(0, 6, (4, 30))
    theirs = hmmlearn.CategoricalHMM(3, n_features=6, init_params="")
    theirs.startprob_, theirs.transmat_ = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3), 3)
    theirs.emissionprob_ = rng.dirichlet(np.ones(6), 3)
    ours = tt.HMM(theirs.startprob_, theirs.transmat_, theirs.emissionprob_)
    smoothed, (states, scores) = tt.smooth(ours, torch.tensor(x)).exp(), tt.viterbi(ours, torch.tensor(x))
    for i, row in enumerate(x):
        np.testing.assert_allclose(smoothed[i], theirs.predict_proba(row[:, None]), atol=1e-10)
        score, path = theirs.decode(row[:, None])
        assert path.tolist() == states[i].tolist()
        assert math.isclose(score, float(scores[i]), rel_tol=1e-10)
        log_p = float(tt.log_marginal(ours, x[i].tolist()))
        assert math.isclose(theirs.score(row[:, None]), log_p, rel_tol=1e-10)
