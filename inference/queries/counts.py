"""Expected counts of any model by derivatives.

    expected count of a weight θ  =  θ · ∂ log p(data) / ∂θ,

since a weight that is used c times contributes θ^c: one backward pass through ``log_marginal``, which also sums over the uses
of tied weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...circuits.chain import Chain, Vectors
from ...circuits.circuit import Circuit
from ...circuits.parameters import Block, blocks
from ...errors import CircuitError, EvidenceError
from ...layers import InputLayer
from ...layers.inner import InnerLayer
from ..semirings.base import Semiring
from ..semirings.logarithms import Log
from .evidence import EvidenceLike, check_possible
from .marginal import log_marginal


class Counts(NamedTuple):
    """Derivatives of the log-likelihood by each block of parameters, summed over a batch; ``of`` gives expected counts.

    ``derivatives[i]`` belongs to ``blocks[i]``: one tensor for each weight, or for each parameter of
    the layer's ``free_parameters()``; for HMMs they are zero where the weight is. ``log_likelihood`` is in nats.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]])
    >>> counts = tt.inference.expected_counts(coin, torch.tensor([[1, 1, 0]]))
    >>> counts.of(coin.emission_probs)  # one 0 and two 1s
    tensor([[1., 2.]])
    >>> round(counts.log_likelihood.item(), 4)  # 3 log ½
    -2.0794
    """

    blocks: list[Block]
    derivatives: list[tuple[Tensor, ...]]
    log_likelihood: Float[Tensor, ""]  # nats

    def of(self, weight: Tensor) -> Tensor:
        """Return the expected counts θ · ∂ log p/∂θ of a parameter tensor, which must be the model's own tensor.

        For a layer with fewer parameters than weights (Bernoulli): the counts of its table (units, values). Raises
        :class:`CircuitError` for a tensor that is no parameter.
        """
        for block, derivatives in zip(self.blocks, self.derivatives, strict=True):
            weights = (
                block.tensors if block.layer is None else tuple(block.layer.free_parameters().parameters())
            )
            for i, tensor in enumerate(block.tensors):
                if tensor is weight:
                    dtype = torch.promote_types(weight.dtype, torch.float32)
                    return (weights[i].detach() * derivatives[i]).to(dtype)
        raise CircuitError(f"a tensor of shape {tuple(weight.shape)} is no parameter of this model")


def counts_by_derivatives(
    model: Chain | Circuit,
    evidence: EvidenceLike,
    lengths: Int[Tensor, " batch"] | None = None,
    checkpoint: int | None = None,
) -> Counts:
    """Compute expected counts as :func:`~tractile.inference.expected_counts` does, by derivatives for every model."""
    found, leaves = blocks(model), dict[tuple[int, ...], Tensor]()
    keys: dict[int, tuple[int, ...]] = {}  # a freed layer's tensor → its layer's parameters, and which

    def relax(layer: InputLayer) -> InputLayer:
        free = layer.free_parameters()
        own = tuple(map(id, layer.parameters()))
        for i, tensor in enumerate(free.parameters()):
            keys[id(tensor)] = (*own, i)
        kept.append(free)
        return free

    kept: list[InputLayer] = []  # keeps the freed tensors alive: an id is unique among living objects only

    def differentiate(semiring: Semiring[Any] | None, dtype: torch.dtype | None) -> tuple[Tensor, Any]:
        leaves.clear()

        def leaf(tensor: Tensor) -> Tensor:
            key = keys.get(id(tensor), (id(tensor),))
            if key not in leaves:
                own = dtype or torch.promote_types(tensor.dtype, torch.float32)
                leaves[key] = tensor.detach().to(own, copy=True).requires_grad_()
            return leaves[key]

        with torch.enable_grad():
            freed = _freed(model, relax, leaf)
            rows = log_marginal(freed, evidence, lengths=lengths, semiring=semiring, checkpoint=checkpoint)
            check_possible(rows, "expected_counts")
            return rows, torch.autograd.grad(rows.sum(), list(leaves.values()), allow_unused=True)

    rows, gradients = differentiate(None, None)
    if not all(g is None or bool(g.isfinite().all()) for g in gradients):
        # By a weight of zero, which Log leaves out, or one below the normal range, which float64 has not.
        rows, gradients = differentiate(Log(), torch.float64)
        if not all(g is None or bool(g.isfinite().all()) for g in gradients):
            raise EvidenceError(
                "expected_counts: a weight is so small that the derivative by it leaves the range of float64; raise the weight, "
                "or set it to zero"
            )
    by_key = {
        key: torch.zeros_like(value) if gradient is None else gradient
        for (key, value), gradient in zip(leaves.items(), gradients, strict=True)
    }

    def derivatives(block: Block) -> tuple[Tensor, ...]:
        own = tuple(map(id, block.tensors))
        if block.layer is None:
            return tuple(by_key[key,] for key in own)
        return tuple(by_key[(*own, i)] for i in range(len(block.layer.free_parameters().parameters())))

    return Counts(found, [derivatives(block) for block in found], rows.detach().sum())


class _Ended(Chain):
    """A chain with a constant ``unit_final``, so that a transition after the last token is not counted."""

    def __init__(self, chain: Chain, unit_final: Vectors) -> None:
        super().__init__(chain.initial, chain.left, chain.inputs, chain.right, chain.final)
        self._unit_final = unit_final

    @property
    def unit_final(self) -> Vectors:
        return self._unit_final


def _freed(
    model: Chain | Circuit, relax: Callable[[InputLayer], InputLayer], leaf: Callable[[Tensor], Tensor]
) -> Chain | Circuit:
    """Return the model with every weight a leaf tensor of autograd."""
    if isinstance(model, Circuit):

        def free(layer: InputLayer | InnerLayer) -> InputLayer | InnerLayer:
            return relax(layer).map(leaf) if isinstance(layer, InputLayer) else layer.map(leaf)

        return model.map_layers(free)
    chain = Chain(
        tuple(map(leaf, model.initial)),
        model.left.map(leaf),
        relax(model.inputs).map(leaf),
        model.right.map(leaf),
        tuple(v.detach() for v in model.final),
    )
    ones = all(bool((v == 1).all()) for v in model.final)
    return _Ended(chain, tuple(v.detach() for v in chain.unit_final)) if ones else chain
