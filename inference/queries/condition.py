"""Conditioning: a circuit in which evidence is fixed."""

from __future__ import annotations

from math import ceil, log, log2

import torch
from jaxtyping import Float
from torch import Tensor

from ...circuits.checks import check_tractable
from ...circuits.circuit import Circuit, check_circuit
from ...circuits.graph_transforms import constant, rewrite
from ...errors import EvidenceError
from ...layers import Continuous, Hadamard, InputLayer
from .evidence import EvidenceLike, as_evidence


def condition(circuit: Circuit, evidence: EvidenceLike) -> Circuit:
    """Return the circuit x ↦ c(x, e) over the variables that the evidence e does not observe.

    Variables with a set of values or soft weights stay and are multiplied by these weights. The result is not normalised: its
    partition function is the weight of the evidence, and :func:`normalise` makes the conditional distribution of it. Raises
    :class:`EvidenceError` for evidence of several rows or that does not fit.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coins = tt.layers.Bernoulli(torch.tensor([0.5, 0.9]))  # a fair coin and a biased one, thrown three times
    >>> three = tt.circuits.builders.cp([coins, coins, coins], torch.tensor([0.5, 0.5]))
    >>> rest = tt.inference.condition(three, {0: 1, 1: 1})
    >>> rest.variables, round(tt.partition(rest).exp().item(), 4)  # P(1, 1) = ½ · 0.5² + ½ · 0.9²
    ((2,), 0.53)
    >>> tt.log_marginal(tt.inference.normalise(rest), {2: 1}).exp()  # P(third | 1, 1)
    tensor([0.8057], dtype=torch.float64)
    """
    check_circuit(circuit, "condition")
    check_tractable(circuit)
    known = as_evidence(evidence, circuit.vocab_sizes(), circuit.device)
    if known.batch != 1:
        raise EvidenceError(f"condition: evidence of one row, not of {known.batch}")
    weighted: dict[tuple[int, int], InputLayer] = {}  # nodes of one layer and variable share the result

    def change(node: int, out: Circuit, done: dict[int, int]) -> int | None:
        layer, (variable, *_) = circuit.layer(node), (*circuit.scope(node), -1)
        if not isinstance(layer, InputLayer):
            return None
        if variable in known.tokens and isinstance(layer, Continuous):
            value = known.tokens[variable]
            return None if bool(value.isnan()) else _constant_of_logs(out, layer.log_density(value)[..., 0])
        if variable in known.tokens:
            onehot = torch.nn.functional.one_hot(known.tokens[variable][0], layer.vocab_size)
            return constant(out, layer.value(onehot.to(torch.get_default_dtype())))
        if variable in known.weights:
            key = (id(layer), variable)
            if key not in weighted:
                weighted[key] = layer.reweighted(known.weights[variable][:, 0])
            return out.input(weighted[key], variable)
        return None

    return rewrite(circuit, change)


def _constant_of_logs(out: Circuit, log_weight: Float[Tensor, "*units"]) -> int:
    """Add a node over no variable whose units have these weights, given by logarithms of any size.

    It is a root of the weights, in the range of floating point, that is squared as often as needed.
    """
    finite = log_weight.detach()[log_weight.isfinite()]
    most = log(torch.finfo(log_weight.dtype).max) / 2
    depth = float(finite.abs().amax()) / most if len(finite) else 0.0
    squares = max(0, ceil(log2(depth))) if depth else 0
    node = constant(out, (log_weight / 2**squares).exp())
    for _ in range(squares):
        node = out.product(Hadamard(), node, node)
    return node
