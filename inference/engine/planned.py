"""The filter on arrays: a chain of matrices in the arithmetic of Real, with its products and buffers planned once.

    u_1 = b(x_1) ∘ Lᵀ initial,   u_t = b(x_t) ∘ Lᵀ Rᵀ u_{t−1},   root over t positions = u_tᵀ R final

u is (batch, *unit_dims). Each row is divided by its sum, and the logarithms of the sums are added up. Where all weights are
probabilities (HMMs and their products), several steps are taken between divisions, as long as no entry comes near the end of
the range. Other rows are divided at each step and keep to a bound: positive entries of at least ``low`` make those of the next
u at least low · the smallest weights. A row that breaks it is NaN, as in :class:`~tractile.inference.semirings.scaled_real.Real`.

Where nothing is observed all steps are alike: once u is, bit for bit, what it was before, the steps between are repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial, reduce
from itertools import chain as chain_of
from itertools import islice, repeat
from math import inf, log, log2, log10, prod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.chain import Chain
from ...circuits.hmm import HMM
from ...layers import Continuous, Monarch
from ...layers.functorch_utils import is_plain
from ...layers.operator import Leaf
from ..queries.evidence import Evidence
from ..semirings.base import Semiring
from ..semirings.scaled import LEAST, Scaled
from ..semirings.scaled_real import Real
from .contract import axis_steps, on_axes

GATHERED_ELEMENTS = 1 << 17
"""Entries of emission columns gathered at once: a gather for each step costs more than its multiplication."""

KEPT_ELEMENTS = 1 << 18
"""Entries of the arrays that stay with a chain: where there are more, planning anew costs little beside the products."""

Steps = Sequence[tuple[int, Leaf]]


def planned_roots(
    chain: Chain, semiring: Semiring[Any], evidence: Evidence, lengths: Collection[int]
) -> list[tuple[int, Scaled]] | None:
    """Return (t, root over the first t positions) for each t ≥ 1 in ``lengths``, ascending; each root is (batch,).

    None if the general filter is needed: for semirings other than Real, continuous inputs, structure beside Monarch matrices,
    weights on values, derivatives. A small filter stays with the chain (``Chain.cache``) until a parameter has another value; who
    works with it takes it out, so that no other thread writes into its arrays.
    """
    if (
        type(semiring) is not Real
        or isinstance(chain.inputs, Continuous)
        or evidence.weights
        or not evidence.batch
    ):
        return None
    parameters, tokens = chain.parameters(), _table(evidence, max(lengths))
    if not is_plain([*parameters, tokens]):
        return None
    planned: ArrayFilter | None = chain.cache.pop("filter", None)
    if planned is None or not planned.fits(parameters, tokens):
        right, left = axis_steps(chain.right.T), axis_steps(chain.left.T)
        if right is None or left is None:
            return None
        if not all(leaf.stacks or isinstance(leaf, Monarch) for _, leaf in (*right, *left)):
            return None
        if bool((tokens < 0).any()) and not chain.inputs.stacks and not _sums_in_range(chain):
            return None
        planned = ArrayFilter(chain, right, left, tokens)
    found = planned.roots(tokens, sorted(lengths))
    if planned.small and not planned.u.is_inference():
        chain.cache["filter"] = planned
    return found


def _sums_in_range(chain: Chain) -> bool:
    """Return whether no product that the sum of an input layer's columns adds up is below the range of its precision."""
    units = range(len(chain.inputs.unit_dims))
    factors = chain.inputs.factors(units, len(units), len(units) + 1)
    tensors = [x for x, _ in factors if isinstance(x, Tensor)]
    dtype = reduce(torch.promote_types, (x.dtype for x in tensors), torch.float32)
    return _least(tensors) >= LEAST[dtype] if tensors else True


