"""The engine's economies change no result: checkpoints, folding, half precision."""

from __future__ import annotations

import pytest
import torch

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError
from tractile.inference.engine.folding import folded
from tractile.layers import Bernoulli, Categorical, Dense, Hadamard, Sum


def hmm(hidden, vocab, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    rows = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64).softmax(-1).to(dtype)  # noqa: E731
    return tt.HMM(rows(hidden), rows(hidden, hidden), rows(hidden, vocab))


def regions(variables, units, join=builders.cp_join, dtype=torch.float64):
    random = builders.RandomParameters(1, dtype)
    where = builders.random_regions(variables, 0)
    return builders.regions(where, random.categorical(3), random.rows, units, join=join)


def kept(model, x, checkpoint):
    """(gradients, bytes kept for them)."""
    leaves = {id(w): w.clone().requires_grad_() for w in model.parameters()}
    mine, size = model.map(lambda w: leaves[id(w)]), 0

    def pack(tensor):
        nonlocal size
        size += tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        rows = tt.log_marginal(mine, x, checkpoint=checkpoint)
    return torch.autograd.grad(rows.sum(), list(leaves.values()), allow_unused=True), size


@pytest.mark.parametrize("checkpoint", [1, 7, 16, 1000])
def test_checkpoints_of_a_chain(checkpoint):
    model, x = hmm(6, 5), torch.randint(5, (4, 64), generator=torch.Generator().manual_seed(0))
    (expected, whole), (found, some) = kept(model, x, None), kept(model, x, checkpoint)
    torch.testing.assert_close(found, expected)
    if checkpoint in (7, 16):
        assert some < whole / 4
    lengths = torch.tensor([3, 64, 7, 8])
    torch.testing.assert_close(
        tt.log_marginal(model, x, lengths=lengths, checkpoint=checkpoint),
        tt.log_marginal(model, x, lengths=lengths),
    )


@pytest.mark.parametrize("join", [builders.cp_join, builders.tucker_join])
def test_checkpoints_of_a_circuit(join):
    model, x = regions(16, 4, join), torch.randint(3, (32, 16), generator=torch.Generator().manual_seed(0))
    (expected, whole), (found, some) = kept(model, x, None), kept(model, x, 1)
    torch.testing.assert_close(found, expected)
    assert some < whole


def test_em_with_checkpoints_is_em():
    model, x = hmm(4, 5), torch.randint(5, (8, 20), generator=torch.Generator().manual_seed(0))
    plain, bounded = tt.inference.em(model, x, epochs=3), tt.inference.em(model, x, epochs=3, checkpoint=5)
    torch.testing.assert_close(bounded.log_likelihoods, plain.log_likelihoods)
    with pytest.raises(CircuitError, match="checkpoint"):
        tt.log_marginal(model, x, checkpoint=0)


def test_same_shaped_layers_are_one_group():
    """64 variables, a balanced tree: inputs, then a sum and a product for each of six levels, and the root."""
    groups = folded(regions(64, 4)).plan.groups
    assert len(groups) == 1 + 2 * 6 + 1
    assert len(groups[0].nodes) == 64


