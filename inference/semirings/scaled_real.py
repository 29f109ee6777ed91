"""Real: sums and products of non-negative reals, each column a mantissa with its own scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, prod

import torch
from torch import Tensor

from ...layers import Incidence
from ...layers.functorch_utils import is_abstract, shape_only, transformed
from ...layers.log_product import finite
from .base import Semiring
from .labelled_tensor import Labels, along, applied, einsum, kept, safe_log, segments, unflatten

MAX_PENDING = 64
_TINY = {t: torch.finfo(t).tiny for t in (torch.float64, torch.float32, torch.bfloat16, torch.float16)}
_LEAST = {
    t: tiny / torch.finfo(t).eps for t, tiny in _TINY.items()
}  # the smallest accurate result of a sum of products


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
        return Scaled(mantissa, _marked(self._exponent, lost), self.ops_since_rescale + 1, self._pending)

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
        top = _top(mantissa, self._exponent.shape)
        owned = (
            owned and not mantissa.requires_grad and top.shape != mantissa.shape
        )  # else `top` is the mantissa
        if transformed(mantissa):  # a zero column may have a tangent, which must stay finite
            mantissa = mantissa / torch.where(top > 0, top, 1)
        elif owned:
            mantissa.div_(top.clamp_min(_TINY[top.dtype]))
        else:
            mantissa = mantissa / top.clamp_min(_TINY[top.dtype])
        if other is None:
            pending = (*self._pending, (top, None))
        else:
            pending = (*self._pending, (top, other._exponent), *other._pending)
        return Scaled(mantissa, _marked(self._exponent, lost), 0, pending)


class Real(Semiring[Scaled]):
    """Sums and products of non-negative reals; each column has its own scale, so columns neither under- nor overflow.

    Columns (rows of a batch, automaton states) may differ by any factor. Within a column (over hidden states) an entry is
    accurate down to tiny / ε of the largest one: 1e-31 in float32, 1e-292 in float64. A column that loses a smaller entry, which
    may count later, is marked, and what depends on it is NaN: a finite result is right. Queries without a semiring of their own
    compute such rows again in float64 and in :class:`~tractile.inference.semirings.base.Log`, which has no such limit.

    The derivative with respect to a weight of zero is right unless the weight makes a whole column zero, which has no scale.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference import Real
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> tokens = torch.ones(1, 2000, dtype=torch.long)
    >>> tt.log_marginal(hmm, tokens, semiring=Real())  # the probability itself, e^−828, is below any float
    tensor([-827.9591], dtype=torch.float64)
    """

    def __init__(self) -> None:
        self._zeros: dict[tuple[int, torch.device], Tensor] = {}
        self._weights: dict[int, tuple[Tensor, float]] = {}  # holds the tensors, so that no id is used again

    def _zero(self, ndim: int, device: torch.device) -> Tensor:
        """Return an exponent of zero with ``ndim`` axes of size one."""
        if (ndim, device) not in self._zeros:
            self._zeros[ndim, device] = torch.zeros([1] * ndim, dtype=torch.float64, device=device)
        return self._zeros[ndim, device]

    def lift(self, weight: Tensor, *, batched: bool = False) -> Scaled:
        if not batched:
            return Scaled(weight, self._zero(weight.ndim, weight.device))
        zero, batch = self._zero(weight.ndim, weight.device), weight.shape[-1]
        zero = zero if batch == 1 else zero.expand(*zero.shape[:-1], batch)
        x = _normalise(weight, zero)
        lost = self._lost(x.mantissa, zero.shape, lambda: weight > 0, _TINY)
        return x if lost is None else Scaled(x.mantissa, _marked(x.exponent, lost))

    def lift_log(self, log_weight: Tensor) -> Scaled:
        top = log_weight.detach().amax(list(range(log_weight.ndim - 1)), keepdim=True)
        exponent = (finite(top).double() / log(2)).floor()
        mantissa = (log_weight - exponent * log(2)).exp().to(log_weight.dtype)
        lost = self._lost(mantissa, exponent.shape, lambda: log_weight > -torch.inf)
        return _normalise(mantissa, _marked(exponent, lost))

    def log(self, x: Scaled) -> Tensor:
        return safe_log(x.mantissa) + x.exponent * log(2)

    def along(self, matrix: Tensor, x: Scaled, axis: int) -> Scaled:
        if x.columns[axis] != 1:
            return super().along(matrix, x, axis)
        x = x if x.ops_since_rescale < 2 else _rescale(x)
        return self._applied(matrix, x, axis)

    def _applied(self, matrix: Tensor, x: Scaled, axis: int) -> Scaled:
        """Multiply x by a matrix along an axis on which it has one exponent."""
        m = x.mantissa
        out = along(matrix, m, axis)

        def positive() -> Tensor | None:
            if not is_abstract(out) and self._smallest(matrix) * float(_smallest(m)) >= _LEAST[out.dtype]:
                return None
            return along(_ones(matrix), _ones(m), axis) > 0

        return x.contracted(out, self._lost(out, x.columns, positive))

    def _lost(
        self,
        out: Tensor,
        columns: torch.Size,
        positive: Callable[[], Tensor | None],
        least: dict[torch.dtype, float] = _LEAST,
    ) -> Tensor | None:
        """Return which columns have an entry that is positive in truth and below ``least`` in ``out``; None if there is none.

        ``positive()`` tells which entries are positive in truth, or None if all of these are sure to be in range.
        """
        out, limit = out.detach(), least[out.dtype]
        abstract = is_abstract(out)
        if not abstract and (not out.numel() or float(out.amin()) >= limit):
            return None
        truth = positive()
        if truth is None:
            return None
        lost = (out < limit) & truth
        if not abstract and not bool(lost.any()):
            return None
        axes = _scaled_axes(out.shape, columns)
        return lost.any(axes, keepdim=True) if axes else lost

    def least(self, dtype: torch.dtype) -> float:
        """Return the smallest accurate entry of a column whose largest is one; a column with less is marked."""
        return _LEAST[dtype]

    def _smallest(self, matrix: Tensor) -> float:
        """Return the smallest positive entry of a matrix of weights, which is looked for once."""
        base = matrix if matrix._base is None else matrix._base
        if id(base) not in self._weights:
            self._weights[id(base)] = base, float(_smallest(base))
        return self._weights[id(base)][1]

    def einsum(self, a: Scaled, a_labels: Labels, b: Scaled, b_labels: Labels, out: Labels) -> Scaled:
        axis = applied(a_labels, b_labels, out) if a.exponent is self._zero(2, a.device) else None
        if (
            axis is not None and b.columns[axis] == 1
        ):  # a matrix times a message: what a chain spends its time on
            b = b if b.ops_since_rescale < 2 else _rescale(b)
            matrix = a.mantissa if a_labels[1] == b_labels[axis] else a.mantissa.T
            return self._applied(matrix, b, axis)
        summed = {label for label in (*a_labels, *b_labels) if label not in out}
        whole = [a.mantissa, b.mantissa]
        a = _collapse(_rescale(a), [i for i, label in enumerate(a_labels) if label in summed])
        b = _collapse(_rescale(b), [i for i, label in enumerate(b_labels) if label in summed])
        mantissa = einsum(a.mantissa, a_labels, b.mantissa, b_labels, out)
        exponent = kept(a.exponent, a_labels, out) + kept(b.exponent, b_labels, out)
        lost = self._lost(
            mantissa,
            exponent.shape,
            lambda: einsum(_ones(whole[0]), a_labels, _ones(whole[1]), b_labels, out) > 0,
        )
        return Scaled(mantissa, _marked(exponent, lost), ops_since_rescale=1)

    def reduce(self, x: Scaled, axes: Sequence[int]) -> Scaled:
        if not axes:
            return x
        whole, x = x.mantissa, _collapse(_rescale(x), axes)
        mantissa, exponent = x.mantissa.sum(tuple(axes)), x.exponent.squeeze(tuple(axes))
        lost = self._lost(mantissa, exponent.shape, lambda: (whole > 0).sum(tuple(axes)) > 0)
        return Scaled(mantissa, _marked(exponent, lost), ops_since_rescale=1)

    def mul(self, a: Scaled, b: Scaled) -> Scaled:
        if a.ops_since_rescale and b.ops_since_rescale:
            a = _rescale(a)
        product = a.mantissa * b.mantissa

        def positive() -> Tensor:
            return (a.mantissa > 0) & (b.mantissa > 0)

        if a._exponent.shape == b._exponent.shape:
            lost = self._lost(product, a._exponent.shape, positive)
            return a.divided(product, b, lost=lost, owned=True)
        exponent = a.exponent + b.exponent
        return _normalise(product, _marked(exponent, self._lost(product, exponent.shape, positive)))

    def rescaled(self, x: Scaled) -> Scaled:
        return _rescale(x)

    def add(self, a: Scaled, b: Scaled) -> Scaled:
        a, b = _rescale(a), _rescale(b)
        top = torch.maximum(a.exponent, b.exponent)
        floor = finite(top)
        mantissa = _shrink(a.mantissa, a.exponent - floor) + _shrink(b.mantissa, b.exponent - floor)
        lost = self._lost(mantissa, top.shape, lambda: (a.mantissa > 0) | (b.mantissa > 0))
        return _normalise(mantissa, _marked(top, lost))

    def segment_sum(self, x: Scaled, index: Tensor, size: int, axis: int) -> Scaled:
        x = _rescale(x)
        m, e = x.mantissa, x.exponent
        shape, exponents = list(m.shape), list(e.shape)
        shape[axis] = exponents[axis] = size
        if e.shape[axis] == 1 and m.shape[axis] != 1:
            e = e.expand(*e.shape[:axis], m.shape[axis], *e.shape[axis + 1 :])
        top = e.new_full(exponents, -torch.inf).scatter_reduce(axis, segments(index, e, axis), e, "amax")
        shrunk = _shrink(m, e - finite(top).index_select(axis, index))
        out = m.new_zeros(shape).index_add(axis, index, shrunk)
        lost = self._lost(
            out, top.shape, lambda: m.detach().new_zeros(shape).index_add(axis, index, _ones(m)) > 0
        )
        return _normalise(out, _marked(top, lost))

    def gather(self, x: Scaled, index: Tensor, axis: int) -> Scaled:
        e = x.exponent if x.columns[axis] == 1 else _gather(x.exponent, index, axis)
        return Scaled(_gather(x.mantissa, index, axis), e, x.ops_since_rescale)

    def incidence(self, x: Scaled, matrix: Incidence, axis: int) -> Scaled:
        """Multiply by an incidence matrix along an axis, as one sparse matrix product where each slice has one exponent."""
        x = _rescale(x)
        m, e = x.mantissa, x.exponent
        if e.shape[axis] not in (1, e.numel()) or transformed(m) or shape_only(m):
            return super().incidence(x, matrix, axis)
        sparse = matrix.sparse(m.dtype, m.device)
        shape = list(e.shape)
        shape[axis] = matrix.shape[0]
        if e.shape[axis] == 1:
            return _normalise(_times(sparse, m, axis), e.expand(shape))
        places = sparse.indices()
        exponents = e.reshape(-1).index_select(0, places[1])
        top = e.new_full((matrix.shape[0],), -torch.inf).scatter_reduce(0, places[0], exponents, "amax")
        weight = _shrink(m.new_ones(1), exponents - finite(top).index_select(0, places[0]))
        shares = torch.sparse_coo_tensor(
            places, weight, matrix.shape, is_coalesced=True, check_invariants=False
        )
        out, top = _times(shares, m, axis), top.view(shape)
        lost = self._lost(out, top.shape, lambda: _times(sparse, _ones(m), axis) > 0)
        return _normalise(out, _marked(top, lost))

    def permute(self, x: Scaled, order: Sequence[int]) -> Scaled:
        return Scaled(x.mantissa.permute(list(order)), x.exponent.permute(list(order)), x.ops_since_rescale)

    def split(self, x: Scaled, axis: int, dims: Sequence[int]) -> Scaled:
        exponents = tuple(dims) if x.columns[axis] != 1 else (1,) * len(dims)
        return Scaled(
            unflatten(x.mantissa, axis, dims), unflatten(x.exponent, axis, exponents), x.ops_since_rescale
        )

    def merge(self, x: Scaled, axis: int, count: int) -> Scaled:
        m, e = x.mantissa, x.exponent
        last = axis + count
        if any(d != 1 for d in e.shape[axis:last]):
            e = e.expand(*e.shape[:axis], *m.shape[axis:last], *e.shape[last:])
        return Scaled(m.flatten(axis, last - 1), e.flatten(axis, last - 1), x.ops_since_rescale)

    def cat(self, values: Sequence[Scaled]) -> Scaled:
        columns = tuple(max(s) for s in zip(*(x.columns[:-1] for x in values), strict=True))
        exponents = [x.exponent.expand(*columns, x.mantissa.shape[-1]) for x in values]
        ops_since_rescale = max(x.ops_since_rescale for x in values)
        return Scaled(
            torch.cat([x.mantissa for x in values], -1), torch.cat(exponents, -1), ops_since_rescale
        )

    def chunk(self, x: Scaled, count: int) -> list[Scaled]:
        exponent = x.exponent
        exponents = [exponent] * count if exponent.shape[-1] == 1 else exponent.chunk(count, -1)
        parts = zip(x.mantissa.chunk(count, -1), exponents, strict=True)
        return [Scaled(m, e, x.ops_since_rescale) for m, e in parts]

    def shape(self, x: Scaled) -> tuple[int, ...]:
        return tuple(x.mantissa.shape)

    def device(self, x: Scaled) -> torch.device:
        return x.device


def _times(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """Multiply by a sparse matrix along an axis."""
    front = x.movedim(axis, 0)
    product: Tensor = torch.sparse.mm(matrix, front.reshape(len(front), prod(front.shape[1:])))
    return product.view(-1, *front.shape[1:]).movedim(0, axis)


FLOOR = 1e-30
"""The least positive entry of a column in :class:`Floored`, as a share of its largest."""


class Floored(Real):
    """Real within a tolerance: positive entries below :data:`FLOOR` times the largest of their column are raised to it.

    For guides, whose scores need not be exact: nothing is marked, so nothing is computed again.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference.semirings.scaled_real import Floored
    >>> hmm = tt.HMM([0.5, 0.5], [[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [1e-20, 1.0]])
    >>> tt.log_marginal(hmm, torch.zeros(1, 2, dtype=torch.long), semiring=Floored()).exp()
    tensor([0.5000], dtype=torch.float64)
    """

    def least(self, dtype: torch.dtype) -> float:
        return 0.0

    def _lost(self, *args: object, **kwargs: object) -> None:
        return None

    def _applied(self, matrix: Tensor, x: Scaled, axis: int) -> Scaled:
        m = x.mantissa
        out = along(matrix, m, axis)
        zeros = out.numel() and float(out.amin()) <= 0
        if zeros and self._smallest(matrix) * float(_smallest(m)) < _TINY[out.dtype]:
            truth = along(_ones(matrix), _ones(m), axis) > 0
            out = torch.where(truth, out.clamp(min=FLOOR), out)
        return x.contracted(out)

    def mul(self, a: Scaled, b: Scaled) -> Scaled:
        """Multiply in float64, since two entries near the bound have a product below the range of float32."""
        wide = (Scaled(x.mantissa.double(), x.exponent, x.ops_since_rescale) for x in (a, b))
        found = self.rescaled(super().mul(*wide))
        return Scaled(
            found.mantissa.to(torch.promote_types(a.mantissa.dtype, b.mantissa.dtype)), found.exponent
        )

    def rescaled(self, x: Scaled) -> Scaled:
        x = _rescale(x)
        return Scaled(torch.where(x.mantissa > 0, x.mantissa.clamp(min=FLOOR), 0), x.exponent)


def _scaled_axes(mantissa: torch.Size, exponent: torch.Size) -> tuple[int, ...]:
    """Return the axes over which a column extends: those with one exponent and more than one entry."""
    return tuple([i for i, e in enumerate(exponent) if e == 1 != mantissa[i]])


def _top(mantissa: Tensor, columns: torch.Size) -> Tensor:
    """Return the maximum of each column, detached: a scale is a constant for derivatives, which stay exact."""
    mantissa = mantissa.detach() if mantissa.requires_grad else mantissa
    if columns.numel() == 1 and mantissa.numel():  # quicker than over named axes
        return mantissa.max().view(columns)
    axes = _scaled_axes(mantissa.shape, columns)
    return mantissa.amax(axes, keepdim=True) if axes else mantissa


def _normalise(mantissa: Tensor, exponent: Tensor) -> Scaled:
    """Return the value with the maximum of every mantissa column at one."""
    return Scaled(mantissa, exponent).divided(mantissa)


def _rescale(x: Scaled) -> Scaled:
    return x.divided(x.mantissa) if x.ops_since_rescale else x


def _marked(exponent: Tensor, lost: Tensor | None) -> Tensor:
    """Return the exponent with NaN in the columns that lost an entry."""
    return exponent if lost is None else torch.where(lost, torch.nan, exponent)


def _ones(x: Tensor) -> Tensor:
    """Return one where x is positive, else zero."""
    return (x.detach() > 0).to(x.dtype)


def _smallest(x: Tensor) -> Tensor:
    """Return the smallest positive entry; infinity if there is none."""
    x = x.detach()
    return x.masked_fill(x <= 0, torch.inf).amin() if x.numel() else x.new_full((), torch.inf)


def _gather(x: Tensor, index: Tensor, axis: int) -> Tensor:
    """Return slices of x along ``axis``; along the last one, the batch, the result's rows stay contiguous in memory."""
    if axis != x.ndim - 1:
        return x.index_select(axis, index)
    return x.movedim(-1, 0).index_select(0, index).movedim(0, -1)


def _collapse(x: Scaled, axes: Sequence[int]) -> Scaled:
    """Return an equal value with an exponent of size one along ``axes``, so that mantissas can be summed over them."""
    full = [i for i in axes if x.columns[i] != 1]
    if not full:
        return x
    top = x.exponent.amax(full, keepdim=True)
    return Scaled(_shrink(x.mantissa, x.exponent - finite(top)), top)


def _shrink(mantissa: Tensor, exponent: Tensor) -> Tensor:
    """Return mantissa · 2^exponent; factors near the subnormal range, in which arithmetic is slow, become zero."""
    floor = -1000.0 if mantissa.dtype == torch.float64 else -110.0
    return mantissa * torch.where(exponent > floor, exponent, -torch.inf).exp2().to(mantissa.dtype)
