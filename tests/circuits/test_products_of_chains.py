"""Products of two to four chains, every query against enumeration: HMMs (one of them Monarch), a DFA and an NFA."""

import itertools
import math
from functools import cache, reduce

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.inference import (
    Boolean,
    Counting,
    Log,
    MaxProduct,
    MinPlus,
    Real,
    expectation,
    k_best,
    marginals,
)

V, N = 3, 5
A = tt.HMM.random(3, V, seed=1, dtype=torch.float64)
B = tt.HMM.random(4, V, "monarch", seed=2, dtype=torch.float64)
DFA = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1), (1, [0, 2], 1), (1, 1, 0)], 0, [1], V)
NFA = tt.Automaton.from_edges([(0, [0, 1, 2], 0), (0, 2, 1), (1, [0, 1, 2], 1)], [0, 1], [1], V)
PRODUCTS = {
    "HMM × HMM": (A, B), "HMM × DFA": (A, DFA), "HMM × NFA": (B, NFA), "DFA × NFA": (DFA, NFA),
    "HMM × HMM × DFA": (A, B, DFA), "HMM × DFA × NFA": (A, DFA, NFA), "HMM × HMM × NFA": (B, A, NFA),
    "HMM × HMM × DFA × NFA": (A, B, DFA, NFA),
}  # fmt: skip
TEXTS = list(itertools.product(range(V), repeat=N))
EVIDENCE = {
    0: torch.tensor([1, -1]),
    2: torch.tensor([[0.2, 1.0, 3.0], [1.0, 0.0, 2.0]], dtype=torch.float64),
}
CASES = [(name, dtype) for name in PRODUCTS for dtype in (torch.float32, torch.float64)]
every_product = pytest.mark.parametrize(("name", "dtype"), CASES)


def paths(chain):
    """The weights of each text's latent paths, by following every unit of the dense matrices."""
    initial, final = chain.initial[0].double().numpy(), chain.unit_final[0].double().numpy()
    left, right = (op.dense().double().numpy() for op in (chain.left, chain.right))
    table = chain.inputs.table().double().numpy()
    found = {}
    for text in TEXTS:
        ends = [
            (w, u)
            for s, a in enumerate(initial)
            for u in range(len(table))
            if (w := a * left[s, u] * table[u, text[0]])
        ]
        for token in text[1:]:
            ends = [
                (w * step, v)
                for w, u in ends
                for s in range(len(initial))
                for v in range(len(table))
                if (step := right[u, s] * left[s, v] * table[v, token])
            ]
        found[text] = np.array([w * final[u] for w, u in ends if final[u]])
    return found


@cache
def tables(name):
    """By text: the total, the largest weight of a path, and the number of paths; a product's path is one of each factor."""
    each = [paths(chain) for chain in PRODUCTS[name]]

    def table(of):
        return np.array([reduce(lambda x, y: x * y, (of(p[text]) for p in each)) for text in TEXTS]).reshape(
            [V] * N
        )

    return table(np.sum), table(lambda w: w.max(initial=0.0)), table(len)


def product(name, dtype):
    return reduce(lambda x, y: x * y, (chain.to(dtype=dtype) for chain in PRODUCTS[name]))


def weighed(table, row, skip=()):
    """The table times the evidence of a row on the variables that are not in ``skip``."""
    for v, known in EVIDENCE.items():
        if v in skip:
            continue
        w = (
            np.ones(V)
            if known.ndim == 1 and known[row] < 0
            else np.eye(V)[known[row]]
            if known.ndim == 1
            else known[row].numpy()
        )
        table = table * w.reshape([-1 if i == v else 1 for i in range(N)])
    return table


