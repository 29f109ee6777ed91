"""Layers against their matrices written out: operators, shapes and their errors."""

import itertools
import math

import numpy as np
import oracle
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_log_close, log

import tractile as tt
from tractile.errors import ShapeError
from tractile.inference import Log, Real
from tractile.inference.engine import contract
from tractile.layers import (
    Bernoulli,
    Categorical,
    Dense,
    Gaussian,
    Hadamard,
    Identity,
    Incidence,
    Kron,
    Kronecker,
    Monarch,
    Sum,
    TokenSets,
)
from tractile.layers.input import Constant, KhatriRao

FEW = settings(max_examples=40, deadline=None)


def tensor(array):
    return torch.tensor(np.asarray(array), dtype=torch.float64)


def random_leaf(rng, rows=None):
    """(operator, its matrix by definition), with ``rows`` rows if given."""
    rows = int(rng.integers(1, 5)) if rows is None else rows
    kind = rng.choice(["dense", "identity", "incidence", "monarch"])
    if kind == "dense":
        m = rng.random((rows, int(rng.integers(1, 5)))) * (rng.random() < 0.8)
        return Dense(tensor(m)), m
    if kind == "identity":
        return Identity(rows), np.eye(rows)
    if kind == "incidence":
        m = (rng.random((rows, int(rng.integers(1, 5)))) < 0.5) * 1.0
        row, col = np.nonzero(m)
        return Incidence(torch.tensor(row), torch.tensor(col), m.shape), m
    dims = {1: (1,), 2: (2, 1), 3: (1, 3), 4: (2, 2)}.get(rows, (rows,))
    weights = [oracle.rows(rng, *dims, d, zeros=0.2) for d in reversed(dims)]
    return Monarch([tensor(w) for w in weights]), oracle.monarch_matrix(weights)


def random_operator(rng):
    parts = [random_leaf(rng) for _ in range(int(rng.integers(1, 4)))]
    operator, matrix = parts[0]
    for more, m in parts[1:]:
        operator, matrix = Kron(operator, more), np.kron(matrix, m)
    if rng.random() < 0.5:
        operator, matrix = operator.T, matrix.T
    return operator, matrix


@given(st.integers(0, 2**31))
@FEW
def test_the_matrix_written_out_and_the_transpose(seed):
    rng = np.random.default_rng(seed)
    operator, matrix = random_operator(rng)
    np.testing.assert_allclose(operator.dense().numpy(), matrix, atol=1e-15)
    np.testing.assert_allclose(operator.T.dense().numpy(), matrix.T, atol=1e-15)
    assert operator.T.T.row_dims == operator.row_dims


@pytest.mark.parametrize("dims", [(2, 3), (3, 2), (2, 2, 2), (2, 3, 2)])
def test_monarch_by_its_definition(dims):
    """k = 2: M[(i1,i2),(j1,j2)] = W0[i1,i2,j2] W1[i1,j2,j1]; rows of stochastic factors sum to one; the other order of axes."""
    rng = np.random.default_rng(0)
    weights = [oracle.rows(rng, *dims, d) for d in reversed(dims)]
    matrix = Monarch([tensor(w) for w in weights]).dense().numpy()
    np.testing.assert_allclose(matrix, oracle.monarch_matrix(weights), atol=1e-15)
    np.testing.assert_allclose(matrix.sum(1), 1)
    if len(dims) == 2:
        explicit = np.einsum("abd,adc->abcd", *weights).reshape(matrix.shape)
        np.testing.assert_allclose(matrix, explicit, atol=1e-15)
        turned = [oracle.rows(rng, *dims, d) for d in dims]  # rewrites the first index first
        other = Monarch([tensor(w) for w in turned], axes=(0, 1)).dense().numpy()
        np.testing.assert_allclose(
            other, np.einsum("abc,cbd->abcd", *turned).reshape(matrix.shape), atol=1e-15
        )


