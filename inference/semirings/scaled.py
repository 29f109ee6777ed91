"""Values of Real: tensors whose columns have a scale of their own, and the operations that keep mantissa and scale apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...layers.functorch_utils import finite, transformed

MAX_PENDING = 64
TINY = {t: torch.finfo(t).tiny for t in (torch.float64, torch.float32, torch.bfloat16, torch.float16)}
LEAST = {t: tiny / torch.finfo(t).eps for t, tiny in TINY.items()}
"""The smallest accurate result of a sum of products."""

SMALLEST = {t: tiny * torch.finfo(t).eps for t, tiny in TINY.items()}
"""The smallest positive number, which is subnormal: a positive top is at least this, and zero divided by it is zero."""


class Scaled:
    """The value mantissa · 2^exponent; the exponent (float64) has as many axes and broadcasts, −inf for a column of zeros.

    The exponent is NaN for a column that lost a positive entry to underflow, and so for every value computed from it. In other
    columns an entry of the mantissa is zero only if the number is.

    ``ops_since_rescale``: the number of contractions since every mantissa column had a maximum of one (up to rounding), at most
    two. The divisors of rescaling are kept in ``pending`` as (divisor, exponent); their logarithms are added to the exponent,
    many at a time, when it is read.
    """

    __slots__ = ("_exponent", "_pending", "mantissa", "ops_since_rescale")

    def __init__(
        self,
        mantissa: Tensor,
        exponent: Tensor,
        ops_since_rescale: int = 0,
        pending: tuple[tuple[Tensor, Tensor | None], ...] = (),
    ) -> None:
        self.mantissa, self.ops_since_rescale = mantissa, ops_since_rescale
        self._exponent, self._pending = exponent, pending
        if len(pending) > MAX_PENDING:
            self._flush()

    def _flush(self) -> None:
        if len(self._pending) == 1:
            ((top, exponent),) = self._pending
            total = self._exponent + top.double().log2()
            self._exponent = total if exponent is None else total + exponent
        else:
            total = self._exponent + torch.stack([top for top, _ in self._pending]).double().log2().sum(0)
            exponents = [exponent for _, exponent in self._pending if exponent is not None]
            self._exponent = total + torch.stack(exponents).sum(0) if exponents else total
        self._pending = ()

    @property
    def exponent(self) -> Tensor:
        """The power of two of each column."""
        if self._pending:
            self._flush()
        return self._exponent

    @property
    def columns(self) -> torch.Size:
        """The shape of the exponent."""
        return self._exponent.shape

    @property
    def device(self) -> torch.device:
        """The device of the mantissa."""
        return self.mantissa.device

    def contracted(self, mantissa: Tensor, lost: Tensor | None = None) -> Scaled:
        """Return the result of a contraction, with the scales of this value; NaN in the columns that ``lost`` entries."""
        return Scaled(mantissa, marked(self._exponent, lost), self.ops_since_rescale + 1, self._pending)

    def divided(
        self,
        mantissa: Tensor,
        other: Scaled | None = None,
        *,
        lost: Tensor | None = None,
        owned: bool = False,
    ) -> Scaled:
        """Return ``mantissa`` with the scales of this value (times those of ``other``), rescaled to column maxima of one.

        ``owned``: nothing else refers to the mantissa, so it may be changed in place. ``lost``: as in :meth:`contracted`.
        """
        top = column_top(mantissa, self._exponent.shape)
        # else `top` is the mantissa
        owned = owned and not mantissa.requires_grad and top.shape != mantissa.shape
        if transformed(mantissa):  # a zero column may have a tangent, which must stay finite
            mantissa = mantissa / torch.where(top > 0, top, 1)
        elif owned:
            mantissa.div_(top.clamp_min(SMALLEST[top.dtype]))
        else:
            mantissa = mantissa / top.clamp_min(SMALLEST[top.dtype])
        if other is None:
            pending = (*self._pending, (top, None))
        else:
            pending = (*self._pending, (top, other._exponent), *other._pending)
        return Scaled(mantissa, marked(self._exponent, lost), 0, pending)


def scaled_axes(mantissa: torch.Size, exponent: torch.Size) -> tuple[int, ...]:
    """Return the axes over which a column extends: those with one exponent and more than one entry."""
    return tuple([i for i, e in enumerate(exponent) if e == 1 != mantissa[i]])


def column_top(mantissa: Tensor, columns: torch.Size) -> Tensor:
    """Return the maximum of each column, detached: a scale is a constant for derivatives, which stay exact."""
    mantissa = mantissa.detach() if mantissa.requires_grad else mantissa
    if columns.numel() == 1 and mantissa.numel():  # quicker than over named axes
        return mantissa.max().view(columns)
    axes = scaled_axes(mantissa.shape, columns)
    return mantissa.amax(axes, keepdim=True) if axes else mantissa


def normalise(mantissa: Tensor, exponent: Tensor) -> Scaled:
    """Return the value with the maximum of every mantissa column at one."""
    return Scaled(mantissa, exponent).divided(mantissa)


def rescale(x: Scaled) -> Scaled:
    """Return the value with the maximum of every mantissa column at one, if contractions have changed it."""
    return x.divided(x.mantissa) if x.ops_since_rescale else x


def marked(exponent: Tensor, lost: Tensor | None) -> Tensor:
    """Return the exponent with NaN in the columns that lost an entry."""
    return exponent if lost is None else torch.where(lost, torch.nan, exponent)


def ones(x: Tensor) -> Tensor:
    """Return one where x is positive, else zero."""
    return (x.detach() > 0).to(x.dtype)


def smallest(x: Tensor) -> Tensor:
    """Return the smallest positive entry; infinity if there is none."""
    x = x.detach()
    return x.masked_fill(x <= 0, torch.inf).amin() if x.numel() else x.new_full((), torch.inf)


def slices(x: Tensor, index: Tensor, axis: int) -> Tensor:
    """Return slices of x along ``axis``; along the last one, the batch, the result's rows stay contiguous in memory."""
    if axis != x.ndim - 1:
        return x.index_select(axis, index)
    return x.movedim(-1, 0).index_select(0, index).movedim(0, -1)


def collapse(x: Scaled, axes: Sequence[int]) -> Scaled:
    """Return an equal value with an exponent of size one along ``axes``, so that mantissas can be summed over them."""
    full = [i for i in axes if x.columns[i] != 1]
    if not full:
        return x
    top = x.exponent.amax(full, keepdim=True)
    return Scaled(shrink(x.mantissa, x.exponent - finite(top)), top)


def shrink(mantissa: Tensor, exponent: Tensor) -> Tensor:
    """Return mantissa · 2^exponent; factors near the subnormal range, in which arithmetic is slow, become zero."""
    floor = -1000.0 if mantissa.dtype == torch.float64 else -110.0
    return mantissa * torch.where(exponent > floor, exponent, -torch.inf).exp2().to(mantissa.dtype)
