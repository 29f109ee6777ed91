"""Semirings: what "sum" and "product" mean while the engine contracts.

    semiring     value of a weight w    ⊕          ⊗     answers
    Real         w, mantissa × scale    +          ×     probabilities, partition functions, next-token distributions
    Log          log w                  logsumexp  +     the same, slower, exact over any dynamic range: the reference
    Boolean      [w > 0]                or         and   support, reachability: GCD, LCD
    Counting     [w > 0]                +          ×     accepting paths
    MaxProduct   log w                  max        +     most probable completion (Viterbi)
    MinPlus      −log w                 min        +     cheapest completion: with e⁻¹ for each token, fewest tokens

A value is a tensor, except in :class:`Real`, where it is a :class:`Scaled`: a mantissa and a natural-log scale that
broadcasts against it. The scale has size one along axes that are summed by dense contractions (hidden states) and full
size along the batch and along axes touched by incidence (automaton states), so each (state, row) column has its own
scale and no length, vocabulary or state count drives a value to 0 or inf while its logarithm is finite.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import log, prod
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..layers import Incidence

Value = TypeVar("Value")
Labels = Sequence[int]


class Semiring(ABC, Generic[Value]):
    """A commutative semiring on values with positional axes; the batch is the last axis of a message."""

    @abstractmethod
    def lift(self, weight: Tensor, *, batched: bool = False) -> Value:
        """Non-negative weights as a value; ``batched`` says that the last axis is the batch."""

    @abstractmethod
    def log(self, x: Value) -> Tensor:
        """The natural logarithm of the real number that x stands for (Counting: of the count; MinPlus: minus the cost)."""

    @abstractmethod
    def einsum(self, a: Value, a_labels: Labels, b: Value, b_labels: Labels, out: Labels) -> Value:
        """⊕ of a ⊗ b over the labels that are not in ``out``."""

    @abstractmethod
    def reduce(self, x: Value, axes: Sequence[int]) -> Value:
        """⊕ over ``axes``, which go."""

    @abstractmethod
    def mul(self, a: Value, b: Value) -> Value:
        """a ⊗ b, elementwise, broadcasting."""

    @abstractmethod
    def add(self, a: Value, b: Value) -> Value:
        """a ⊕ b, elementwise."""

    @abstractmethod
    def segment_sum(self, x: Value, index: Tensor, size: int, axis: int) -> Value:
        """Slices of x along ``axis`` ⊕-ed by ``index`` into ``size`` segments."""

    @abstractmethod
    def gather(self, x: Value, index: Tensor, axis: int) -> Value:
        """The slices ``index`` of x along ``axis``."""

    @abstractmethod
    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """The axes in another order."""

    @abstractmethod
    def split(self, x: Value, axis: int, dims: Sequence[int]) -> Value:
        """One axis written as several."""

    @abstractmethod
    def merge(self, x: Value, axis: int, count: int) -> Value:
        """``count`` axes from ``axis`` on written as one."""

    @abstractmethod
    def cat(self, values: Sequence[Value]) -> Value:
        """Values joined along the batch."""

    @abstractmethod
    def shape(self, x: Value) -> tuple[int, ...]:
        """The size of each axis."""

    @abstractmethod
    def device(self, x: Value) -> torch.device:
        """Where the value lives."""

    def incidence(self, x: Value, matrix: Incidence, axis: int) -> Value:
        """A 0/1 matrix given by the positions of its ones, applied along ``axis``."""
        device = self.device(x)
        return self.segment_sum(
            self.gather(x, matrix.col.to(device), axis), matrix.row.to(device), matrix.shape[0], axis
        )

    def ndim(self, x: Value) -> int:
        """The number of axes."""
        return len(self.shape(x))


class TensorSemiring(Semiring[Tensor]):
    """A semiring whose values are plain tensors: the structural operations, and each parameter lifted once."""

    def __init__(self) -> None:
        self._lifted: dict[tuple[Any, ...], tuple[Tensor, int, Tensor]] = {}

    @abstractmethod
    def _lift(self, weight: Tensor) -> Tensor: ...

    def lift(self, weight: Tensor, *, batched: bool = False) -> Tensor:
        if batched or weight.requires_grad:
            return self._lift(weight)
        base = weight if weight._base is None else weight._base  # a transpose is a new view at each call
        key = (id(base), weight.storage_offset(), weight.shape, weight.stride())
        known = self._lifted.get(key)
        if known is None or known[1] != weight._version:
            known = self._lifted[key] = (base, weight._version, self._lift(weight))
        return known[2]

    def gather(self, x: Tensor, index: Tensor, axis: int) -> Tensor:
        return x.index_select(axis, index)

    def permute(self, x: Tensor, order: Sequence[int]) -> Tensor:
        return x.permute(list(order))

    def split(self, x: Tensor, axis: int, dims: Sequence[int]) -> Tensor:
        return _unflatten(x, axis, dims)

    def merge(self, x: Tensor, axis: int, count: int) -> Tensor:
        return x.flatten(axis, axis + count - 1)

    def cat(self, values: Sequence[Tensor]) -> Tensor:
        return torch.cat(list(values), -1)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape)

    def device(self, x: Tensor) -> torch.device:
        return x.device


def _einsum(a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
    """torch.einsum with dtype promotion, and a bare matmul where that is what it is."""
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype), b.to(dtype)
    if (
        len(a_labels) == len(b_labels) == len(out) == 2
        and out[1] == b_labels[1]
        and a_labels[0] != a_labels[1]
    ):
        if a_labels == [out[0], b_labels[0]] and out[0] != out[1]:
            return a @ b
        if a_labels == [b_labels[0], out[0]] and out[0] != out[1]:
            return a.T @ b
    names = {label: i for i, label in enumerate(dict.fromkeys([*a_labels, *b_labels, *out]))}
    operands: list[Any] = [
        a,
        [names[i] for i in a_labels],
        b,
        [names[i] for i in b_labels],
        [names[i] for i in out],
    ]
    return torch.einsum(*operands)


def _unflatten(x: Tensor, axis: int, dims: Sequence[int]) -> Tensor:
    return x.reshape(*x.shape[:axis], *dims, *x.shape[axis + 1 :])


def _align(x: Tensor, labels: Labels, order: Labels) -> Tensor:
    """x with its axes in ``order``, size one where it lacks a label."""
    present = [label for label in order if label in labels]
    x = x.permute([list(labels).index(label) for label in present])
    return x.reshape([x.shape[present.index(label)] if label in present else 1 for label in order])


def _segments(index: Tensor, like: Tensor, axis: int) -> Tensor:
    shape = [1] * like.ndim
    shape[axis] = -1
    return index.view(shape).expand_as(like)


class Sums(TensorSemiring):
    """Ordinary sums and products on plain tensors: the base of Boolean and Counting."""

    dtype = torch.float64

    def _lift(self, weight: Tensor) -> Tensor:
        return (weight > 0).to(self.dtype)

    def log(self, x: Tensor) -> Tensor:
        return x.log()

    def einsum(self, a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
        return self._clip(_einsum(a, a_labels, b, b_labels, out))

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


class Counting(Sums):
    """Numbers of accepting paths, in float64: exact below 2^53."""


class Boolean(Sums):
    """Reachability as 0.0 / 1.0; sums of non-negative numbers never cancel, so "or" is "the sum is positive"."""

    dtype = torch.float32

    def _clip(self, x: Tensor) -> Tensor:
        return (x > 0).to(x.dtype)


class _LogDomain(TensorSemiring):
    """Values are logarithms (or costs): ⊗ is +, ⊕ a reduction that subclasses name."""

    sign = 1.0
    chunk = 1 << 24

    @abstractmethod
    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor: ...

    def _lift(self, weight: Tensor) -> Tensor:
        return self.sign * weight.log()

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
        a, b = _align(a, a_labels, order), _align(b, b_labels, order)
        axes = tuple(range(len(out), len(order)))
        if not axes:
            return a + b
        sizes = [max(i, j) for i, j in zip(a.shape, b.shape, strict=True)]
        rows = max(1, self.chunk // max(1, prod(sizes[1:])))
        if not out or sizes[0] <= rows:
            return self._reduce(a + b, axes)
        pieces = range(0, sizes[0], rows)
        parts = [self._reduce(_rows(a, i, rows) + _rows(b, i, rows), axes) for i in pieces]
        return torch.cat(parts)


def _rows(x: Tensor, start: int, count: int) -> Tensor:
    return x if x.shape[0] == 1 else x[start : start + count]


class MaxProduct(_LogDomain):
    """The best path: values are log weights, ⊕ is max."""

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.amax(axes)

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        empty = x.new_full(shape, -self.sign * float("inf"))
        return empty.scatter_reduce(axis, _segments(index, x, axis), x, "amax" if self.sign > 0 else "amin")


class MinPlus(MaxProduct):
    """The cheapest path: values are costs −log w, ⊕ is min."""

    sign = -1.0

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.amin(axes)


class Log(_LogDomain):
    """Log-space sums, exact over any dynamic range: the reference that Real is tested against."""

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        return x.logsumexp(axes)

    def einsum(self, a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
        """By max-shift and one product; where that could have underflowed, by broadcasting."""
        summed = [label for label in dict.fromkeys([*a_labels, *b_labels]) if label not in out]
        if not summed:
            return super().einsum(a, a_labels, b, b_labels, out)
        top_a, top_b = _top(a, a_labels, summed), _top(b, b_labels, summed)
        result = _einsum((a - top_a).exp(), a_labels, (b - top_b).exp(), b_labels, out)
        shift = _kept(top_a, a_labels, out) + _kept(top_b, b_labels, out)
        info = torch.finfo(result.dtype)
        if bool((result < info.tiny / info.eps**2).any()):
            return super().einsum(a, a_labels, b, b_labels, out)
        return result.log() + shift

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        top = x.new_full(shape, -float("inf")).scatter_reduce(
            axis, _segments(index, x, axis), x.detach(), "amax"
        )
        top = _finite(top)
        total = x.new_zeros(shape).index_add(axis, index, (x - top.index_select(axis, index)).exp())
        return total.log() + top


def _top(x: Tensor, labels: Labels, summed: Labels) -> Tensor:
    axes = [i for i, label in enumerate(labels) if label in summed]
    return _finite(x.detach().amax(axes, keepdim=True)) if axes else x.new_zeros([1] * x.ndim)


def _finite(x: Tensor) -> Tensor:
    return torch.where(x.isfinite(), x, 0)


def _kept(x: Tensor, labels: Labels, out: Labels) -> Tensor:
    """x, of size one along the labels that are summed, laid out as ``out``."""
    summed = [i for i, label in enumerate(labels) if label not in out]
    return _align(x.squeeze(summed), [label for label in labels if label in out], out)


class Scaled(NamedTuple):
    """mantissa · exp(log_scale): the scale (float64, nats) has as many axes and broadcasts; −inf where a column is zero."""

    mantissa: Tensor
    log_scale: Tensor


class Real(Semiring[Scaled]):
    """Sums and products of non-negative reals that neither under- nor overflow."""

    def lift(self, weight: Tensor, *, batched: bool = False) -> Scaled:
        shape = [1] * weight.ndim
        if not batched:
            return Scaled(weight, torch.zeros(shape, dtype=torch.float64, device=weight.device))
        shape[-1] = weight.shape[-1]
        return _normalise(weight, torch.zeros(shape, dtype=torch.float64, device=weight.device))

    def log(self, x: Scaled) -> Tensor:
        return x.mantissa.log() + x.log_scale

    def einsum(self, a: Scaled, a_labels: Labels, b: Scaled, b_labels: Labels, out: Labels) -> Scaled:
        summed = {label for label in (*a_labels, *b_labels) if label not in out}
        a = _collapse(a, [i for i, label in enumerate(a_labels) if label in summed])
        b = _collapse(b, [i for i, label in enumerate(b_labels) if label in summed])
        mantissa = _einsum(a.mantissa, a_labels, b.mantissa, b_labels, out)
        return _normalise(mantissa, _kept(a.log_scale, a_labels, out) + _kept(b.log_scale, b_labels, out))

    def reduce(self, x: Scaled, axes: Sequence[int]) -> Scaled:
        if not axes:
            return x
        x = _collapse(x, axes)
        return _normalise(x.mantissa.sum(tuple(axes)), x.log_scale.squeeze(tuple(axes)))

    def mul(self, a: Scaled, b: Scaled) -> Scaled:
        return _normalise(a.mantissa * b.mantissa, a.log_scale + b.log_scale)

    def add(self, a: Scaled, b: Scaled) -> Scaled:
        top = torch.maximum(a.log_scale, b.log_scale)
        floor = _finite(top)
        mantissa = _shrink(a.mantissa, a.log_scale - floor) + _shrink(b.mantissa, b.log_scale - floor)
        return _normalise(mantissa, top)

    def segment_sum(self, x: Scaled, index: Tensor, size: int, axis: int) -> Scaled:
        m, s = x
        shape, scale_shape = list(m.shape), list(s.shape)
        shape[axis] = scale_shape[axis] = size
        if s.shape[axis] == 1 and m.shape[axis] != 1:
            s = s.expand(*s.shape[:axis], m.shape[axis], *s.shape[axis + 1 :])
        top = s.new_full(scale_shape, -float("inf")).scatter_reduce(
            axis, _segments(index, s, axis), s, "amax"
        )
        m = _shrink(m, s - _finite(top).index_select(axis, index))
        return _normalise(m.new_zeros(shape).index_add(axis, index, m), top)

    def gather(self, x: Scaled, index: Tensor, axis: int) -> Scaled:
        s = x.log_scale
        return Scaled(
            x.mantissa.index_select(axis, index), s if s.shape[axis] == 1 else s.index_select(axis, index)
        )

    def incidence(self, x: Scaled, matrix: Incidence, axis: int) -> Scaled:
        """As one sparse product where the axis has one scale: nothing of size (ones × rest) is formed."""
        m, s = x
        if s.shape[axis] != 1:
            return super().incidence(x, matrix, axis)
        front = m.movedim(axis, 0)
        product = torch.sparse.mm(matrix.sparse(m.dtype, m.device), front.reshape(front.shape[0], -1))
        scale = s.expand(*s.shape[:axis], matrix.shape[0], *s.shape[axis + 1 :])
        return _normalise(product.view(-1, *front.shape[1:]).movedim(0, axis), scale)

    def permute(self, x: Scaled, order: Sequence[int]) -> Scaled:
        return Scaled(x.mantissa.permute(list(order)), x.log_scale.permute(list(order)))

    def split(self, x: Scaled, axis: int, dims: Sequence[int]) -> Scaled:
        s = x.log_scale
        scale_dims = tuple(dims) if s.shape[axis] != 1 else (1,) * len(dims)
        return Scaled(_unflatten(x.mantissa, axis, dims), _unflatten(s, axis, scale_dims))

    def merge(self, x: Scaled, axis: int, count: int) -> Scaled:
        m, s = x
        last = axis + count
        if any(d != 1 for d in s.shape[axis:last]):
            s = s.expand(*s.shape[:axis], *m.shape[axis:last], *s.shape[last:])
        return Scaled(m.flatten(axis, last - 1), s.flatten(axis, last - 1))

    def cat(self, values: Sequence[Scaled]) -> Scaled:
        columns = tuple(max(s) for s in zip(*(x.log_scale.shape[:-1] for x in values), strict=True))
        scales = [x.log_scale.expand(*columns, x.mantissa.shape[-1]) for x in values]
        return Scaled(torch.cat([x.mantissa for x in values], -1), torch.cat(scales, -1))

    def shape(self, x: Scaled) -> tuple[int, ...]:
        return tuple(x.mantissa.shape)

    def device(self, x: Scaled) -> torch.device:
        return x.mantissa.device


def _normalise(mantissa: Tensor, log_scale: Tensor) -> Scaled:
    """The same value with every mantissa column's maximum in [½, 1): the scale is a power of two, so nothing is rounded.

    The scale is constant for derivatives, which stay exact.
    """
    axes = [i for i, (m, s) in enumerate(zip(mantissa.shape, log_scale.shape, strict=True)) if s == 1 != m]
    top = mantissa.detach().amax(axes, keepdim=True) if axes else mantissa.detach()
    exponent = torch.frexp(top).exponent.clamp(max=126)
    moved = torch.where(top > 0, exponent.double() * log(2), -torch.inf)
    return Scaled(mantissa / torch.ldexp(torch.ones_like(top), exponent), log_scale + moved)


def _collapse(x: Scaled, axes: Sequence[int]) -> Scaled:
    """The same value with a scale of size one along ``axes``, so that a plain sum over them is right."""
    m, s = x
    full = [i for i in axes if s.shape[i] != 1]
    if not full:
        return x
    top = s.amax(full, keepdim=True)
    return Scaled(_shrink(m, s - _finite(top)), top)


def _shrink(mantissa: Tensor, exponent: Tensor) -> Tensor:
    """mantissa · exp(exponent), without the subnormal numbers that slow a processor down and matter to no sum."""
    floor = -80.0 if mantissa.dtype == torch.float32 else -700.0
    return mantissa * torch.where(exponent > floor, exponent, -torch.inf).exp().to(mantissa.dtype)
