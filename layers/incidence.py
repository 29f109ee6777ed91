"""0/1 operators without parameters: the identity, and matrices given by the positions of their ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..argument_checks import whole_numbers
from ..errors import ShapeError
from .operator import AxisOperator, Delta, Factor, Label, Leaf, TensorMap
from .semiring import Semiring


class Identity(Leaf):
    """The identity of a given size; it costs nothing, since its two labels become one.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Dense, Identity, Kron
    >>> Kron(Identity(2), Dense(torch.tensor([[0.5, 0.5]]))).dense()  # the first axis kept, the second averaged
    tensor([[0.5000, 0.5000, 0.0000, 0.0000],
            [0.0000, 0.0000, 0.5000, 0.5000]], dtype=torch.float64)
    """

    monomial = direct = True

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ShapeError(f"Identity: the size must be positive, not {size}")
        self.row_dims = self.col_dims = (size,)

    @property
    def T(self) -> Identity:
        return self

    def factors(self, row: Sequence[Label], col: Sequence[Label]) -> list[Factor]:
        return [(Delta(), (row[0], col[0]))]

    def apply(self, semiring: Semiring[Any], x: Any, axis: int) -> Any:
        return x

    def _take(self, row: Int[Tensor, " rows"], col: Int[Tensor, " cols"]) -> Leaf:
        if torch.equal(row, col):
            return Identity(len(row))
        ones = (row[:, None] == col).nonzero()
        return Incidence(ones[:, 0], ones[:, 1], (len(row), len(col)))

    def map(self, fn: TensorMap) -> Identity:
        return self

    def parameters(self) -> list[Tensor]:
        return []

    def dense(self) -> Float[Tensor, "size size"]:
        return torch.eye(self.row_dims[0], dtype=torch.float64)


class Incidence(AxisOperator):
    """A 0/1 matrix given by the positions of its ones: applied as gather and segment-sum (Dang et al. 2026, Def. 3.2).

    T_out of an automaton is ``Incidence(source, arange(E), (S, E))`` and T_in is ``Incidence(arange(E), target, (E,
    S))``. Positions must be distinct.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Incidence
    >>> leave = Incidence(torch.tensor([0, 0, 1]), torch.arange(3), (2, 3))  # edges 0 and 1 leave state 0, edge 2 state 1
    >>> leave.times(torch.tensor([0.5, 0.25, 0.125]))  # the weights of each state's edges added up
    tensor([0.7500, 0.1250])
    >>> leave.dense().int()
    tensor([[1, 1, 0],
            [0, 0, 1]], dtype=torch.int32)
    """

    monomial = True

    def __init__(self, row: Int[Tensor, " ones"], col: Int[Tensor, " ones"], shape: tuple[int, int]) -> None:
        if row.shape != col.shape or row.ndim != 1:
            raise ShapeError(
                f"Incidence: row and col must be vectors of one length, not {tuple(row.shape)} and {tuple(col.shape)}"
            )
        row, col = (whole_numbers(values, "Incidence: row and col", ShapeError) for values in (row, col))
        if len(row) and (
            int(row.min()) < 0
            or int(col.min()) < 0
            or int(row.max()) >= shape[0]
            or int(col.max()) >= shape[1]
        ):
            raise ShapeError(f"Incidence: an index lies outside the shape {shape}")
        self._listed = self._trivial(row, shape[0]), self._trivial(col, shape[1])
        if not any(self._listed) and len(torch.unique(row * shape[1] + col)) < len(row):
            raise ShapeError("Incidence: a position is named twice")
        self.row, self.col = row, col
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

    def apply(self, semiring: Semiring[Any], x: Any, axis: int) -> Any:
        row, col = self._on(semiring.device(x))
        if row is not None and col is not None:
            return semiring.incidence(x, self, axis)
        if col is not None:
            return semiring.gather(x, col, axis)
        return x if row is None else semiring.segment_sum(x, row, self.row_dims[0], axis)

    def sparse(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return the matrix as a sparse tensor, cached for each precision and device."""
        if (dtype, device) not in self._sparse:
            at = torch.stack([self.row, self.col]).to(device)
            ones = torch.ones(at.shape[1], dtype=dtype, device=device)
            self._sparse[dtype, device] = torch.sparse_coo_tensor(
                at, ones, self.shape, check_invariants=False
            ).coalesce()
        return self._sparse[dtype, device]

    def _on(self, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """Return the index tensors (row, col) on a device; None for an index 0, 1, 2, …, which needs no gather or sum."""
        if device not in self._indices:
            row, col = self.row.to(device), self.col.to(device)
            self._indices[device] = None if self._listed[0] else row, None if self._listed[1] else col
        return self._indices[device]

    @staticmethod
    def _trivial(index: Tensor, size: int) -> bool:
        return len(index) == size and bool((index == torch.arange(size, device=index.device)).all())

    def times(self, x: Float[Tensor, "cols *batch"]) -> Float[Tensor, "rows *batch"]:
        row, col = self.row.to(x.device), self.col.to(x.device)
        return x.new_zeros(*self.row_dims, *x.shape[1:]).index_add(0, row, x[col])

    def _take(self, row: Int[Tensor, " rows"], col: Int[Tensor, " cols"]) -> Incidence:
        ones = self.dense()[row][:, col].nonzero()
        return Incidence(ones[:, 0], ones[:, 1], (len(row), len(col)))

    def map(self, fn: TensorMap) -> Incidence:
        return self

    def parameters(self) -> list[Tensor]:
        return []

    def dense(self) -> Float[Tensor, "rows cols"]:
        out = torch.zeros(self.shape, dtype=torch.float64, device=self.row.device)
        out[self.row, self.col] = 1
        return out
