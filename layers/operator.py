"""Linear maps, given by the factors that the engine contracts.

An operator M of shape (rows, cols) has one axis for each Kronecker component: ``row_dims`` and ``col_dims`` are the
sizes of those axes and ``shape`` is their product. ``factors(row, col)`` lists the tensors whose contraction is M,

    M[r_1 r_2 …, c_1 c_2 …] = Σ Π_k factor_k,

with one index label for each axis. The factors of ``Kron(A, B)`` are those of A and of B under disjoint labels: nothing is
materialised, and (A ⊗ B) u = (B (A u)ᵀ)ᵀ (Dang et al. 2026, Eq. 5) is the contraction path that the engine finds.

A factor is a tensor, a :class:`Delta` (its two labels are the same index: the identity) or an :class:`AxisOperator`, which the
engine applies along one axis because its structure makes that faster than an einsum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from math import prod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import ShapeError
from .semiring import Semiring
from .weights import check_weights

Label = int
Index = tuple[Tensor, ...]
"""The indices kept along each axis, ascending."""
TensorMap = Callable[[Tensor], Tensor]


class Delta:
    """The factor of an identity: its two labels stand for the same index."""


class Operator(ABC):
    """A matrix of non-negative weights, (rows, cols), that need not be written out; abstract.

    It is the weight of a :class:`Sum` layer, y = M x: :class:`Dense` is a plain matrix, :class:`Kron`, :class:`Monarch` and
    :class:`Identity` have structure that the engine uses. ``dense()`` writes it out. A class of one's own is best a
    :class:`AxisOperator`, which says how M is applied; ``factors`` lists the tensors whose contraction is M.

    ``entrywise``: each entry is zero or a separate parameter. ``stacks``: the attribute ``weight`` is the matrix, so that
    several operators of one shape can be stacked and contracted at once.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Dense, Identity, Kron
    >>> both = Kron(Dense(torch.tensor([[0.9, 0.1], [0.2, 0.8]])), Identity(3))  # one part moves, the other stays
    >>> both.shape, both.row_dims
    ((6, 6), (2, 3))
    >>> both.leaves()
    [Dense(2, 2), Identity(3, 3)]
    >>> both.dense()[0]
    tensor([0.9000, 0.0000, 0.0000, 0.1000, 0.0000, 0.0000], dtype=torch.float64)
    """

    entrywise: bool = False
    stacks: bool = False
    row_dims: tuple[int, ...]
    col_dims: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, cols) of the whole matrix: the products of ``row_dims`` and ``col_dims``."""
        return prod(self.row_dims), prod(self.col_dims)

    @property
    @abstractmethod
    def T(self) -> Operator:
        """The transposed operator; parameters are shared."""

    @abstractmethod
    def factors(self, row: Sequence[Label], col: Sequence[Label]) -> list[Factor]:
        """Return the factors whose contraction is the operator, given one label for each row axis and each column axis."""

    @abstractmethod
    def take(self, rows: Index, cols: Index) -> Operator:
        """Return the operator restricted to some indices of each row and column axis; its structure is kept if possible."""

    @abstractmethod
    def map(self, fn: TensorMap) -> Operator:
        """Return a copy with ``fn`` applied to every parameter tensor (move, cast, detach, raise to a power…)."""

    @abstractmethod
    def parameters(self) -> list[Tensor]:
        """Return the real-valued parameter tensors, in a fixed order (the positions of an incidence matrix are none)."""

    def parameter_rows(self) -> list[int]:
        """Return for each parameter tensor the number of leading axes that index rows; a row is one distribution in learning."""
        return [p.ndim - 1 for p in self.parameters()]

    @abstractmethod
    def dense(self) -> Float[Tensor, "rows cols"]:
        """Return the whole matrix, written out, in the precision of its parameters (float64 without any)."""

    @abstractmethod
    def leaves(self) -> list[Leaf]:
        """Return the Kronecker components from left to right."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.shape}"


Factor = tuple[Any, tuple[Label, ...]]  # (Tensor | Delta | AxisOperator, labels)


class Leaf(Operator):
    """An operator with one row axis and one column axis.

    ``monomial``: each entry is one product of parameters, so that its logarithm is the sum of their logarithms. ``direct``: the
    engine calls :meth:`apply`; otherwise it contracts the factors.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Incidence
    >>> leaf = Incidence(torch.tensor([0, 1]), torch.tensor([1, 0]), (2, 2))  # swap
    >>> leaf.times(torch.tensor([1.0, 10.0]))
    tensor([10.,  1.])
    >>> leaf.dense()
    tensor([[0., 1.],
            [1., 0.]], dtype=torch.float64)
    """

    monomial: bool = False
    direct: bool = False

    def apply(self, semiring: Semiring[Any], x: Any, axis: int) -> Any:
        """Compute M·x along ``axis``, which has size cols before and size rows after."""
        return semiring.along(self.dense(), x, axis)

    def factors(self, row: Sequence[Label], col: Sequence[Label]) -> list[Factor]:
        return [(self.dense(), (row[0], col[0]))]

    def leaves(self) -> list[Leaf]:
        return [self]

    def take(self, rows: Index, cols: Index) -> Leaf:
        (row,), (col,) = rows, cols
        return self if (len(row), len(col)) == self.shape else self._take(row, col)

    def _take(self, row: Int[Tensor, " rows"], col: Int[Tensor, " cols"]) -> Leaf:
        return Dense(self.dense()[row][:, col])

    def times(self, x: Float[Tensor, "cols *batch"]) -> Float[Tensor, "rows *batch"]:
        """Compute M·x in ordinary arithmetic, for a vector or a batch of vectors on the last axis."""
        matrix = self.dense().to(x.device)
        if matrix.dtype != x.dtype:
            dtype = torch.promote_types(matrix.dtype, x.dtype)
            matrix, x = matrix.to(dtype), x.to(dtype)
        return (x.T @ matrix.T).T if x.ndim == 2 else matrix @ x


class AxisOperator(Leaf):
    """A leaf that is applied along one axis instead of being contracted as a tensor.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import AxisOperator, Categorical, Dense, Sum
    >>> class Swap(AxisOperator):
    ...     row_dims = col_dims = (2,)
    ...     T = property(lambda self: self)
    ...     def apply(self, semiring, x, axis): return semiring.gather(x, torch.tensor([1, 0]), axis)
    ...     def dense(self): return torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    ...     def map(self, fn): return self
    ...     def parameters(self): return []
    >>> c = tt.Circuit()
    >>> swapped = c.sum(Sum(Swap()), c.input(Categorical(torch.eye(2)), 0))
    >>> root = c.sum(Sum(Dense(torch.tensor([[0.9, 0.1]]))), swapped)
    >>> tt.log_marginal(c, torch.tensor([[0], [1]])).exp()
    tensor([0.1000, 0.9000], dtype=torch.float64)
    """

    direct = True

    @abstractmethod
    def apply(self, semiring: Semiring[Any], x: Any, axis: int) -> Any:
        """Compute M·x along ``axis``, which has size cols before and size rows after."""

    def factors(self, row: Sequence[Label], col: Sequence[Label]) -> list[Factor]:
        return [(self, (row[0], col[0]))]


class Dense(Leaf):
    """A matrix of non-negative weights, shape (rows, cols). Raises :class:`ShapeError` for weights that are negative or NaN.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Dense
    >>> transition = Dense(torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    >>> transition.T.times(torch.tensor([1.0, 0.0]))  # one step from the first state
    tensor([0.9000, 0.1000])
    """

    monomial = direct = entrywise = stacks = True

    def __init__(self, weight: Float[Tensor, "rows cols"]) -> None:
        if weight.ndim != 2 or 0 in weight.shape:
            raise ShapeError(
                f"Dense: the weight must be a non-empty matrix, not of shape {tuple(weight.shape)}"
            )
        if not weight.is_floating_point():
            raise ShapeError(f"Dense: the weight must be floating point, not {weight.dtype}")
        check_weights(weight, "Dense")
        self.weight = weight
        self.row_dims, self.col_dims = (weight.shape[0],), (weight.shape[1],)

    @property
    def T(self) -> Dense:
        out = copy(self)  # the weights have been checked
        out.weight, out.row_dims, out.col_dims = self.weight.T, self.col_dims, self.row_dims
        return out

    def map(self, fn: TensorMap) -> Dense:
        return Dense(fn(self.weight))

    def parameters(self) -> list[Tensor]:
        return [self.weight]

    def dense(self) -> Float[Tensor, "rows cols"]:
        return self.weight


class Kron(Operator):
    """The Kronecker product A ⊗ B of two operators, never written out: the factors of both under disjoint labels.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Dense, Kron
    >>> swap, mix = Dense(torch.tensor([[0.0, 1.0], [1.0, 0.0]])), Dense(torch.tensor([[0.5, 0.5]]))
    >>> Kron(swap, mix).dense()
    tensor([[0.0000, 0.0000, 0.5000, 0.5000],
            [0.5000, 0.5000, 0.0000, 0.0000]])
    >>> sum(p.numel() for p in Kron(swap, mix).parameters())  # 4 + 2 parameters, not 2 · 4 entries
    6
    """

    def __init__(self, a: Operator, b: Operator) -> None:
        self.a, self.b = a, b
        self.row_dims, self.col_dims = a.row_dims + b.row_dims, a.col_dims + b.col_dims

    @property
    def T(self) -> Kron:
        return Kron(self.a.T, self.b.T)

    def factors(self, row: Sequence[Label], col: Sequence[Label]) -> list[Factor]:
        r, c = len(self.a.row_dims), len(self.a.col_dims)
        return self.a.factors(row[:r], col[:c]) + self.b.factors(row[r:], col[c:])

    def take(self, rows: Index, cols: Index) -> Kron:
        r, c = len(self.a.row_dims), len(self.a.col_dims)
        return Kron(self.a.take(rows[:r], cols[:c]), self.b.take(rows[r:], cols[c:]))

    def map(self, fn: TensorMap) -> Kron:
        return Kron(self.a.map(fn), self.b.map(fn))

    def parameters(self) -> list[Tensor]:
        return self.a.parameters() + self.b.parameters()

    def parameter_rows(self) -> list[int]:
        return self.a.parameter_rows() + self.b.parameter_rows()

    def dense(self) -> Float[Tensor, "rows cols"]:
        a, b = self.a.dense(), self.b.dense()
        device = next((p.device for p in self.parameters()), a.device)  # what has no parameters is on the CPU
        a, b = a.to(device), b.to(device)
        return (a[:, None, :, None] * b[:, None]).flatten(2).flatten(0, 1)

    def leaves(self) -> list[Leaf]:
        return self.a.leaves() + self.b.leaves()
