"""A dense linear map between several axes at once, for maps that are no Kronecker product."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError
from .operator import Dense, Factor, Index, Label, Leaf, Operator, TensorMap
from .weights import check_weights


class DenseTensor(Operator):
    """The operator M[r_1 … r_k, c_1 … c_m], given as one tensor of shape (*rows, *cols); ``row_axes`` is k.

    It occurs in marginalised, conditioned and normalised circuits, whose weights couple the axes of a product.
    """

    entrywise = True

    def __init__(self, weight: Float[Tensor, "*rows_and_cols"], row_axes: int) -> None:
        if not 0 < row_axes < weight.ndim or 0 in weight.shape or not weight.is_floating_point():
            raise ShapeError(
                f"DenseTensor: the weight must be a non-empty floating-point tensor with more than {row_axes} axes, "
                f"not of shape {tuple(weight.shape)} and {weight.dtype}"
            )
        check_weights(weight, "DenseTensor")
        self.weight, self.row_axes = weight, row_axes
        self.row_dims, self.col_dims = tuple(weight.shape[:row_axes]), tuple(weight.shape[row_axes:])

    @property
    def T(self) -> DenseTensor:
        axes = range(self.weight.ndim)
        order = [*axes[self.row_axes :], *axes[: self.row_axes]]
        return DenseTensor(self.weight.permute(order), len(self.col_dims))

    def factors(self, row: Sequence[Label], col: Sequence[Label]) -> list[Factor]:
        return [(self.weight, (*row, *col))]

    def take(self, rows: Index, cols: Index) -> DenseTensor:
        return DenseTensor(self.weight[torch.meshgrid(*rows, *cols, indexing="ij")], len(rows))

    def map(self, fn: TensorMap) -> DenseTensor:
        return DenseTensor(fn(self.weight), self.row_axes)

    def parameters(self) -> list[Tensor]:
        return [self.weight]

    def parameter_rows(self) -> list[int]:
        return [self.row_axes]

    def dense(self) -> Float[Tensor, "rows cols"]:
        return self.weight.reshape(self.shape)

    def leaves(self) -> list[Leaf]:
        return [Dense(self.dense())]