def close(found, expected, dtype):
    tolerance = 2e-5 if dtype == torch.float32 else 1e-10
    np.testing.assert_allclose(found.double().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.long
@every_product
def test_numbers(name, dtype):
    chain, (total, best, count) = product(name, dtype), tables(name)
    x, flat = torch.tensor(TEXTS), total.ravel()
    for semiring in (None, Real(), Log()):
        close(tt.log_marginal(chain, x, semiring=semiring).exp(), flat, dtype)
        close(
            tt.log_marginal(chain, EVIDENCE, n=N, semiring=semiring).exp(),
            [weighed(total, i).sum() for i in (0, 1)],
            dtype,
        )
    close(tt.log_marginal(chain, x, semiring=MaxProduct()).exp(), best.ravel(), dtype)
    close((-tt.log_marginal(chain, x, semiring=MinPlus()).neg()).exp(), best.ravel(), dtype)
    close(tt.log_marginal(chain, x, semiring=Counting()).exp(), count.ravel(), dtype)
    assert ((tt.log_marginal(chain, x, semiring=Boolean()) == 0).numpy() == (flat > 0)).all()
    assert (tt.support(chain, x).numpy() == (flat > 0)).all()
    close(tt.partition(chain, n=N).exp(), total.sum(), dtype)
    assert tt.count(chain, n=N, paths=True) == count.sum()
    some = torch.tensor([N - 1, 1, N])
    rows = torch.tensor([[0, 2, 1, 2, 0], [2, 0, 0, 0, 0], [1, 2, 0, 2, 2]])
    cut = torch.stack(
        [tt.log_marginal(chain, row[None, :k])[0] for row, k in zip(rows, some.tolist(), strict=True)]
    )
    torch.testing.assert_close(tt.log_marginal(chain, rows, lengths=some), cut, rtol=1e-5, atol=1e-5)


@every_product
def test_values(name, dtype):
    chain, (total, best, _) = product(name, dtype), tables(name)
    for asked in ((1,), (4, 1), (3, 2), (0, 4, 3)):
        expected = []
        for row in (0, 1):
            table = weighed(total, row, asked).sum(tuple(v for v in range(N) if v not in asked))
            order = sorted(asked)
            expected.append((table / table.sum()).transpose([order.index(v) for v in asked]))
        found = tt.conditional(chain, EVIDENCE, asked if len(asked) > 1 else asked[0], n=N)
        close(found.exp(), np.array(expected), dtype)
    found = marginals(chain, EVIDENCE, n=N)
    for v in range(N):
        sums = [weighed(total, row).sum(tuple(u for u in range(N) if u != v)) for row in (0, 1)]
        close(found[v].exp(), np.array([s / s.sum() for s in sums]), dtype)
        worth = {v: torch.arange(V).double()}
        close(expectation(chain, worth, EVIDENCE, n=N), [(s / s.sum()) @ np.arange(V) for s in sums], dtype)
    values, scores = tt.mpe(chain, EVIDENCE, n=N)
    for row in (0, 1):
        table = weighed(best, row)
        assert scores[row].item() == pytest.approx(math.log(table.max()), abs=1e-4)
        assert table[tuple(values[row].tolist())] == pytest.approx(table.max(), rel=1e-4)
    values, scores = k_best(chain, 5, n=N)
    close(scores.exp(), np.sort(best.ravel())[::-1][: len(scores)], dtype)
    assert len({tuple(x) for x in values.tolist()}) == len(values)
    drawn = tt.sample(chain, 3000, {0: 1}, n=N, generator=torch.Generator().manual_seed(0))
    expected = total[1] / total[1].sum()
    places = drawn[:, 1:].numpy() @ V ** np.arange(N - 2, -1, -1)
    share = np.bincount(places, minlength=V ** (N - 1)) / 3000
    assert (share[expected.ravel() == 0] == 0).all()
    assert np.abs(share - expected.ravel()).max() < 0.05
    assert (drawn[:, 0] == 1).all()


@every_product
def test_next_tokens(name, dtype):
    chain, (total, *_) = product(name, dtype), tables(name)
    query, prefix = tt.NextToken(chain, N, Real()).start(1), []
    for _ in range(N):
        rest = total[tuple(prefix)]
        rest = rest.sum(tuple(range(1, rest.ndim)))
        close(query.scores()[0].exp(), rest / rest.sum(), dtype)
        prefix.append(int(rest.argmax()))
        query.advance(torch.tensor(prefix[-1:]))
