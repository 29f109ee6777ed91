"""Semirings of logarithms, in which ⊗ is a sum: Log, MaxProduct and MinPlus."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from math import log, prod

import torch
from torch import Tensor

from ...layers.functorch_utils import finite, is_abstract
from .base import TensorSemiring
from .labelled_tensor import Labels, align, einsum, safe_log, segments, squeezed, top_along


class _LogDomain(TensorSemiring):
    """A semiring of logarithms (or costs): ⊗ is +, ⊕ a reduction defined by subclasses; abstract."""

    sign = 1.0
    block_elements = 1 << 24

    @abstractmethod
    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor: ...

    def _lift(self, weight: Tensor) -> Tensor:
        return self.sign * safe_log(weight)

    def lift_log(self, log_weight: Tensor) -> Tensor:
        return self.sign * log_weight

    def log(self, x: Tensor) -> Tensor:
        return self.sign * x

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b

    def reduce(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return self._reduce(x, tuple(axes)) if axes else x

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        shape = (a + b).shape
        return self._reduce(torch.stack([a.expand(shape), b.expand(shape)]), (0,))

    def einsum(self, a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
        summed = [label for label in dict.fromkeys([*a_labels, *b_labels]) if label not in out]
        order = [*out, *summed]
        a, b = align(a, a_labels, order), align(b, b_labels, order)
        axes = tuple(range(len(out), len(order)))
        if not axes:
            return a + b
        sizes = [max(i, j) for i, j in zip(a.shape, b.shape, strict=True)]
        rows = max(1, self.block_elements // max(1, prod(sizes[1:])))
        if not out or sizes[0] <= rows:
            return self._reduce(a + b, axes)
        pieces = range(0, sizes[0], rows)
        parts = [self._reduce(_rows(a, i, rows) + _rows(b, i, rows), axes) for i in pieces]
        return torch.cat(parts)


def _rows(x: Tensor, start: int, count: int) -> Tensor:
    return x if x.shape[0] == 1 else x[start : start + count]


class MaxProduct(_LogDomain):
    """The best path: values are log weights, ⊕ is max.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import MaxProduct
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> tt.log_marginal(hmm, [1, 1], semiring=MaxProduct()).exp()  # ½ · 0.9 · 0.7 · 0.9, the path that stays in state 0
    tensor([0.2835])
    """

    additive = False

    def integral(self, log_mass: Tensor, log_peak: Tensor) -> Tensor:
        return self.lift_log(log_peak)

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.amax(axes)

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        empty = x.new_full(shape, -self.sign * float("inf"))
        return empty.scatter_reduce(axis, segments(index, x, axis), x, "amax" if self.sign > 0 else "amin")


class MinPlus(MaxProduct):
    """The cheapest path: values are costs −log w, ⊕ is min.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import MinPlus
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> -tt.partition(hmm, n=2, semiring=MinPlus())  # the cost of the best path of two tokens: −log 0.2835
    tensor(1.2605)
    """

    sign = -1.0

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.amin(axes)


Operand = tuple[Tensor, Labels, Tensor]  # logarithms, their labels, and the largest of each sum


def _depth(x: Tensor) -> float:
    """Return the smallest finite entry of x, at most zero."""
    return float(x.detach().masked_fill(x == -torch.inf, 0).amin().clamp(max=0)) if x.numel() else 0.0


class Log(_LogDomain):
    """Log-space sums, exact over any dynamic range: the reference that Real is tested against.

    The derivative with respect to a weight of zero is zero here (Real has the true one).

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference import Log, Real
    >>> stay, sure = [[1.0, 0.0], [0.0, 1.0]], [[1e-35, 1.0], [1.0, 1e-35]]  # each state all but certain of its token
    >>> hmm, tokens = tt.HMM([0.5, 0.5], stay, sure), torch.tensor([[0, 0, 1, 1]])
    >>> tt.log_marginal(hmm, tokens, semiring=Log())  # log 1e-70: either state was surprised twice
    tensor([-161.1810])
    >>> tt.log_marginal(hmm, tokens, semiring=Real())  # in float32 one of them is lost along the way: no answer
    tensor([nan], dtype=torch.float64)
    """

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        top = finite(x.detach().amax(axes, keepdim=True))
        return safe_log((x - top).exp().sum(axes)) + top.squeeze(axes)

    def einsum(self, a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
        """Contract by a matrix product of exponentials, each operand shifted by its maxima.

        Where that underflows, the small entries of one operand go into a second product; if both ranges are wide, broadcast.
        """
        summed = [label for label in dict.fromkeys([*a_labels, *b_labels]) if label not in out]
        if not summed:
            return super().einsum(a, a_labels, b, b_labels, out)
        dtype = torch.promote_types(a.dtype, b.dtype)  # what is lost is told by the range of the result
        a, b = a.to(dtype), b.to(dtype)
        top_a, top_b = top_along(a, a_labels, summed), top_along(b, b_labels, summed)
        result = einsum((a - top_a).exp(), a_labels, (b - top_b).exp(), b_labels, out)
        shift = squeezed(top_a, a_labels, out) + squeezed(top_b, b_labels, out)
        info = torch.finfo(result.dtype)
        lost = result < info.tiny / info.eps**2
        if is_abstract(lost):
            return super().einsum(a, a_labels, b, b_labels, out)
        if bool(lost.any()):
            ones = [(x.detach() > -torch.inf).to(x.dtype) for x in (a, b)]
            lost = lost & (einsum(ones[0], a_labels, ones[1], b_labels, out) > 0)
            if bool(lost.any()):
                return self._in_bands((a, a_labels, top_a), (b, b_labels, top_b), out)
        return safe_log(result) + shift

    def _in_bands(self, a: Operand, b: Operand, out: Labels) -> Tensor:
        """Contract a with the entries of b near the largest ones, then with the others; a is that of the narrower range."""
        (a, low), (b, _) = sorted(((x, _depth(x[0] - x[2])) for x in (a, b)), key=lambda pair: -pair[1])
        info = torch.finfo(a[0].dtype)
        least = log(info.tiny / info.eps)
        if low < least / 2:
            return super().einsum(a[0], a[1], b[0], b[1], out)
        far = (b[0] - b[2]).detach() < least - low
        near = einsum((a[0] - a[2]).exp(), a[1], (b[0] - b[2]).masked_fill(far, -torch.inf).exp(), b[1], out)
        found = safe_log(near) + squeezed(a[2], a[1], out) + squeezed(b[2], b[1], out)
        rest = b[0].masked_fill(~far, -torch.inf)
        return (
            self.add(found, self.einsum(a[0], a[1], rest, b[1], out))
            if bool((rest > -torch.inf).any())
            else found
        )

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        top = x.new_full(shape, -float("inf")).scatter_reduce(
            axis, segments(index, x, axis), x.detach(), "amax"
        )
        top = finite(top)
        total = x.new_zeros(shape).index_add(axis, index, (x - top.index_select(axis, index)).exp())
        return safe_log(total) + top
