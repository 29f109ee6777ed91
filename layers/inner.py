"""Sum and product layers: they compute the units of a node from the units of its children.

Sum(L_1, …, L_m)    y = Σ_i L_i · x_i       (a mixture; smooth: all children over the same variables; neighbouring
                                            unit axes of a child are flattened if an operator takes a single axis)
Hadamard            y = x_1 ∘ … ∘ x_m       (children over disjoint variables, units of one shape)
Kronecker           y = x_1 ⊗ … ⊗ x_m       (children over disjoint variables)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from ..errors import ShapeError
from .operator import Label, Operator, TensorMap

Dims = tuple[int, ...]


def regroup(dims: Dims, target: Dims) -> list[int] | None:
    """Return the number of neighbouring axes of ``dims`` that make up each axis of ``target``; None if they do not fit."""
    counts, rest = [], list(dims)
    for size in target:
        if not rest:
            return None
        product, count = rest.pop(0), 1
        while product < size and rest:
            product, count = product * rest.pop(0), count + 1
        if product != size:
            return None
        counts.append(count)
    if counts and set(rest) == {1}:  # axes of one unit at the end
        return [*counts[:-1], counts[-1] + len(rest)]
    return counts if not rest else None


class InnerLayer(ABC):
    """A layer whose inputs are the outputs of other layers: a sum or a product.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Dense, Hadamard, Kronecker, Sum
    >>> Hadamard().unit_dims([(3,), (3,)])
    (3,)
    >>> Kronecker().unit_dims([(3,), (4,)])
    (3, 4)
    >>> Sum(Dense(torch.full((2, 12), 1 / 12))).unit_dims([(3, 4)])  # a matrix takes neighbouring axes as one
    (2,)
    """

    @abstractmethod
    def unit_dims(self, children: Sequence[Dims]) -> Dims:
        """Return the unit axes of the output, given those of the children. Raises :class:`ShapeError` if they do not fit."""

    def map(self, fn: TensorMap) -> InnerLayer:
        """Return a copy with ``fn`` applied to every parameter tensor."""
        return self

    def parameters(self) -> list[Tensor]:
        """Return the real-valued parameter tensors, in a fixed order."""
        return []

    def __repr__(self) -> str:
        return type(self).__name__


class Sum(InnerLayer):
    """y = Σ_i L_i x_i: one operator for each child. Raises :class:`ShapeError` if the operators differ in their rows.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Bernoulli, Dense, Sum
    >>> c = tt.Circuit()
    >>> fair, biased = c.input(Bernoulli(torch.tensor([0.5])), 0), c.input(Bernoulli(torch.tensor([0.9])), 0)
    >>> root = c.sum(Sum(Dense(torch.tensor([[0.25]])), Dense(torch.tensor([[0.75]]))), fair, biased)
    >>> round(tt.log_marginal(c, torch.tensor([[1]])).exp().item(), 4)  # ¼ · 0.5 + ¾ · 0.9
    0.8
    """

    def __init__(self, *operators: Operator) -> None:
        if not operators:
            raise ShapeError("Sum: give one operator for each child")
        if len({op.row_dims for op in operators}) > 1:
            raise ShapeError(f"Sum: the operators differ in their rows: {[op.row_dims for op in operators]}")
        self.operators = operators

    def unit_dims(self, children: Sequence[Dims]) -> Dims:
        if len(children) != len(self.operators):
            raise ShapeError(
                f"Sum: {len(self.operators)} operators for {len(children)} children; give one for each: Sum(W1, W2) for two"
            )
        for op, dims in zip(self.operators, children, strict=True):
            if regroup(dims, op.col_dims) is None:
                raise ShapeError(f"Sum: {op!r} takes units {op.col_dims}, but the child has {dims}")
        return self.operators[0].row_dims

    def map(self, fn: TensorMap) -> Sum:
        return Sum(*(op.map(fn) for op in self.operators))

    def parameters(self) -> list[Tensor]:
        return [p for op in self.operators for p in op.parameters()]

    def __repr__(self) -> str:
        return f"Sum({', '.join(map(repr, self.operators))})"


class Product(InnerLayer):
    """y[out] = Π_c x_c[labels_c]: an einsum without sums, over children of disjoint variables.

    Axes of several children with the same label are one axis of the output. A product layer is defined by its labels.

    Examples
    --------
    >>> import torch
    >>> from tractile.layers import Kronecker
    >>> Kronecker().labels([(2,), (3,)])  # an axis for each child
    ([(0,), (1,)], (0, 1))
    >>> Kronecker().parts(torch.tensor([4]), [(2,), (3,)])  # unit 4 of 6 is unit 1 of the first child, 1 of the second
    [tensor([1]), tensor([1])]
    """

    @abstractmethod
    def labels(self, children: Sequence[Dims]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
        """Return a label for each unit axis of each child, and the labels of the output's axes, in order: each label once."""

    def unit_dims(self, children: Sequence[Dims]) -> Dims:
        below, out = self.labels(children)
        sizes: dict[Label, int] = {}
        for dims, own in zip(children, below, strict=True):
            if len(dims) != len(own) or any(
                sizes.setdefault(label, d) != d for d, label in zip(dims, own, strict=True)
            ):
                raise ShapeError(f"{self!r}: the units {list(children)} do not fit the labels {below}")
        if sorted(out) != sorted(sizes):
            raise ShapeError(f"{self!r}: the output has labels {out}, the children {sorted(sizes)}")
        return tuple(sizes[label] for label in out)

    def parts(self, unit: Int[Tensor, " rows"], children: Sequence[Dims]) -> list[Int[Tensor, " rows"]]:
        """Return the unit of each child that enters a unit of the product; units are numbered along flattened axes."""
        below, out = self.labels(children)
        index = dict(zip(out, torch.unravel_index(unit, self.unit_dims(children)), strict=True))
        parts = []
        for dims, own in zip(children, below, strict=True):
            part = torch.zeros_like(unit)
            for size, label in zip(dims, own, strict=True):
                part = part * size + index[label]
            parts.append(part)
        return parts


