"""Powers and quotients of circuits and chains; real exponents need determinism (Vergari et al. 2021).

power(c, α)      x ↦ c(x)^α on the support      whole α: c · c; any α: deterministic
quotient(a, b)   x ↦ a(x) / b(x)                compatible, b deterministic
"""

from __future__ import annotations

from functools import reduce
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...circuits.graph_transforms import free_weights, monomial
from ...circuits.operations import Model, multiply
from ...errors import CircuitError
from .determinism import check_deterministic, flatten


def power(model: Model, exponent: float) -> Model:
    """Return the model x ↦ c(x)^α where c(x) > 0, and 0 elsewhere.

    A deterministic model allows any finite α: each weight is raised to α. Any other allows α = 1, 2, 3, … as a product of
    α copies, for which a circuit must be structured-decomposable. Raises :class:`CircuitError` that names what is missing.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[0.1, 0.9]]))])
    >>> tt.log_marginal(tt.inference.power(coin, 0.5), torch.tensor([[0], [1]])).exp()  # the square roots
    tensor([0.3162, 0.9487], dtype=torch.float64)
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> tt.inference.power(hmm, 2)  # not deterministic: a product with itself
    Chain(states=(2, 2), units=(2, 2), vocab_size=2)
    """
    if not isfinite(exponent):
        raise CircuitError(f"power: the exponent must be finite, not {exponent}")
    try:
        check_deterministic(model)
        return _elementwise(model, exponent)
    except CircuitError as error:
        if exponent != int(exponent) or exponent < 1:
            raise CircuitError(
                f"power: the exponent {exponent} needs a deterministic circuit; {error}"
            ) from error
    return reduce(multiply, [model] * int(exponent))


def _elementwise(model: Model, exponent: float) -> Model:
    """Raise every positive weight of a deterministic model to the power ``exponent``."""

    def weights(weight: Tensor) -> Tensor:
        return torch.where(weight > 0, torch.where(weight > 0, weight, 1) ** exponent, 0)

    if isinstance(model, Automaton):
        return model  # its weights are zeros and ones
    if isinstance(model, Chain):
        ends = (model.right.dense() > 0).double() @ (flatten(model.final) > 0).double()
        if bool((ends > 1).any()):
            raise CircuitError(f"power: {model!r} ends one path in several states: unroll it to a length")
        left, right = monomial(model.left), monomial(model.right)
        inputs: Any = free_weights(model.inputs, "power")
        return Chain(model.initial, left, inputs, right, model.final).map(weights)
    return model.map_layers(lambda layer: free_weights(layer, "power").map(weights))


def quotient(a: Model, b: Model) -> Model:
    """Return the model x ↦ a(x) / b(x) on the support of b, and 0 elsewhere.

    Raises :class:`CircuitError` unless b is deterministic and compatible with a.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> a, b = (tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([row]))]) for row in ([0.5, 0.5], [0.1, 0.9]))
    >>> tt.log_marginal(tt.inference.quotient(a, b), torch.tensor([[0], [1]])).exp()  # ½ / 0.1 and ½ / 0.9
    tensor([5.0000, 0.5556], dtype=torch.float64)
    """
    return multiply(a, power(b, -1.0))
