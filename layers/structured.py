"""Operators that are applied along one axis, because their structure beats an einsum: incidence and Monarch matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import CircuitError, ShapeError
from .algebra import Algebra
from .operator import AxisOperator, TensorMap


class Incidence(AxisOperator):
    """A 0/1 matrix given by the positions of its ones: applied as gather and segment-sum (Dang et al. 2026, Def. 3.2).

    T_out of an automaton is ``Incidence(source, arange(E), (S, E))`` and T_in is ``Incidence(arange(E), target, (E,
    S))``. Positions must be distinct.
    """

    monomial = True

    def __init__(self, row: Int[Tensor, " ones"], col: Int[Tensor, " ones"], shape: tuple[int, int]) -> None:
        if row.shape != col.shape or row.ndim != 1:
            raise ShapeError(
                f"Incidence: row and col must be vectors of one length, not {tuple(row.shape)} and {tuple(col.shape)}"
            )
        if len(row) and (
            int(row.min()) < 0
            or int(col.min()) < 0
            or int(row.max()) >= shape[0]
            or int(col.max()) >= shape[1]
        ):
            raise ShapeError(f"Incidence: an index lies outside the shape {shape}")
        self._listed = self._trivial(row, shape[0]), self._trivial(col, shape[1])
        if not any(self._listed) and len(torch.unique(row.long() * shape[1] + col.long())) < len(row):
            raise ShapeError("Incidence: a position is named twice")
        self.row, self.col = row.long(), col.long()
        self.row_dims, self.col_dims = (shape[0],), (shape[1],)
        self._indices: dict[torch.device, tuple[Tensor | None, Tensor | None]] = {}
        self._sparse: dict[tuple[torch.dtype, torch.device], Tensor] = {}
        self._transposed: Incidence | None = None

    @property
    def T(self) -> Incidence:
        if self._transposed is None:
            out = object.__new__(Incidence)  # the positions have been checked
            out.row, out.col, out._listed = self.col, self.row, self._listed[::-1]
            out.row_dims, out.col_dims = self.col_dims, self.row_dims
            out._indices, out._sparse, out._transposed = {}, {}, None
            self._transposed = out
        return self._transposed

    def apply(self, algebra: Algebra, x: Any, axis: int) -> Any:
        row, col = self._on(algebra.device(x))
        if row is not None and col is not None:
            return algebra.incidence(x, self, axis)
        if col is not None:
            return algebra.gather(x, col, axis)
        return x if row is None else algebra.segment_sum(x, row, self.row_dims[0], axis)

    def sparse(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """The matrix as a sparse tensor, kept for each precision and device."""
        if (dtype, device) not in self._sparse:
            at = torch.stack([self.row, self.col]).to(device)
            ones = torch.ones(at.shape[1], dtype=dtype, device=device)
            self._sparse[dtype, device] = torch.sparse_coo_tensor(
                at, ones, self.shape, check_invariants=False
            ).coalesce()
        return self._sparse[dtype, device]

    def _on(self, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """The index tensors on a device; None where the index is 0, 1, 2, … and there is nothing to do."""
        if device not in self._indices:
            row, col = self.row.to(device), self.col.to(device)
            self._indices[device] = None if self._listed[0] else row, None if self._listed[1] else col
        return self._indices[device]

    @staticmethod
    def _trivial(index: Tensor, size: int) -> bool:
        return len(index) == size and bool((index == torch.arange(size, device=index.device)).all())

    def times(self, vector: Float[Tensor, " cols"]) -> Float[Tensor, " rows"]:
        row, col = self.row.to(vector.device), self.col.to(vector.device)
        return vector.new_zeros(self.row_dims).index_add(0, row, vector[col])

    def map(self, fn: TensorMap) -> Incidence:
        return self

    def parameters(self) -> list[Tensor]:
        return []

    def matrix(self) -> Float[Tensor, "rows cols"]:
        out = torch.zeros(self.shape, dtype=torch.float64, device=self.row.device)
        out[self.row, self.col] = 1
        return out


class Monarch(AxisOperator):
    """A product of block-diagonal matrices and permutations over an axis of size H = d_1 ⋯ d_k (Zhang et al. 2025).

    Index the axis by (i_1, …, i_k). Factor s rewrites index ``axes[s]`` given all the others, so it is a batch of small
    matrices: ``weights[s]`` has shape (d_1, …, d_k, d_axis), current indices first, the new value of the rewritten
    index last. For k = 2, M[(i_1,i_2),(j_1,j_2)] = weights[0][i_1,i_2,j_2] · weights[1][i_1,j_2,j_1], rows stochastic when
    each factor is stochastic in its last axis. Cost H·Σd for one vector instead of H². An index that no factor rewrites
    stays as it is. Where an index is rewritten twice, an entry of the matrix is a sum of products; semirings in which that
    sum is not ⊕ (maxima, counts) then work on the matrix written out.
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
        self.row_dims = self.col_dims = (prod(dims),)
        self.monomial = len(set(self.axes)) == len(self.axes)

    @property
    def T(self) -> Monarch:
        return Monarch(self.weights, self.axes, transposed=not self.transposed)

    def apply(self, algebra: Algebra, x: Any, axis: int) -> Any:
        if not self.monomial and not algebra.additive:
            labels = list(range(algebra.ndim(x)))
            out = [len(labels) if i == axis else i for i in labels]
            return algebra.einsum(algebra.lift(self.matrix()), [len(labels), axis], x, labels, out)
        k = len(self.dims)
        x = algebra.split(x, axis, self.dims)
        labels = list(range(algebra.ndim(x)))
        new = len(labels)
        steps = list(zip(self.weights, self.axes, strict=True))
        for weight, a in steps if self.transposed else reversed(steps):
            old = axis + a
            current = labels[axis : axis + k]
            matrix = [*current, new] if self.transposed else [*(new if i == old else i for i in current), old]
            target = [new if i == old else i for i in labels]  # the new index takes the place of the old one
            x = algebra.einsum(algebra.lift(weight), matrix, x, labels, target)
        return algebra.merge(x, axis, k)

    def times(self, vector: Float[Tensor, " size"]) -> Float[Tensor, " size"]:
        if self.transposed:
            return super().times(vector)
        k = len(self.dims)
        x, indices = vector.to(self.weights[0].dtype).view(self.dims), list(range(k))
        for weight, a in reversed(list(zip(self.weights, self.axes, strict=True))):
            x = torch.einsum(weight, [*indices, k], x, [k if i == a else i for i in indices], indices)
        return x.flatten()

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

    def matrix(self) -> Float[Tensor, "size size"]:
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
