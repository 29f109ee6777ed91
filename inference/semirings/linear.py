"""Semirings of ordinary sums and products on plain tensors: Counting, Residue and Boolean."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .base import TensorSemiring
from .labelled_tensor import Labels, einsum


class LinearSemiring(TensorSemiring):
    """Ordinary sums and products on plain tensors: the base of Boolean, Counting and Residue."""

    dtype = torch.float64

    def _lift(self, weight: Tensor) -> Tensor:
        return (weight > 0).to(self.dtype)

    def lift_log(self, log_weight: Tensor) -> Tensor:
        return (log_weight > -torch.inf).to(self.dtype)

    def log(self, x: Tensor) -> Tensor:
        return x.log()

    def einsum(self, a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
        return self._clip(einsum(a, a_labels, b, b_labels, out))

    def reduce(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return self._clip(x.sum(tuple(axes))) if axes else x

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self._clip(a + b)

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        return self._clip(x.new_zeros(shape).index_add_(axis, index, x))

    def _clip(self, x: Tensor) -> Tensor:
        return x


class Counting(LinearSemiring):
    """Numbers of accepting paths, in float64: exact below 2^53.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import Counting
    >>> ends = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 1, 1), (1, [0, 1], 1)], start=0, accept=[1], vocab_size=2)
    >>> tt.log_marginal(ends, [1, 0, 1], semiring=Counting()).exp()  # two paths: through either 1
    tensor([2.], dtype=torch.float64)
    """

    additive = False


class Residue(LinearSemiring):
    """Numbers of accepting paths modulo ``modulus`` < 2²⁰, in int64: exact for sums of up to 2²³ products (on the CPU)."""

    additive = False
    dtype = torch.int64

    def __init__(self, modulus: int) -> None:
        super().__init__()
        self.modulus = modulus

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return self._clip(a * b)

    def _clip(self, x: Tensor) -> Tensor:
        return x % self.modulus


class Boolean(LinearSemiring):
    """Whether any path has positive weight, as 0.0 or 1.0; sums of non-negative numbers never cancel, so "or" is a positive sum.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import Boolean
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> tt.log_marginal(one, [1, None, 1], semiring=Boolean())  # two ones: nothing is accepted
    tensor([-inf])
    """

    dtype = torch.float32

    def _clip(self, x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype)
