"""Structural properties, computed from the graph and the weights, not declared (Vergari et al. 2021).

    smooth                     the children of a sum have equal scopes
    decomposable               the children of a product have disjoint scopes; with smooth: marginals are one contraction
    structured-decomposable    all products over one scope split it alike: the circuit can be multiplied by itself
    compatible                 the products of two circuits split shared variables alike, up to nesting: ``a * b`` exists
    omni-compatible            no product has a sum child over more than one variable: compatible with every circuit
    deterministic              for each x a sum has at most one non-zero term: maxima and entropies are one contraction

:mod:`tractile.inference.queries.determinism` decides determinism. The properties of a chain are those of its unrolled circuit.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import CircuitError
from .chain import Chain
from .checks import check_decomposable, check_omni_compatible, check_smooth, check_structured_decomposable
from .circuit import Circuit


def is_smooth(circuit: Circuit | Chain) -> bool:
    """Return whether the children of every sum have equal scopes.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.circuits import is_smooth
    >>> from tractile.layers import Bernoulli, Dense, Sum
    >>> c, coin, half = tt.Circuit(), Bernoulli(torch.tensor([0.5])), Dense(torch.tensor([[0.5]]))
    >>> root = c.sum(Sum(half, half), c.input(coin, 0), c.input(coin, 1))  # a mixture of x_0 and x_1
    >>> is_smooth(c)
    False
    """
    return _holds(check_smooth, circuit)


def is_decomposable(circuit: Circuit | Chain) -> bool:
    """Return whether the children of every product have disjoint scopes.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.circuits import is_decomposable
    >>> from tractile.layers import Bernoulli, Hadamard
    >>> c, coin = tt.Circuit(), Bernoulli(torch.tensor([0.5]))
    >>> root = c.product(Hadamard(), c.input(coin, 0), c.input(coin, 0))  # a square: both factors over x_0
    >>> is_decomposable(c)
    False
    """
    return _holds(check_decomposable, circuit)


def is_structured_decomposable(circuit: Circuit | Chain) -> bool:
    """Return whether the circuit is decomposable and all products over one scope split it alike.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.circuits import is_structured_decomposable
    >>> random, ways = tt.circuits.builders.RandomParameters(), [((0, 1), 2), (0, (1, 2))]
    >>> one, other = (tt.circuits.builders.regions(way, random.bernoulli(), random.rows, num_units=2) for way in ways)
    >>> is_structured_decomposable(one), is_structured_decomposable(tt.circuits.mixture([0.5, 0.5], [one, other]))
    (True, False)
    """
    return _holds(check_structured_decomposable, circuit)


def is_omni_compatible(circuit: Circuit | Chain) -> bool:
    """Return whether the circuit mixes fully factorised parts only: any smooth and decomposable circuit can multiply it.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.circuits import is_omni_compatible
    >>> random = tt.circuits.builders.RandomParameters()
    >>> layers = [random.bernoulli()(v, 2) for v in range(3)]
    >>> is_omni_compatible(tt.circuits.builders.cp(layers, random.rows(2))), is_omni_compatible(tt.HMM.random(2, 2))
    (True, False)
    """
    return _holds(check_omni_compatible, circuit)


def _holds(check: Callable[..., None], model: Circuit | Chain) -> bool:
    try:
        check(model.unroll(3) if isinstance(model, Chain) else model)
    except CircuitError:
        return False
    return True
