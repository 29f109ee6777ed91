"""Real: sums and products of non-negative reals, each column a mantissa with its own power of two."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import torch
from torch import Tensor

from ..layers import Incidence
from .axes import Labels, einsum, finite, kept, safe_log, segments, unflatten
from .semiring import Semiring


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
        exponent = (finite(top).double() / log(2)).floor()
        return _normalise((log_weight - exponent * log(2)).exp().to(log_weight.dtype), exponent)

    def log(self, x: Scaled) -> Tensor:
        return safe_log(x.mantissa) + x.exponent * log(2)

    def einsum(self, a: Scaled, a_labels: Labels, b: Scaled, b_labels: Labels, out: Labels) -> Scaled:
        if (a_labels, b_labels, out) == ([0, 1], [1, 2], [0, 2]) and a.exponent.shape == (1, 1) == b.exponent[
            :, :1
        ].shape:
            b = _freshened(b)  # a matrix times a message: the one that a chain spends its time on
            return Scaled(
                einsum(a.mantissa, a_labels, b.mantissa, b_labels, out), a.exponent + b.exponent, fresh=False
            )
        summed = {label for label in (*a_labels, *b_labels) if label not in out}
        a = _collapse(_freshened(a), [i for i, label in enumerate(a_labels) if label in summed])
        b = _collapse(_freshened(b), [i for i, label in enumerate(b_labels) if label in summed])
        mantissa = einsum(a.mantissa, a_labels, b.mantissa, b_labels, out)
        exponent = kept(a.exponent, a_labels, out) + kept(b.exponent, b_labels, out)
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
        floor = finite(top)
        return _normalise(
            _shrink(a.mantissa, a.exponent - floor) + _shrink(b.mantissa, b.exponent - floor), top
        )

    def segment_sum(self, x: Scaled, index: Tensor, size: int, axis: int) -> Scaled:
        m, e, _ = _freshened(x)
        shape, exponents = list(m.shape), list(e.shape)
        shape[axis] = exponents[axis] = size
        if e.shape[axis] == 1 and m.shape[axis] != 1:
            e = e.expand(*e.shape[:axis], m.shape[axis], *e.shape[axis + 1 :])
        top = e.new_full(exponents, -torch.inf).scatter_reduce(axis, segments(index, e, axis), e, "amax")
        m = _shrink(m, e - finite(top).index_select(axis, index))
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
        return Scaled(unflatten(m, axis, dims), unflatten(e, axis, exponents), fresh)

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
    return Scaled(_shrink(m, e - finite(top)), top)


def _shrink(mantissa: Tensor, exponent: Tensor) -> Tensor:
    """mantissa · 2^exponent, without the subnormal numbers that slow a processor down and matter to no sum."""
    floor = -1000.0 if mantissa.dtype == torch.float64 else -110.0
    return mantissa * torch.where(exponent > floor, exponent, -torch.inf).exp2().to(mantissa.dtype)
