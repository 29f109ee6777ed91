"""Local normalisation of a circuit: every unit becomes a distribution, and so do each sum's weights.

With z_u = Σ_x u(x) for every unit u, the weights of input layers and sums change to

    B[j, :] → B[j, :] / z_j         L[r, c] → L[r, c] z_c / z_r

(the rows of a sum's operators, taken together, then sum to one), and the root becomes a distribution (Peharz et al.
2015). Tied parameters become separate, since two uses of one tensor need different scales.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor

from ...circuits.circuit import Circuit, check_circuit
from ...circuits.graph_transforms import rewrite
from ...errors import CircuitError
from ...layers import Categorical, Continuous, Dense, InputLayer, Operator, Sum
from ...layers.dense_tensor import DenseTensor
from ...layers.input import Constant
from ..engine import passes
from .evidence import Evidence
from .exact import Model, Rows, at_least_single, within_range


def normalise(circuit: Circuit) -> Circuit:
    """Return the circuit of x ↦ c(x) / Σ_x c(x) in which every unit and each sum's weights are distributions.

    Units that are zero everywhere stay zero. Operators become dense. Raises :class:`CircuitError` if the circuit is zero
    everywhere.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> weights = tt.circuits.builders.factorised([tt.layers.Categorical(torch.tensor([[1.0, 3.0]])) for _ in range(2)])
    >>> p = tt.inference.normalise(weights)
    >>> round(tt.partition(weights).exp().item(), 4), round(tt.partition(p).exp().item(), 4)
    (16.0, 1.0)
    >>> tt.log_marginal(p, torch.tensor([[1, 1]])).exp()  # 9 of 16
    tensor([0.5625], dtype=torch.float64)
    """
    check_circuit(circuit, "normalise")
    circuit = at_least_single(circuit)

    def totals(model: Model, semiring: Any, rows: Rows) -> list[Tensor]:
        values = passes.upward(cast(Circuit, model), semiring, Evidence(1, circuit.device))
        return [semiring.log(values[n])[..., 0].expand(circuit.unit_dims(n))[None] for n in nodes]

    nodes = list(circuit.nodes())
    log_z = {n: z[0] for n, z in zip(nodes, within_range(circuit, totals), strict=True)}
    if bool((log_z[circuit.root] == -torch.inf).any()):
        raise CircuitError("normalise: the circuit is zero everywhere, so there is no distribution")

    def change(node: int, out: Circuit, done: dict[int, int]) -> int | None:
        layer = circuit.layer(node)
        if isinstance(layer, Continuous):
            return out.input(layer.normalised(), *circuit.scope(node))
        if isinstance(layer, InputLayer) and not isinstance(layer, Constant):
            b = layer.table()
            return out.input(Categorical(_divide(b, -log_z[node][..., None])), *circuit.scope(node))
        if not isinstance(layer, Sum):
            return None
        children = circuit.children(node)
        operators = [
            _scaled(op, log_z[node], log_z[c]) for op, c in zip(layer.operators, children, strict=True)
        ]
        return out.sum(Sum(*operators), *(done[c] for c in children))

    return rewrite(circuit, change)


def _divide(weight: Tensor, log_factor: Tensor) -> Tensor:
    """Return weight · exp(log_factor); zero where the weight is zero or the factor is not finite."""
    factor = torch.where((weight > 0) & log_factor.isfinite(), log_factor, -torch.inf).exp()
    return (weight * factor).to(weight.dtype)


def _scaled(op: Operator, rows: Float[Tensor, "*rows"], cols: Float[Tensor, "*cols"]) -> Operator:
    """Return the dense operator L[r, c] exp(cols[c] − rows[r]), with the axes of ``rows`` and ``cols``."""
    weight = op.dense().to(op.parameters()[0] if op.parameters() else rows)
    shift = cols.flatten()[None] - rows.flatten()[:, None]
    weight = _divide(weight, shift).view(*rows.shape, *cols.shape)
    return Dense(weight) if weight.ndim == 2 else DenseTensor(weight, rows.ndim)