@pytest.mark.parametrize("semiring", [Real, Log])
def test_kronecker_of_large_operators_is_not_written_out(semiring):
    """(A ⊗ T_in) x where the matrix would hold 10^11 entries."""
    rng = np.random.default_rng(0)
    a, edges, states = rng.random((300, 300)), 900, 400
    target = rng.integers(0, states, edges)
    operator = Kron(Dense(tensor(a)), Incidence(torch.arange(edges), torch.tensor(target), (edges, states)))
    x, sr = rng.random((300, states, 1)), semiring()
    y = contract.apply(sr, operator, sr.lift(tensor(x), batched=True))
    assert_log_close(sr.log(y)[..., 0], log((a @ x[..., 0])[:, target]))


def test_class_sizes():
    layer = TokenSets(torch.tensor([0]), torch.tensor([1]), torch.tensor([1, -1, 0, 1]), 1)
    assert layer.class_sizes().tolist() == [1, 2]
    assert layer.table().tolist() == [[1, 0, 0, 1]]


# ----------------------------------------------------------------------------------------------------------- shapes


def test_units_of_inner_layers():
    assert Sum(Dense(torch.ones(2, 6)), Dense(torch.ones(2, 3))).unit_dims([(2, 3), (3,)]) == (2,)
    assert Hadamard().unit_dims([(2, 3), (2, 3)]) == (2, 3)
    assert Kronecker().unit_dims([(2, 3), (4,)]) == (2, 3, 4)
    assert Kronecker([2, 0, 1]).unit_dims([(2, 3), (4,)]) == (4, 2, 3)


