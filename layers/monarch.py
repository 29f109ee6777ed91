"""Monarch matrices: products of block-diagonal matrices and permutations."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import CircuitError, ShapeError
from .operator import AxisOperator, TensorMap
from .semiring import Semiring
from .weights import check_weights


class Monarch(AxisOperator):
    """A product of block-diagonal matrices and permutations over an axis of size H = d_1 ⋯ d_k (Zhang et al. 2025).

    Index the axis by (i_1, …, i_k). Factor s rewrites index ``axes[s]`` given all the others, so it is a batch of small
    matrices: ``weights[s]`` has shape (d_1, …, d_k, d_axis), current indices first, the new value of the rewritten
    index last. For k = 2, M[(i_1,i_2),(j_1,j_2)] = weights[0][i_1,i_2,j_2] · weights[1][i_1,j_2,j_1]; its rows are stochastic
    if each factor is stochastic in its last axis. A product with one vector costs H·Σd instead of H². An index that no factor
    rewrites stays as it is. If an index is rewritten twice, an entry of the matrix is a sum of products; semirings in which
    this sum is not ⊕ (maxima, counts) then use the whole matrix.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Monarch
    >>> left, right = torch.full((2, 3, 3), 1 / 3), torch.full((2, 3, 2), 1 / 2)
    >>> monarch = Monarch([left, right])  # 6 × 6
    >>> monarch.dense().sum(1)
    tensor([1., 1., 1., 1., 1., 1.])
    >>> sum(w.numel() for w in monarch.parameters())  # of the 36 entries of a dense matrix
    30
    """

    def __init__(
        self,
        weights: Sequence[Float[Tensor, "..."]],
        axes: Sequence[int] | None = None,
        *,
        transposed: bool = False,
    ) -> None:
        dims = tuple(weights[0].shape[:-1]) if weights else ()
        self.weights, self.dims, self.transposed = list(weights), dims, transposed
        self.axes = tuple(axes) if axes is not None else tuple(reversed(range(len(dims))))
        if not dims or len(self.axes) != len(weights) or not all(0 <= a < len(dims) for a in self.axes):
            raise ShapeError(
                f"Monarch: needs one axis of {dims} for each factor, not {self.axes} for {len(weights)}"
            )
        for weight, axis in zip(self.weights, self.axes, strict=True):
            if tuple(weight.shape) != (*dims, dims[axis]):
                raise ShapeError(
                    f"Monarch: the factor for axis {axis} must have shape {(*dims, dims[axis])}, not {tuple(weight.shape)}"
                )
            if not weight.is_floating_point():
                raise ShapeError(f"Monarch: the factors must be floating point, not {weight.dtype}")
            check_weights(weight, "Monarch")
        self.row_dims = self.col_dims = (prod(dims),)
        self.monomial = len(set(self.axes)) == len(self.axes)

    @property
    def T(self) -> Monarch:
        out = copy(self)  # the weights have been checked
        out.transposed = not self.transposed
        return out

    def apply(self, semiring: Semiring[Any], x: Any, axis: int) -> Any:
        if not self.monomial and not semiring.additive:
            labels = list(range(semiring.ndim(x)))
            out = [len(labels) if i == axis else i for i in labels]
            return semiring.einsum(semiring.lift(self.dense()), [len(labels), axis], x, labels, out)
        k = len(self.dims)
        x = semiring.split(x, axis, self.dims)
        labels = list(range(semiring.ndim(x)))
        new = len(labels)
        steps = list(zip(self.weights, self.axes, strict=True))
        for weight, a in steps if self.transposed else reversed(steps):
            old = axis + a
            current = labels[axis : axis + k]
            matrix = [*current, new] if self.transposed else [*(new if i == old else i for i in current), old]
            target = [new if i == old else i for i in labels]  # the new index takes the place of the old one
            x = semiring.einsum(semiring.lift(weight), matrix, x, labels, target)
        return semiring.merge(x, axis, k)

    def times(self, x: Float[Tensor, "size *batch"]) -> Float[Tensor, "size *batch"]:
        k, shape = len(self.dims), x.shape
        dtype = torch.promote_types(self.weights[0].dtype, x.dtype)
        x, indices = x.reshape(*self.dims, -1).to(dtype), list(range(k))
        steps = list(zip(self.weights, self.axes, strict=True))
        for weight, a in steps if self.transposed else reversed(steps):
            new = [k if i == a else i for i in indices]
            old, out = (indices, new) if self.transposed else (new, indices)
            x = torch.einsum(weight.to(dtype), [*indices, k], x, [*old, k + 1], [*out, k + 1])
        return x.reshape(shape)

    def map(self, fn: TensorMap) -> Monarch:
        return Monarch([fn(w) for w in self.weights], self.axes, transposed=self.transposed)

    def parameters(self) -> list[Tensor]:
        return list(self.weights)

    def parameter_rows(self) -> list[int]:
        if self.transposed:
            raise CircuitError(
                f"the rows of {self!r}, which is transposed, are no distributions of its weights"
            )
        return super().parameter_rows()

    def dense(self) -> Float[Tensor, "size size"]:
        k, label = len(self.dims), 0
        labels: list[int] = list(range(k))
        out, operands = list(labels), list[Any]()
        kept = [a for a in range(k) if a not in self.axes]
        identity = [(torch.eye(self.dims[a]).to(self.weights[0]), a) for a in kept]
        for label, (weight, a) in enumerate(zip(self.weights, self.axes, strict=True), k):
            operands += [weight, [*out, label]]
            out[a] = label
        for last, (eye, a) in enumerate(identity, label + 1):
            operands += [eye, [out[a], last]]
            out[a] = last
        full = torch.einsum(*operands, [*labels, *out]).reshape(self.shape)
        return full.T if self.transposed else full
