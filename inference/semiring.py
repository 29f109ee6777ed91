"""Semirings: what "sum" and "product" mean while the engine contracts.

    semiring     value of a weight w    ⊕          ⊗     answers
    Real         w, mantissa × scale    +          ×     probabilities, partition functions, next-token distributions
    Log          log w                  logsumexp  +     the same, slower, exact over any dynamic range: the reference
    Boolean      [w > 0]                or         and   support, reachability: GCD, LCD
    Counting     [w > 0]                +          ×     accepting paths
    MaxProduct   log w                  max        +     most probable completion (Viterbi)
    MinPlus      −log w                 min        +     cheapest completion: with e⁻¹ for each token, fewest tokens

A value is a tensor, except in :class:`Real`, where it is a :class:`Scaled`: a mantissa and a power of two that broadcasts
against it. The exponent has size one along axes that are summed by dense contractions (hidden states) and full size along
the batch and along axes touched by incidence (automaton states), so each (state, row) column has its own scale and no
length, vocabulary or state count drives a value to 0 or inf while its logarithm is finite.
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

    def lift_log(self, log_weight: Tensor) -> Value:
        """Weights given by their logarithms, the batch last, as a value."""
        return self.lift(log_weight.exp(), batched=True)

    def integral(self, log_mass: Tensor, log_peak: Tensor) -> Value:
        """⊕ over all values of a density, from log ∫ and log max: the mass, where sums are sums."""
        return self.lift_log(log_mass)

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
    def chunk(self, x: Value, count: int) -> list[Value]:
        """The batch cut into ``count`` equal parts."""

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

    def chunk(self, x: Tensor, count: int) -> list[Tensor]:
        return list(x.chunk(count, -1))

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

    def lift_log(self, log_weight: Tensor) -> Tensor:
        return (log_weight > -torch.inf).to(self.dtype)

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
    block_elements = 1 << 24

    @abstractmethod
    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor: ...

    def _lift(self, weight: Tensor) -> Tensor:
        return self.sign * _log(weight)

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
        a, b = _align(a, a_labels, order), _align(b, b_labels, order)
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
    """The best path: values are log weights, ⊕ is max."""

    def integral(self, log_mass: Tensor, log_peak: Tensor) -> Tensor:
        return self.lift_log(log_peak)

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
    """Log-space sums, exact over any dynamic range: the reference that Real is tested against.

    The derivative by a weight of zero is zero here (Real has the true one).
    """

    def _reduce(self, x: Tensor, axes: tuple[int, ...]) -> Tensor:
        top = _finite(x.detach().amax(axes, keepdim=True))
        return _log((x - top).exp().sum(axes)) + top.squeeze(axes)

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
        return _log(result) + shift

    def segment_sum(self, x: Tensor, index: Tensor, size: int, axis: int) -> Tensor:
        shape = list(x.shape)
        shape[axis] = size
        top = x.new_full(shape, -float("inf")).scatter_reduce(
            axis, _segments(index, x, axis), x.detach(), "amax"
        )
        top = _finite(top)
        total = x.new_zeros(shape).index_add(axis, index, (x - top.index_select(axis, index)).exp())
        return _log(total) + top


def _log(x: Tensor) -> Tensor:
    """log x, −inf at zero with derivative zero instead of nan."""
    zero = x == 0
    return torch.where(zero, 1, x).log().masked_fill(zero, -torch.inf)


def _top(x: Tensor, labels: Labels, summed: Labels) -> Tensor:
    axes = [i for i, label in enumerate(labels) if label in summed]
    return _finite(x.detach().amax(axes, keepdim=True)) if axes else x.new_zeros([1] * x.ndim)


def _finite(x: Tensor) -> Tensor:
    return torch.where(x.isfinite(), x, 0)


def _kept(x: Tensor, labels: Labels, out: Labels) -> Tensor:
    """x, of size one along the labels that are summed, laid out as ``out``."""
    if len(labels) == len(out) == 2 and x.shape == (1, 1):
        return x
    summed = [i for i, label in enumerate(labels) if label not in out]
    return _align(x.squeeze(summed), [label for label in labels if label in out], out)


class Scaled(NamedTuple):
    """mantissa · 2^exponent: the exponent (float64, whole numbers) has as many axes and broadcasts; −inf where a column is zero.

    ``fresh``: every mantissa column has its maximum in [1, 2). At most one contraction lies between two normalisations.
    """

    mantissa: Tensor
    exponent: Tensor
    fresh: bool = True


class Real(Semiring[Scaled]):
    """Sums and products of non-negative reals that neither under- nor overflow."""

    def lift(self, weight: Tensor, *, batched: bool = False) -> Scaled:
        shape = [1] * weight.ndim
        if not batched:
            return Scaled(weight, torch.zeros(shape, dtype=torch.float64, device=weight.device))
        shape[-1] = weight.shape[-1]
        return _normalise(weight, torch.zeros(shape, dtype=torch.float64, device=weight.device))

    def lift_log(self, log_weight: Tensor) -> Scaled:
        top = log_weight.detach().amax(list(range(log_weight.ndim - 1)), keepdim=True)
        exponent = (_finite(top).double() / log(2)).floor()
        return _normalise((log_weight - exponent * log(2)).exp().to(log_weight.dtype), exponent)

    def log(self, x: Scaled) -> Tensor:
        return _log(x.mantissa) + x.exponent * log(2)

    def einsum(self, a: Scaled, a_labels: Labels, b: Scaled, b_labels: Labels, out: Labels) -> Scaled:
        if (a_labels, b_labels, out) == ([0, 1], [1, 2], [0, 2]) and a.exponent.shape == (1, 1) == b.exponent[
            :, :1
        ].shape:
            b = _freshened(b)  # a matrix times a message: the one that a chain spends its time on
            return Scaled(
                _einsum(a.mantissa, a_labels, b.mantissa, b_labels, out), a.exponent + b.exponent, fresh=False
            )
        summed = {label for label in (*a_labels, *b_labels) if label not in out}
        a = _collapse(_freshened(a), [i for i, label in enumerate(a_labels) if label in summed])
        b = _collapse(_freshened(b), [i for i, label in enumerate(b_labels) if label in summed])
        mantissa = _einsum(a.mantissa, a_labels, b.mantissa, b_labels, out)
        exponent = _kept(a.exponent, a_labels, out) + _kept(b.exponent, b_labels, out)
        return Scaled(mantissa, exponent, fresh=False)

    def reduce(self, x: Scaled, axes: Sequence[int]) -> Scaled:
        if not axes:
            return x
        x = _collapse(_freshened(x), axes)
        return _normalise(x.mantissa.sum(tuple(axes)), x.exponent.squeeze(tuple(axes)))

    def mul(self, a: Scaled, b: Scaled) -> Scaled:
        if not (a.fresh or b.fresh):
            a = _freshened(a)
        return _normalise(a.mantissa * b.mantissa, a.exponent + b.exponent)

    def add(self, a: Scaled, b: Scaled) -> Scaled:
        a, b = _freshened(a), _freshened(b)
        top = torch.maximum(a.exponent, b.exponent)
        floor = _finite(top)
        return _normalise(
            _shrink(a.mantissa, a.exponent - floor) + _shrink(b.mantissa, b.exponent - floor), top
        )

    def segment_sum(self, x: Scaled, index: Tensor, size: int, axis: int) -> Scaled:
        m, e, _ = _freshened(x)
        shape, exponents = list(m.shape), list(e.shape)
        shape[axis] = exponents[axis] = size
        if e.shape[axis] == 1 and m.shape[axis] != 1:
            e = e.expand(*e.shape[:axis], m.shape[axis], *e.shape[axis + 1 :])
        top = e.new_full(exponents, -torch.inf).scatter_reduce(axis, _segments(index, e, axis), e, "amax")
        m = _shrink(m, e - _finite(top).index_select(axis, index))
        return _normalise(m.new_zeros(shape).index_add(axis, index, m), top)

    def gather(self, x: Scaled, index: Tensor, axis: int) -> Scaled:
        m, e, fresh = x
        return Scaled(
            m.index_select(axis, index), e if e.shape[axis] == 1 else e.index_select(axis, index), fresh
        )

    def incidence(self, x: Scaled, matrix: Incidence, axis: int) -> Scaled:
        """As one sparse product where the axis has one exponent: nothing of size (ones × rest) is formed."""
        m, e, _ = x = _freshened(x)
        if e.shape[axis] != 1:
            return super().incidence(x, matrix, axis)
        front = m.movedim(axis, 0)
        product = torch.sparse.mm(matrix.sparse(m.dtype, m.device), front.reshape(front.shape[0], -1))
        exponent = e.expand(*e.shape[:axis], matrix.shape[0], *e.shape[axis + 1 :])
        return _normalise(product.view(-1, *front.shape[1:]).movedim(0, axis), exponent)

    def permute(self, x: Scaled, order: Sequence[int]) -> Scaled:
        return Scaled(x.mantissa.permute(list(order)), x.exponent.permute(list(order)), x.fresh)

    def split(self, x: Scaled, axis: int, dims: Sequence[int]) -> Scaled:
        m, e, fresh = x
        exponents = tuple(dims) if e.shape[axis] != 1 else (1,) * len(dims)
        return Scaled(_unflatten(m, axis, dims), _unflatten(e, axis, exponents), fresh)

    def merge(self, x: Scaled, axis: int, count: int) -> Scaled:
        m, e, fresh = x
        last = axis + count
        if any(d != 1 for d in e.shape[axis:last]):
            e = e.expand(*e.shape[:axis], *m.shape[axis:last], *e.shape[last:])
        return Scaled(m.flatten(axis, last - 1), e.flatten(axis, last - 1), fresh)

    def cat(self, values: Sequence[Scaled]) -> Scaled:
        columns = tuple(max(s) for s in zip(*(x.exponent.shape[:-1] for x in values), strict=True))
        exponents = [x.exponent.expand(*columns, x.mantissa.shape[-1]) for x in values]
        fresh = all(x.fresh for x in values)
        return Scaled(torch.cat([x.mantissa for x in values], -1), torch.cat(exponents, -1), fresh)

    def chunk(self, x: Scaled, count: int) -> list[Scaled]:
        parts = zip(x.mantissa.chunk(count, -1), x.exponent.chunk(count, -1), strict=True)
        return [Scaled(m, e, x.fresh) for m, e in parts]

    def shape(self, x: Scaled) -> tuple[int, ...]:
        return tuple(x.mantissa.shape)

    def device(self, x: Scaled) -> torch.device:
        return x.mantissa.device


# the integer type of a float's bits, the width of its mantissa, its exponent's bias
_BITS = {torch.float32: (torch.int32, 23, 127), torch.float64: (torch.int64, 52, 1023)}


def _normalise(mantissa: Tensor, exponent: Tensor) -> Scaled:
    """The same value with every mantissa column's maximum in [1, 2): divided by a power of two, so nothing is rounded.

    The power is read off the bits of the maximum; it is constant for derivatives, which stay exact.
    """
    axes = [i for i, (m, e) in enumerate(zip(mantissa.shape, exponent.shape, strict=True)) if e == 1 != m]
    top = mantissa.detach().amax(axes, keepdim=True) if axes else mantissa.detach()
    if top.dtype not in _BITS:
        top = top.float()
    integer, width, bias = _BITS[top.dtype]
    bits = (top.contiguous().view(integer) & (2 * bias + 1 << width)).clamp(
        min=1 << width
    )  # ≥ the least normal number
    exponent = torch.where(top > 0, torch.add(exponent - bias, bits.double(), alpha=2.0**-width), -torch.inf)
    return Scaled(mantissa / bits.view(top.dtype).to(mantissa.dtype), exponent)


def _freshened(x: Scaled) -> Scaled:
    return x if x.fresh else _normalise(x.mantissa, x.exponent)


def _collapse(x: Scaled, axes: Sequence[int]) -> Scaled:
    """The same value with an exponent of size one along ``axes``, so that a plain sum over them is right."""
    m, e, _ = x
    full = [i for i in axes if e.shape[i] != 1]
    if not full:
        return x
    top = e.amax(full, keepdim=True)
    return Scaled(_shrink(m, e - _finite(top)), top)


def _shrink(mantissa: Tensor, exponent: Tensor) -> Tensor:
    """mantissa · 2^exponent, without the subnormal numbers that slow a processor down and matter to no sum."""
    floor = -1000.0 if mantissa.dtype == torch.float64 else -110.0
    return mantissa * torch.where(exponent > floor, exponent, -torch.inf).exp2().to(mantissa.dtype)