class ArrayFilter:
    """The filter of one chain for a number of rows: the products of a step, and the arrays that they write into."""

    @torch.no_grad()
    def __init__(self, chain: Chain, right: Steps, left: Steps, tokens: Int[Tensor, "n batch"]) -> None:
        self.chain, self.inputs, self.right, self.left = chain, chain.inputs, right, left
        self.parameters = chain.parameters()
        self.dtype = reduce(torch.promote_types, (p.dtype for p in self.parameters))
        self.probabilities = all(isinstance(factor, HMM) for factor in chain.factors)
        self.ends = chain.initial, chain.unit_final
        self.log_scale = 0.0  # of what the ends are divided by
        if not self.probabilities:
            tops = [[float(v.max()) or 1.0 for v in end] for end in self.ends]
            first, last = (
                tuple(v / top for v, top in zip(*pair, strict=True))
                for pair in zip(self.ends, tops, strict=True)
            )
            self.ends = first, last
            self.log_scale = sum(log(top) for end in tops for top in end)
        batch, device = tokens.shape[1], tokens.device
        initial, final = (reduce(torch.mul, on_axes(v, len(v))).to(device, self.dtype) for v in self.ends)
        units, info = prod(self.inputs.unit_dims), torch.finfo(self.dtype)
        self.size = 2.0 ** int(log2(info.max) / 2)  # the sum of each row after a division
        self.least, self.tiny = max(4 * units / info.eps, self.size) * info.tiny, info.tiny
        self.u = initial.new_empty(batch, *self.inputs.unit_dims)
        self.flat = self.u.view(batch, units)
        self.sums, self.last = initial.new_full((units, 1), 1 / self.size), final.reshape(-1, 1) / self.size
        products, self.first = _planned(left, (initial * self.size)[None])
        for product in products:
            product()
        self.products, self.before = _planned([*right, *left], self.u)
        entries = (batch * units, self.inputs.vocab_size * sum(self.inputs.unit_dims))
        self.small = sum(entries) <= KEPT_ELEMENTS
        if self.small:
            self.parameters = [p.clone() for p in self.parameters]

    def fits(self, parameters: Sequence[Tensor], tokens: Int[Tensor, "n batch"]) -> bool:
        """Return whether the filter can be used again: parameters of the same values, and a batch of this size and device."""
        return (
            len(self.u) == tokens.shape[1]
            and self.u.device == tokens.device
            and len(parameters) == len(self.parameters)
            and all(
                p.dtype == q.dtype and torch.equal(p, q)
                for p, q in zip(parameters, self.parameters, strict=True)
            )
        )

    @torch.no_grad()
    def roots(self, tokens: Int[Tensor, "n batch"], ascending: Sequence[int]) -> list[tuple[int, Scaled]]:
        """Return (t, root over the first t positions) for ascending t ≥ 1; each root is (batch,)."""
        if len(ascending) == 1 and self.probabilities:
            every = max(1, min(8, int(26 / log10(2 * self.inputs.vocab_size))))
            found, kept = self.sweep(tokens, ascending, every if self.dtype.itemsize > 2 else 1)
            if not bool(kept.all()):
                (rows,) = (~kept[0]).nonzero(as_tuple=True)
                fewer = self
                some = tokens[:, rows]
                if len(rows) < len(self.u):
                    fewer = ArrayFilter(self.chain, self.right, self.left, some)
                again, sure = fewer.sweep(some, ascending, 1)
                found[:, rows] = again.where(sure, torch.nan)
        else:
            found, kept = self.sweep(tokens, ascending, 1)
            found = found.where(kept, torch.nan)
        return [
            (t, Scaled(torch.ones_like(row), row / log(2))) for t, row in zip(ascending, found, strict=True)
        ]

    def sweep(
        self, tokens: Int[Tensor, "n batch"], lengths: Sequence[int], every: int
    ) -> tuple[Float[Tensor, "lengths batch"], Bool[Tensor, "lengths batch"]]:
        """Return the logarithms of the roots, in float64, and which of them lost no positive entry of u.

        With ``every`` > 1 all weights must be at most one, and there is one length; a root is sure only if no entry of u came
        near the end of the range; the sweep ends early if there is none.
        """
        n, gaps, u, flat = len(tokens), int(tokens.min()) < 0, self.u, self.flat
        products, before = list[Callable[[], Any]](), self.first
        needed, lows, scales = self.least, list[Tensor](), list[Tensor]()
        found, cycle, wanted = list[tuple[int, int, Tensor]](), Cycle(tokens, lengths), set(lengths)
        if every == 1:
            top = torch.finfo(self.dtype).max
            step = self._smallest_step(gaps)  # zero where the product of the weights underflows
            needed = min(needed / step, top / 2) if step else top / 2
            lows.append(flat.new_full(flat.shape[:1], min(self.size * _least(self.ends[0]), top)))
        columns, jumped, t = self._columns(tokens, gaps), self.log_scale, 0
        while True:
            stop = min(t + every, n)
            for column in islice(columns, stop - t):
                for product in products:
                    product()
                torch.mul(before, column[0], out=u)
                for other in column[1:]:
                    u.mul_(other)
                products, before = self.products, self.before
            t = stop
            lows.append(_smallest(flat) if every == 1 else flat.amin(1))
            if t in wanted:
                found.append((len(lows), len(scales), flat @ self.last))
            if t == n:
                break
            scales.append(flat @ self.sums)
            if every > 1 and len(lows) == 1 and not bool((lows[0] >= needed).any()):
                found = [(1, 1, scales[0])]  # the parameters have zeros
                break
            flat.div_(scales[-1].clamp(min=self.tiny))
            if cycle.closes(u, len(scales)):
                steps = (len(scales) - cycle.since) * every
                jumps = (n - 1 - t) // steps
                t += jumps * steps
                jumped += jumps * float(torch.cat(scales[cycle.since :]).double().log().sum())
        kept = torch.stack(lows) >= needed
        if len(found) == 1:
            logs = torch.cat([*scales, found[0][2]], 1).double().log().sum(1)
            return logs[None] + jumped, kept.all(0, keepdim=True)
        logs, kept = (
            torch.cat([torch.ones_like(flat[:, :1]), *scales], 1).double().log().cumsum(1),
            kept.cummin(0).values,
        )
        roots = [logs[:, divided] + end[:, 0].double().log() + jumped for _, divided, end in found]
        return torch.stack(roots), torch.stack([kept[checks - 1] for checks, *_ in found])

    def _columns(self, tokens: Int[Tensor, "n batch"], gaps: bool) -> Iterator[Sequence[Tensor]]:
        """Return for each t the values of the input layer, (batch or 1, *units) once multiplied."""
        vocab_size, (n, batch) = self.inputs.vocab_size, tokens.shape
        total = self.inputs.value().to(self.u) if gaps else None
        if total is not None and int(tokens.max()) < 0:
            return repeat((total.expand(batch, *total.shape),))
        known, every, width = tokens.clamp(min=0) if gaps else tokens, list[Tensor](), n
        if self.small or known.numel() >= vocab_size:
            every = self._every_row
            width = max(1, GATHERED_ELEMENTS // (batch * sum(self.inputs.unit_dims)))

        def values(known: Tensor, tokens: Tensor) -> Iterator[Sequence[Tensor]]:
            at = known.flatten()
            rows = [table.index_select(0, at) for table in every] if every else self._rows(at)
            steps = [x.view(*known.shape, *x.shape[1:]) for x in rows]
            if total is not None:
                missing = tokens.view(*tokens.shape, *[1] * total.ndim) < 0
                steps = [torch.where(missing, total, reduce(torch.mul, steps))]
            return zip(*(x.unbind(0) for x in steps), strict=True)

        if n <= width:
            return values(known, tokens)
        return chain_of.from_iterable(map(values, known.split(width), tokens.split(width)))

    @cached_property
    def _every_row(self) -> list[Tensor]:
        """B as tensors (vocab, *units), as :meth:`_rows` gives it of some tokens."""
        if self.inputs.stacks:
            return [self.inputs.table().movedim(-1, 0).to(self.u).contiguous()]
        return self._rows(torch.arange(self.inputs.vocab_size, device=self.u.device))

    def _rows(self, tokens: Int[Tensor, " count"]) -> list[Tensor]:
        """Return B[:, tokens] as tensors (count, *units), with axes of size one, whose product it is."""
        found, at, axes = list[Tensor](), 0, len(self.inputs.unit_dims)
        for x in self.inputs.columns(tokens):
            rows = x.movedim(-1, 0).to(self.u).contiguous()
            found.append(rows.view(len(tokens), *[1] * at, *rows.shape[1:], *[1] * (axes - at - x.ndim + 1)))
            at += x.ndim - 1
        return found

    def _smallest_step(self, gaps: bool) -> float:
        """Return the product of the smallest positive weights of each part, of those at most one."""
        return self._smallest_weights * (_least([self.inputs.value()]) if gaps else 1.0)

    @cached_property
    def _smallest_weights(self) -> float:
        parts = [p for _, leaf in (*self.right, *self.left) for p in leaf.parameters()]
        units = range(len(self.inputs.unit_dims))
        emitted = self.inputs.factors(units, len(units), len(units) + 1)
        parts += [x for x, _ in emitted if isinstance(x, Tensor)]
        return _least([*parts, *self.ends[1]])


class Cycle:
    """Whether u, where all steps are alike, has come back to an earlier value (R. P. Brent's algorithm, 1980)."""

    def __init__(self, tokens: Tensor, lengths: Sequence[int]) -> None:
        self.since = 0
        self._u: Tensor | None = None
        self._alike = len(lengths) == 1 and len(tokens) > 64 and bool((tokens < 0).all())

    def closes(self, u: Tensor, divisions: int) -> bool:
        """Return whether u, after this many divisions, is what it was after ``since``; do so once."""
        if not self._alike:
            return False
        if self._u is not None and torch.equal(u, self._u):
            self._alike = False
            return True
        if divisions >= 8 and not divisions & (divisions - 1):
            self.since, self._u = divisions, u.clone()
        return False


def _table(evidence: Evidence, n: int) -> Int[Tensor, "n batch"]:
    """Return the tokens observed at n positions, −1 where there is none."""
    try:
        return torch.stack([evidence.tokens[t] for t in range(n)])
    except KeyError:
        none = torch.full((evidence.batch,), -1, device=evidence.device)
        return torch.stack([evidence.tokens.get(t, none) for t in range(n)])


def _smallest(rows: Float[Tensor, "batch units"]) -> Float[Tensor, " batch"]:
    """Return the smallest positive entry of each row; infinity if there is none."""
    return rows.masked_fill(rows <= 0, inf).amin(1)


def _least(weights: Sequence[Tensor]) -> float:
    """Return the product of the smallest positive entries, of those at most one."""
    return float(torch.stack([_smallest(w.reshape(1, -1)).double() for w in weights]).clamp(max=1).prod())


def _planned(steps: Steps, x: Tensor) -> tuple[list[Callable[[], Any]], Tensor]:
    """Plan the products of x, (batch, *dims), with the leaves along their axes; return calls, and the tensor written last."""
    products: list[Callable[[], Any]] = []
    for axis, leaf in ((axis + 1, leaf) for axis, leaf in steps):
        before, after = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
        out = x.new_empty(*x.shape[:axis], leaf.shape[0], *x.shape[axis + 1 :])
        matrix = leaf.dense().to(x) if leaf.stacks else None
        product: Callable[[], Any]
        if matrix is None:
            product = partial(_apply, leaf, x, axis, out)
        elif after == 1:
            product = partial(torch.mm, x.view(before, -1), matrix.T, out=out.view(before, -1))
        elif before == 1:
            product = partial(torch.mm, matrix.contiguous(), x.view(-1, after), out=out.view(-1, after))
        else:
            many = matrix.expand(before, *matrix.shape)
            product = partial(torch.bmm, many, x.view(before, -1, after), out=out.view(before, -1, after))
        products.append(product)
        x = out
    return products, x


def _apply(leaf: Leaf, x: Tensor, axis: int, out: Tensor) -> None:
    """Write the product of a structured leaf with x along an axis into ``out``."""
    out.copy_(leaf.times(x.movedim(axis, 0)).movedim(0, axis))
