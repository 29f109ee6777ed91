"""Every layer keeps to its matrix, its table or its labels: those of the library, and those that others write."""

import inspect

import pytest
import torch
from extensions import page

from tractile import layers
from tractile.layers import (
    Bernoulli,
    Categorical,
    ClassCategorical,
    Dense,
    Gaussian,
    Hadamard,
    Identity,
    Incidence,
    Indicator,
    Kron,
    Kronecker,
    Monarch,
    TokenSets,
)  # fmt: skip
from tractile.layers.dense_tensor import DenseTensor
from tractile.layers.input import KhatriRao
from tractile.testing import check_layer

TENSORS = torch.Generator().manual_seed(0)


def weights(*shape):
    return torch.rand(shape, generator=TENSORS, dtype=torch.float64) + 0.1


MONARCH = Monarch([weights(2, 3, 3), weights(2, 3, 2)])
LAYERS = [
    Dense(weights(3, 2)), Dense(weights(2, 4).float()), Identity(3),
    Incidence(torch.tensor([0, 1, 1]), torch.tensor([1, 0, 2]), (2, 3)),
    MONARCH, Kron(Dense(weights(2, 3)), Identity(2)), Kron(Dense(weights(2, 3)), Kron(Identity(2), MONARCH)),
    Monarch([weights(2, 3, 2, 2), weights(2, 3, 2, 3), weights(2, 3, 2, 2)]), Monarch([weights(2, 3, 3)], (1,)),
    DenseTensor(weights(2, 3, 4), 2),
    Categorical(weights(3, 4)), Categorical(weights(2, 3, 4).float()), Bernoulli(torch.tensor([0.2, 0.9])), Indicator(3),
    TokenSets(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1, 0]), 2),
    ClassCategorical(weights(3, 2), torch.tensor([0, 1, 1, 0]), weights(4)),
    KhatriRao(Categorical(weights(2, 4)), Categorical(weights(3, 4))), Gaussian(weights(3) - 0.5, weights(3)),
    Hadamard(), Kronecker(),
    page.Poisson(weights(3), 4), page.LowRank(weights(3, 2), weights(2, 4)), page.PairedUnits(),
]  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_a_layer_is_what_it_says(layer):
    check_layer(layer)


def test_every_class_is_checked():
    """Those that are not abstract, but for sums, which are their operators."""
    made = {cls for name in layers.__all__ if not inspect.isabstract(cls := getattr(layers, name))}
    assert made - {type(layer) for layer in LAYERS} <= {layers.Sum}
