"""Real: sums and products of non-negative reals, each column a mantissa with its own scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log, prod

import torch
from torch import Tensor

from ...layers import Incidence
from ...layers.functorch_utils import finite, is_abstract, shape_only, transformed
from .base import Semiring
from .labelled_tensor import Labels, along, applied, einsum, safe_log, segments, squeezed, unflatten
from .scaled import (
    LEAST,
    TINY,
    Scaled,
    collapse,
    marked,
    normalise,
    ones,
    rescale,
    scaled_axes,
    shrink,
    slices,
    smallest,
)


class Real(Semiring[Scaled]):
    """Sums and products of non-negative reals; each column has its own scale, so columns neither under- nor overflow.

    Columns (rows of a batch, automaton states) may differ by any factor. Within a column (over hidden states) an entry is
    accurate down to tiny / ε of the largest one: 1e-31 in float32, 1e-292 in float64. A column that loses a smaller entry, which
    may count later, is marked, and what depends on it is NaN: a finite result is right. Queries without a semiring of their own
    compute such rows again in float64 and in :class:`~tractile.inference.semirings.logarithms.Log`, which has no such limit.

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
        x = normalise(weight, zero)
        lost = self._lost(x.mantissa, zero.shape, lambda: weight > 0, TINY)
        return x if lost is None else Scaled(x.mantissa, marked(x.exponent, lost))

    def lift_log(self, log_weight: Tensor) -> Scaled:
        top = log_weight.detach().amax(list(range(log_weight.ndim - 1)), keepdim=True)
        exponent = (finite(top).double() / log(2)).floor()
        mantissa = (log_weight - exponent * log(2)).exp().to(log_weight.dtype)
        lost = self._lost(mantissa, exponent.shape, lambda: log_weight > -torch.inf)
        return normalise(mantissa, marked(exponent, lost))

    def log(self, x: Scaled) -> Tensor:
        return safe_log(x.mantissa) + x.exponent * log(2)

    def argmax(self, x: Scaled, axis: int) -> Tensor:
        return x.mantissa.argmax(axis) if x.columns[axis] == 1 else super().argmax(x, axis)

    def along(self, matrix: Tensor, x: Scaled, axis: int) -> Scaled:
        if x.columns[axis] != 1:
            return super().along(matrix, x, axis)
        x = x if x.ops_since_rescale < 2 else rescale(x)
        return self._applied(matrix, x, axis)

    def _applied(self, matrix: Tensor, x: Scaled, axis: int) -> Scaled:
        """Multiply x by a matrix along an axis on which it has one exponent."""
        m = x.mantissa
        out = along(matrix, m, axis)

        def positive() -> Tensor | None:
            if not is_abstract(out) and self._smallest(matrix) * float(smallest(m)) >= LEAST[out.dtype]:
                return None
            return along(ones(matrix), ones(m), axis) > 0

        return x.contracted(out, self._lost(out, x.columns, positive))

    def _lost(
        self,
        out: Tensor,
        columns: torch.Size,
        positive: Callable[[], Tensor | None],
        least: dict[torch.dtype, float] = LEAST,
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
        axes = scaled_axes(out.shape, columns)
        return lost.any(axes, keepdim=True) if axes else lost

    def least(self, dtype: torch.dtype) -> float:
        """Return the smallest accurate entry of a column whose largest is one; a column with less is marked."""
        return LEAST[dtype]

    def _smallest(self, matrix: Tensor) -> float:
        """Return the smallest positive entry of a matrix of weights, which is looked for once."""
        base = matrix if matrix._base is None else matrix._base
        if id(base) not in self._weights:
            self._weights[id(base)] = base, float(smallest(base))
        return self._weights[id(base)][1]

    def einsum(self, a: Scaled, a_labels: Labels, b: Scaled, b_labels: Labels, out: Labels) -> Scaled:
        axis = applied(a_labels, b_labels, out) if a.exponent is self._zero(2, a.device) else None
        # a matrix times a message: what a chain spends its time on
        if axis is not None and b.columns[axis] == 1:
            b = b if b.ops_since_rescale < 2 else rescale(b)
            matrix = a.mantissa if a_labels[1] == b_labels[axis] else a.mantissa.T
            return self._applied(matrix, b, axis)
        summed = {label for label in (*a_labels, *b_labels) if label not in out}
        whole = [a.mantissa, b.mantissa]
        a = collapse(rescale(a), [i for i, label in enumerate(a_labels) if label in summed])
        b = collapse(rescale(b), [i for i, label in enumerate(b_labels) if label in summed])
        mantissa = einsum(a.mantissa, a_labels, b.mantissa, b_labels, out)
        exponent = squeezed(a.exponent, a_labels, out) + squeezed(b.exponent, b_labels, out)
        lost = self._lost(
            mantissa,
            exponent.shape,
            lambda: einsum(ones(whole[0]), a_labels, ones(whole[1]), b_labels, out) > 0,
        )
        return Scaled(mantissa, marked(exponent, lost), ops_since_rescale=1)

    def reduce(self, x: Scaled, axes: Sequence[int]) -> Scaled:
        if not axes:
            return x
        whole, x = x.mantissa, collapse(rescale(x), axes)
        mantissa, exponent = x.mantissa.sum(tuple(axes)), x.exponent.squeeze(tuple(axes))
        lost = self._lost(mantissa, exponent.shape, lambda: (whole > 0).sum(tuple(axes)) > 0)
        return Scaled(mantissa, marked(exponent, lost), ops_since_rescale=1)

    def mul(self, a: Scaled, b: Scaled) -> Scaled:
        product = a.mantissa * b.mantissa

        def positive() -> Tensor:
            return (a.mantissa > 0) & (b.mantissa > 0)

        if a._exponent.shape == b._exponent.shape:
            lost = self._lost(product, a._exponent.shape, positive)
            if lost is not None and a.ops_since_rescale:  # perhaps not if both are scaled first
                return self.mul(rescale(a), rescale(b))
            return a.divided(product, b, lost=lost, owned=True)
        exponent = a.exponent + b.exponent
        return normalise(product, marked(exponent, self._lost(product, exponent.shape, positive)))

    def rescaled(self, x: Scaled) -> Scaled:
        return rescale(x)

    def add(self, a: Scaled, b: Scaled) -> Scaled:
        a, b = rescale(a), rescale(b)
        top = torch.maximum(a.exponent, b.exponent)
        floor = finite(top)
        mantissa = shrink(a.mantissa, a.exponent - floor) + shrink(b.mantissa, b.exponent - floor)
        lost = self._lost(mantissa, top.shape, lambda: (a.mantissa > 0) | (b.mantissa > 0))
        return normalise(mantissa, marked(top, lost))

    def segment_sum(self, x: Scaled, index: Tensor, size: int, axis: int) -> Scaled:
        x = rescale(x)
        m, e = x.mantissa, x.exponent
        shape, exponents = list(m.shape), list(e.shape)
        shape[axis] = exponents[axis] = size
        if e.shape[axis] == 1 and m.shape[axis] != 1:
            e = e.expand(*e.shape[:axis], m.shape[axis], *e.shape[axis + 1 :])
        top = e.new_full(exponents, -torch.inf).scatter_reduce(axis, segments(index, e, axis), e, "amax")
        shrunk = shrink(m, e - finite(top).index_select(axis, index))
        out = m.new_zeros(shape).index_add(axis, index, shrunk)
        lost = self._lost(
            out, top.shape, lambda: m.detach().new_zeros(shape).index_add(axis, index, ones(m)) > 0
        )
        return normalise(out, marked(top, lost))

    def gather(self, x: Scaled, index: Tensor, axis: int) -> Scaled:
        e = x.exponent if x.columns[axis] == 1 else slices(x.exponent, index, axis)
        return Scaled(slices(x.mantissa, index, axis), e, x.ops_since_rescale)

    def incidence(self, x: Scaled, matrix: Incidence, axis: int) -> Scaled:
        """Multiply by an incidence matrix along an axis, as one sparse matrix product where each slice has one exponent."""
        x = rescale(x)
        m, e = x.mantissa, x.exponent
        if e.shape[axis] not in (1, e.numel()) or transformed(m) or shape_only(m):
            return super().incidence(x, matrix, axis)
        sparse = matrix.sparse(m.dtype, m.device)
        shape = list(e.shape)
        shape[axis] = matrix.shape[0]
        if e.shape[axis] == 1:
            return normalise(_times(sparse, m, axis), e.expand(shape))
        places = sparse.indices()
        exponents = e.reshape(-1).index_select(0, places[1])
        top = e.new_full((matrix.shape[0],), -torch.inf).scatter_reduce(0, places[0], exponents, "amax")
        weight = shrink(m.new_ones(1), exponents - finite(top).index_select(0, places[0]))
        shares = torch.sparse_coo_tensor(
            places, weight, matrix.shape, is_coalesced=True, check_invariants=False
        )
        out, top = _times(shares, m, axis), top.view(shape)
        lost = self._lost(out, top.shape, lambda: _times(sparse, ones(m), axis) > 0)
        return normalise(out, marked(top, lost))

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
        columns = tuple(min(s) and max(s) for s in zip(*(x.columns[:-1] for x in values), strict=True))
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
    return product.view(len(product), *front.shape[1:]).movedim(0, axis)