ONES = torch.ones(2, 3)
INDEX = torch.tensor([0, 1])
BAD = {
    "Dense of a vector": (lambda: Dense(torch.ones(3)), "Dense"),
    "Dense of nothing": (lambda: Dense(torch.ones(0, 3)), "Dense"),
    "Dense of integers": (lambda: Dense(torch.ones(2, 2, dtype=torch.long)), "Dense"),
    "Identity of size zero": (lambda: Identity(0), "Identity"),
    "Incidence of unequal vectors": (lambda: Incidence(INDEX, torch.tensor([0]), (2, 2)), "Incidence"),
    "Incidence outside": (lambda: Incidence(INDEX, torch.tensor([0, 5]), (2, 2)), "Incidence"),
    "Incidence below zero": (lambda: Incidence(INDEX, torch.tensor([0, -1]), (2, 2)), "Incidence"),
    "Incidence twice the same": (
        lambda: Incidence(torch.tensor([1, 1]), torch.tensor([0, 0]), (2, 2)),
        "Incidence",
    ),
    "Monarch of a wrong factor": (lambda: Monarch([torch.ones(2, 3, 2), torch.ones(2, 3, 2)]), "Monarch"),
    "Monarch without factors": (lambda: Monarch([]), "Monarch"),
    "Monarch of too few axes": (
        lambda: Monarch([torch.ones(2, 3, 3), torch.ones(2, 3, 2)], axes=[1]),
        "Monarch",
    ),
    "Monarch of a strange axis": (lambda: Monarch([torch.ones(2, 3, 3)], axes=[7]), "Monarch"),
    "Categorical of a vector": (lambda: Categorical(torch.ones(3)), "Categorical"),
    "TokenSets without tokens": (lambda: TokenSets(INDEX, INDEX, torch.ones(0), 2), "TokenSets"),
    "TokenSets of a class without tokens": (
        lambda: TokenSets(INDEX, INDEX, torch.tensor([0, 0]), 2),
        "TokenSets",
    ),
    "KhatriRao of two vocabularies": (lambda: KhatriRao(Categorical(ONES), Categorical(ONES.T)), "KhatriRao"),
    "Sum of nothing": (lambda: Sum(), "Sum"),
    "Sum of different rows": (lambda: Sum(Dense(ONES), Dense(ONES.T)), "Sum"),
    "Sum of too few children": (lambda: Sum(Dense(ONES)).unit_dims([(3,), (3,)]), "Sum"),
    "Sum of a wrong child": (lambda: Sum(Dense(ONES)).unit_dims([(4,)]), r"Sum.*Dense\(2, 3\)"),
    "Hadamard of different units": (lambda: Hadamard().unit_dims([(2,), (3,)]), "Hadamard"),
    "Hadamard of nothing": (lambda: Hadamard().unit_dims([]), "Hadamard"),
    "Kronecker in no order": (lambda: Kronecker([0, 0]).unit_dims([(2,), (3,)]), "Kronecker"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused_by_name(what):
    make, name = BAD[what]
    with pytest.raises(ShapeError, match=name):
        make()


def test_a_constant_is_one():
    sr = Real()
    value = contract.observe(sr, Constant(2), None, torch.zeros(1, dtype=torch.long))
    assert sr.shape(value) == (1, 1, 1)
    assert math.isclose(sr.log(value).item(), 0, abs_tol=1e-15)


def test_shapes_are_in_the_repr():
    assert repr(Dense(ONES)) == "Dense(2, 3)"
    assert repr(Sum(Dense(ONES))) == "Sum(Dense(2, 3))"
    assert "vocab_size=3" in repr(Categorical(ONES))


def test_a_long_sum_over_many_small_operators():
    """Neighbouring axes are read as one where an operator takes one: (2, 3, 4) as (6, 4), (2, 12), (24)."""
    rng = np.random.default_rng(1)
    x = rng.random((2, 3, 4, 1))
    sr = Real()
    for groups in ((2, 3, 4), (6, 4), (2, 12), (24,)):
        matrices = [rng.random((2, g)) for g in groups]
        operator = Dense(tensor(matrices[0]))
        for m in matrices[1:]:
            operator = Kron(operator, Dense(tensor(m)))
        joint = np.array([[1.0]])
        for m in matrices:
            joint = np.kron(joint, m)
        y = contract.apply(sr, operator, sr.lift(tensor(x), batched=True))
        assert Sum(operator).unit_dims([(2, 3, 4)]) == (2,) * len(groups)
        assert_log_close(sr.log(y).flatten(), log(joint @ x.flatten()))
        assert math.prod(sr.shape(y)) == math.prod(itertools.repeat(2, len(groups)))


def test_monarch_that_leaves_an_index_alone():
    w = torch.rand(2, 3, 3, dtype=torch.float64)
    torch.testing.assert_close(Monarch([w], (1,)).dense(), torch.block_diag(*w))


@pytest.mark.parametrize("axes", [(0, 1, 0), (1, 1)])
@pytest.mark.parametrize(
    "semiring",
    [
        tt.inference.MaxProduct, tt.inference.MinPlus, tt.inference.Counting, tt.inference.Boolean, tt.inference.Log,
    ],
)  # fmt: skip
def test_monarch_that_rewrites_an_index_twice_is_its_matrix(axes, semiring):
    g = torch.Generator().manual_seed(0)
    weights = [torch.rand(2, 2, 2, generator=g, dtype=torch.float64) for _ in axes]
    operator, sr = Monarch(weights, axes), semiring()
    x = sr.lift(torch.rand(4, 3, generator=g, dtype=torch.float64), batched=True)
    for a, b in ((operator, Dense(operator.dense())), (operator.T, Dense(operator.T.dense()))):
        torch.testing.assert_close(contract.apply(sr, a, x), contract.apply(sr, b, x))


def test_vmap_over_parameters_that_are_checked():
    """Bernoulli and Gaussian layers made of mapped tensors, whose values cannot be read."""
    made = {Bernoulli: (torch.rand(3, 2),), Gaussian: (torch.randn(3, 2), torch.rand(3, 2) + 0.1)}
    for cls, parameters in made.items():

        def value(*parameters, cls=cls):
            circuit = tt.Circuit()
            circuit.sum(Sum(Dense(torch.tensor([[0.5, 0.5]]))), circuit.input(cls(*parameters), 0))
            x = torch.tensor([[0.3]]) if cls is Gaussian else torch.tensor([[1]])
            return tt.log_marginal(circuit, x)[0]

        together = torch.vmap(value)(*parameters)
        torch.testing.assert_close(
            together, torch.stack([value(*row) for row in zip(*parameters, strict=True)])
        )
