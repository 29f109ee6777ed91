"""Layers: what does not fit is refused by name; Monarch operators against their matrices written out."""

import numpy as np
import oracle
import pytest
import torch

import tractile as tt
from tractile.errors import ShapeError
from tractile.inference.engine import contract
from tractile.layers import (
    Categorical,
    Dense,
    Hadamard,
    Identity,
    Incidence,
    Kronecker,
    Monarch,
    Sum,
    TokenSets,
)
from tractile.layers.input import KhatriRao


def tensor(array):
    return torch.tensor(np.asarray(array), dtype=torch.float64)


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


# ----------------------------------------------------------------------------------------------------------- shapes


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
