"""Queries under torch.func (vmap, grad, jvp, per-row gradients) and torch.compile equal themselves without."""

from __future__ import annotations

import pytest
import torch

import tractile as tt
from tractile.circuits import builders
from tractile.errors import CircuitError

N, V = 4, 5


def hmm(seed=0):
    g = torch.Generator().manual_seed(seed)
    rows = lambda *shape: (2 * torch.randn(*shape, generator=g, dtype=torch.float64)).softmax(-1)  # noqa: E731
    return tt.HMM(rows(3), rows(3, 3), rows(3, V))


def automaton():
    return tt.Automaton.from_edges([(0, 0, 1), (0, [1, 2, 3], 0), (1, [0, 1, 2], 1), (1, 4, 0)], 0, [0, 1], V)


def tree(join=builders.cp_join):
    random = builders.RandomParameters(0, torch.float64)
    return builders.regions(builders.random_regions(N, 0), random.categorical(V), random.rows, 3, join=join)


MODELS = {
    "hmm": hmm, "automaton": automaton, "hmm x automaton": lambda: hmm() * automaton(),
    "unrolled": lambda: (hmm() * automaton()).unroll(N), "tree": tree, "tucker": lambda: tree(builders.tucker_join),
}  # fmt: skip
QUERIES = {
    "log_marginal": lambda m, x: tt.log_marginal(m, x),
    "conditional": lambda m, x: tt.conditional(m, x, 1),
    "joint": lambda m, x: tt.conditional(m, x, (0, 2)),
    "marginals": lambda m, x: torch.stack(list(tt.inference.marginals(m, x).values()), 1),
    "support": lambda m, x: tt.support(m, x).double(),
}
TOKENS = torch.tensor([[1, 2, -1, 3], [0, -1, 1, 2], [2, 2, 0, 4]])  # -1: marginalised


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("model", MODELS)
def test_vmap_over_evidence(model, query):
    m, ask = MODELS[model](), QUERIES[query]
    each = torch.vmap(lambda row: ask(m, row[None])[0])(TOKENS)
    torch.testing.assert_close(each, ask(m, TOKENS).to(each.dtype))


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "query"),
    [
        ("hmm x automaton", "log_marginal"),
        ("tree", "log_marginal"),
        ("hmm", "conditional"),
        ("hmm", "marginals"),
        ("tucker", "marginals"),
    ],
)
def test_compiled_without_a_break(model, query):
    m, ask = MODELS[model](), QUERIES[query]
    expected = ask(m, TOKENS)  # plans the circuit too
    torch.compiler.reset()
    compiled = torch.compile(lambda x: ask(m, x), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(TOKENS), expected)


def test_compiling_needs_a_planned_circuit():
    m = tree()
    torch.compiler.reset()
    with pytest.raises(Exception, match=r"query once before compiling") as raised:
        torch.compile(lambda x: tt.log_marginal(m, x), fullgraph=True, backend="eager")(TOKENS)
    assert isinstance(raised.value, CircuitError) or "CircuitError" in str(raised.value)


# within torch's jvp
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("model", ["hmm", "hmm x automaton", "unrolled", "tree", "tucker"])
def test_derivatives_forwards_backwards_and_by_row(model):
    m = MODELS[model]()
    # not start and acceptance of an automaton
    weights = tuple(w for w in m.parameters() if bool((w > 0).all()))
    index = {id(w): i for i, w in enumerate(weights)}

    def log_p(ws, x):
        return tt.log_marginal(m.map(lambda w: ws[index[id(w)]] if id(w) in index else w), x)

    leaves = tuple(w.clone().requires_grad_() for w in weights)
    expected = torch.autograd.grad(log_p(leaves, TOKENS).sum(), leaves, allow_unused=True)
    expected = [torch.zeros_like(w) if g is None else g for w, g in zip(weights, expected, strict=True)]
    reverse = torch.func.grad(lambda ws: log_p(ws, TOKENS).sum())(weights)
    torch.testing.assert_close(list(reverse), expected)

    direction = tuple(torch.ones_like(w) for w in weights)
    _, forward = torch.func.jvp(lambda ws: log_p(ws, TOKENS).sum(), (weights,), (direction,))
    torch.testing.assert_close(forward, torch.stack([g.sum() for g in expected]).sum())

    gradient = torch.func.grad(lambda ws, x: log_p(ws, x[None]).sum())
    rows = torch.vmap(gradient, in_dims=(None, 0))(weights, TOKENS)
    torch.testing.assert_close([g.sum(0) for g in rows], expected)


def test_vmap_over_parameters_is_an_ensemble():
    m = hmm()
    others = torch.stack([hmm(seed).transition.weight for seed in range(4)])
    swap = lambda a: m.map(lambda w: a if w is m.transition.weight else w)  # noqa: E731
    together = torch.vmap(lambda a: tt.log_marginal(swap(a), TOKENS))(others)
    single = (tt.HMM(m.initial_probs, a, m.emission_probs) for a in others)
    one_by_one = torch.stack([tt.log_marginal(each, TOKENS) for each in single])
    torch.testing.assert_close(together, one_by_one)