def test_folding_keeps_children_of_several_groups_apart():
    """A layer shared by nodes of different depth, tables of different kinds, a node used twice."""
    p = torch.tensor([[0.2, 0.8], [0.6, 0.4]], dtype=torch.float64)
    c = tt.Circuit()
    a, b = c.input(Categorical(p), 0), c.input(Bernoulli(torch.tensor([0.3, 0.9], dtype=torch.float64)), 1)
    w = Dense(torch.tensor([[0.5, 0.5], [0.1, 0.9]], dtype=torch.float64))
    left = c.product(Hadamard(), c.sum(Sum(w), a), b)
    right = c.product(Hadamard(), a, c.sum(Sum(w), b))
    c.sum(
        Sum(
            Dense(torch.full((1, 2), 0.25, dtype=torch.float64)),
            Dense(torch.full((1, 2), 0.25, dtype=torch.float64)),
        ),
        left,
        right,
    )
    x = torch.cartesian_prod(torch.arange(2), torch.arange(2))
    f, g, m = p[:, x[:, 0]], torch.tensor([[0.7, 0.3], [0.1, 0.9]], dtype=torch.float64)[:, x[:, 1]], w.weight
    expected = 0.25 * ((m @ f) * g + f * (m @ g)).sum(0)
    torch.testing.assert_close(tt.log_marginal(c, x).exp(), expected)
    table = tt.inference.marginals(c, torch.tensor([[-1, 1]]))[0].exp()[0]
    torch.testing.assert_close(table, expected[[1, 3]] / expected[[1, 3]].sum())


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 2e-2), (torch.float16, 3e-3), (torch.float32, 1e-6)]
)
def test_half_precision_keeps_to_the_exact_result(dtype, tolerance):
    """Relative errors of log-probabilities of 512 tokens, and of next-token probabilities."""
    exact = hmm(32, 50)
    rough = exact.map(lambda w: w.to(dtype))
    x = torch.randint(50, (4, 512), generator=torch.Generator().manual_seed(0))
    a, b = tt.log_marginal(rough, x), tt.log_marginal(exact, x)
    assert float(((a - b) / b).abs().max()) < tolerance / 10
    p, q = (tt.conditional(m, x[:, :40], 39).exp() for m in (rough, exact))
    torch.testing.assert_close(p.double(), q, rtol=tolerance, atol=tolerance / 50)
    trees = regions(16, 4)
    y = torch.randint(3, (8, 16), generator=torch.Generator().manual_seed(0))
    a, b = tt.log_marginal(trees.map(lambda w: w.to(dtype)), y), tt.log_marginal(trees, y)
    assert float(((a - b) / b).abs().max()) < tolerance


def test_a_copy_of_a_chain_has_marginals_of_its_own():
    """An automaton's copy takes over what is kept with it, but not the circuit that the marginals go through."""
    fa = tt.Automaton.from_edges([(0, 0, 1), (0, 1, 0), (1, [0, 1], 1)], 0, [1], 2)
    before = tt.inference.marginals(fa, n=3)[0].exp()
    flipped = fa.map(lambda v: 1 - v)  # starts in state 1, ends in state 0: nothing is accepted
    with pytest.raises(tt.errors.EvidenceError):
        tt.inference.marginals(flipped, n=3)
    torch.testing.assert_close(tt.inference.marginals(fa, n=3)[0].exp(), before)


def test_ordinary_weights_in_inference_mode():
    """Tensors made there have no version: what is derived from them is not kept."""
    hmm = tt.HMM.random(3, 4, seed=1)
    fa = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1)], 0, [1], 4)
    expected = tt.mpe(hmm, n=3), tt.count(fa, n=3), tt.pgcd(hmm, fa, 3).start().scores()
    with torch.inference_mode():
        found = tt.mpe(hmm, n=3), tt.count(fa, n=3), tt.pgcd(hmm, fa, 3).start().scores()
        assert bool(tt.support(hmm, n=3).all())
        assert tt.gcd(fa, 4).start().mask().tolist() == [[True, True, False, False]]
        semiring, weight = tt.inference.Log(), torch.ones(2, 2)
        before = semiring.lift(weight)
        weight.mul_(2)
        assert not torch.equal(semiring.lift(weight), before)
    torch.testing.assert_close(found, expected)


def test_steps_of_an_automaton_are_kept_within_bounds(monkeypatch):
    from tractile.circuits import automaton

    monkeypatch.setattr(automaton, "STEP_CACHE_ENTRIES", 4)
    fa = tt.Automaton.from_edges([(s, v, (s + v) % 5) for s in range(5) for v in range(5)], 0, [1], 5)
    assert all(fa.step(s, v) == ((s + v) % 5,) for s in range(5) for v in range(5))
    assert len(fa._steps) <= 4
