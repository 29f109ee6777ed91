"""Semirings as layers know them: the meaning of "sum" (⊕) and "product" (⊗) when they are applied to a message.

A *value* is the semiring's data type: a tensor, or a mantissa with its scale. Axes of a value are given by position, and labels
of an einsum are small non-negative integers. :mod:`tractile.inference.semirings.base` lists the semirings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Labels = Sequence[int]
Value = TypeVar("Value")


class Semiring(ABC, Generic[Value]):
    """A commutative semiring on values with positional axes; the batch is the last axis of a message.

    ``additive``: whether the value of a sum of weights is the ⊕ of their values, so that a product of matrices may be applied
    factor by factor. False for maxima and counts, which would count the paths through the factors.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import Boolean, Counting, Log, MaxProduct, MinPlus, Real
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> for semiring in (Real(), Log(), MaxProduct(), MinPlus(), Counting(), Boolean()):  # of the 4 paths that emit 1, 1
    ...     print(type(semiring).__name__, round(tt.log_marginal(hmm, [1, 1], semiring=semiring).exp().item(), 4))
    Real 0.3515
    Log 0.3515
    MaxProduct 0.2835
    MinPlus 0.2835
    Counting 4.0
    Boolean 1.0
    """

    additive = True

    @abstractmethod
    def lift(self, weight: Tensor, *, batched: bool = False) -> Value:
        """Return non-negative weights as a value; ``batched`` says that the last axis is the batch."""

    def lift_log(self, log_weight: Tensor) -> Value:
        """Return weights, given by their logarithms, as a value; the last axis is the batch."""
        return self.lift(log_weight.exp(), batched=True)

    def integral(self, log_mass: Tensor, log_peak: Tensor) -> Value:
        """Return the ⊕ over all values of a density: its mass ∫, unless ⊕ is a maximum (then its peak)."""
        return self.lift_log(log_mass)

    @abstractmethod
    def log(self, x: Value) -> Tensor:
        """Return the log-weight of x in nats; for MinPlus, minus the cost."""

    def argmax(self, x: Value, axis: int) -> Tensor:
        """Return where x is largest along ``axis``."""
        return self.log(x).argmax(axis)

    def along(self, matrix: Tensor, x: Value, axis: int) -> Value:
        """Multiply x by a matrix of weights along ``axis``, or each entry of its first axis by one of a stack of matrices."""
        labels = list(range(self.ndim(x)))
        out = [len(labels) if i == axis else i for i in labels]
        stack = [0] if matrix.ndim == 3 else []
        return self.einsum(self.lift(matrix), [*stack, len(labels), axis], x, labels, out)

    @abstractmethod
    def einsum(self, a: Value, a_labels: Labels, b: Value, b_labels: Labels, out: Labels) -> Value:
        """Compute the ⊕ of a ⊗ b over the labels that are not in ``out``."""

    @abstractmethod
    def reduce(self, x: Value, axes: Sequence[int]) -> Value:
        """Compute the ⊕ over ``axes``, which are removed."""

    @abstractmethod
    def mul(self, a: Value, b: Value) -> Value:
        """Compute a ⊗ b elementwise, with broadcasting."""

    @abstractmethod
    def add(self, a: Value, b: Value) -> Value:
        """Compute a ⊕ b elementwise."""

    @abstractmethod
    def segment_sum(self, x: Value, index: Tensor, size: int, axis: int) -> Value:
        """Combine the slices of x along ``axis`` by ⊕ into ``size`` segments; slice i goes to segment ``index[i]``."""

    @abstractmethod
    def gather(self, x: Value, index: Tensor, axis: int) -> Value:
        """Return the slices ``index`` of x along ``axis``."""

    @abstractmethod
    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Return x with its axes in another order."""

    @abstractmethod
    def split(self, x: Value, axis: int, dims: Sequence[int]) -> Value:
        """Reshape one axis to several, of sizes ``dims``."""

    @abstractmethod
    def merge(self, x: Value, axis: int, count: int) -> Value:
        """Reshape ``count`` axes from ``axis`` on to one."""

    @abstractmethod
    def cat(self, values: Sequence[Value]) -> Value:
        """Join values along the batch."""

    @abstractmethod
    def chunk(self, x: Value, count: int) -> list[Value]:
        """Split the batch into ``count`` equal parts."""

    @abstractmethod
    def shape(self, x: Value) -> tuple[int, ...]:
        """Return the size of each axis."""

    @abstractmethod
    def device(self, x: Value) -> torch.device:
        """Return the device of a value."""

    def incidence(self, x: Value, matrix: Any, axis: int) -> Value:
        """Multiply x along ``axis`` by a matrix of zeros and ones, an :class:`~tractile.layers.Incidence`."""
        device = self.device(x)
        return self.segment_sum(
            self.gather(x, matrix.col.to(device), axis), matrix.row.to(device), matrix.shape[0], axis
        )

    def rescaled(self, x: Value) -> Value:
        """Return an equal value prepared for many products (Real: with the maximum of every mantissa column at one)."""
        return x

    def ndim(self, x: Value) -> int:
        """Return the number of axes."""
        return len(self.shape(x))