class Hadamard(Product):
    """y = x_1 ∘ … ∘ x_m, unit by unit.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Bernoulli, Hadamard
    >>> c, coins = tt.Circuit(), Bernoulli(torch.tensor([0.5]))
    >>> root = c.product(Hadamard(), c.input(coins, 0), c.input(coins, 1))
    >>> round(tt.log_marginal(c, torch.tensor([[1, 1]])).exp().item(), 4)
    0.25
    """

    def labels(self, children: Sequence[Dims]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
        if len(set(children)) != 1:
            raise ShapeError(f"Hadamard: the children must have the same units, not {list(children)}")
        out = tuple(range(len(children[0])))
        return [out] * len(children), out


class Kronecker(Product):
    """y = x_1 ⊗ … ⊗ x_m: every combination of units.

    The output has the unit axes of all children, in order; with ``order``, its axis i is number ``order[i]`` of these.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.layers import Categorical, Kronecker
    >>> c = tt.Circuit()
    >>> two, three = (c.input(Categorical(torch.full((units, 4), 0.25)), v) for v, units in enumerate([2, 3]))
    >>> c.unit_dims(c.product(Kronecker(), two, three))
    (2, 3)
    >>> c.unit_dims(c.product(Kronecker(order=[1, 0]), two, three))
    (3, 2)
    """

    def __init__(self, order: Sequence[int] | None = None) -> None:
        self.order = None if order is None else tuple(order)

    def labels(self, children: Sequence[Dims]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
        count = sum(map(len, children))
        if self.order is not None and sorted(self.order) != list(range(count)):
            raise ShapeError(f"Kronecker: order {self.order} is not a permutation of the {count} unit axes")
        each = iter(range(count))
        below = [tuple(next(each) for _ in child) for child in children]
        return below, tuple(range(count)) if self.order is None else self.order
