"""log Σ_x p(x) of a chain whose operators are matrices, on arrays: an HMM, or a product of several.

    u_1 = b ∘ Lᵀ initial,   u_t = b ∘ Lᵀ Rᵀ u_{t−1},   Σ_x p(x) = u_nᵀ R final,      b = Σ_v B[:, v]

All steps are alike, so their products, views and buffers are planned once. Each u_t is divided by its maximum. The result equals
that of the general query :func:`~tractile.log_marginal`, which this specialisation replaces for speed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import inf, log, prod

import torch
from jaxtyping import Float
from torch import Tensor

from ...circuits.chain import Chain
from ...layers import Continuous
from ...layers.functorch_utils import is_plain
from ...layers.operator import Leaf
from .contract import axis_steps

BLOCK_STEPS = 1024
"""The number of steps after which their scales are checked and added up."""


def log_partition(chain: Chain, n: int) -> Float[Tensor, ""] | None:
    """Compute log Σ_x p(x) over sequences of n ≥ 1 tokens, in nats and float64.

    Return None if the general query is needed: for structured operators, continuous inputs and derivatives, and if an entry of u
    may be lost to underflow: positive entries of at least ``low`` make those of the next u at least low · the smallest weights.
    """
    parameters = chain.parameters()
    if isinstance(chain.inputs, Continuous) or not is_plain(parameters):
        return None
    right, left = axis_steps(chain.right), axis_steps(chain.left)
    if right is None or left is None or not all(leaf.stacks for _, leaf in (*right, *left)):
        return None
    dtype = reduce(torch.promote_types, {p.dtype for p in parameters})
    b = chain.inputs.value().to(chain.device, dtype)
    largest = float(b.max())
    if not 0 < largest < inf:
        return None
    b, u, tops, total = b / largest, b.new_empty(b.shape), list[Tensor](), n * log(largest)
    info, weights = (
        torch.finfo(dtype),
        [b, *(leaf.dense() for _, leaf in (*right, *left)), *chain.unit_final],
    )
    least = min(
        info.max / 2, info.tiny / info.eps / float(torch.stack([_smallest(w) for w in weights]).prod())
    )
    start = _scaled(reduce(torch.mul, _on_axes(chain.initial)).to(dtype), tops)
    lows = [_smallest(v) for v in chain.initial] if len(chain.initial) > 1 else []
    lows.append(_smallest(start))
    products, last = _planned(left, start.contiguous())
    for t in range(n):
        for product in products:
            product()
        torch.mul(last, b, out=u)
        tops.append(u.max())
        u.div_(tops[-1])
        lows.append(_smallest(u))
        if not t:
            products, last = _planned([*right, *left], u)
        if len(tops) >= BLOCK_STEPS:
            if (found := _log_product(tops, lows, least)) is None:
                return None
            total, tops, lows = total + found, [], []
    last, *others = (vector.to(dtype) for vector in chain.unit_final)
    for vector in reversed(others):
        u = _scaled(u @ vector, tops)
    found = _log_product([*tops, u @ last], lows, least)
    return None if found is None else torch.tensor(total + found, dtype=torch.float64, device=b.device)


def _scaled(x: Tensor, tops: list[Tensor]) -> Tensor:
    """Return x divided by its maximum, and append the maximum to ``tops``."""
    tops.append(x.max())
    return x / tops[-1]


def _log_product(scales: Sequence[Tensor], lows: Sequence[Tensor], least: float) -> float | None:
    """Return the logarithm of the product of all scales; None if one is zero or infinite, or an entry below ``least``."""
    values = torch.stack(list(scales))
    smallest, largest = torch.aminmax(values)
    kept = not lows or float(torch.stack(list(lows)).amin()) >= least
    return float(values.double().log().sum()) if kept and 0 < smallest <= largest < inf else None


def _smallest(x: Tensor) -> Tensor:
    """Return the smallest positive entry of x in float64, at most one; NaN stays."""
    return x.masked_fill(x <= 0, 1).amin().double().clamp(max=1)


def _on_axes(vectors: Sequence[Tensor]) -> list[Tensor]:
    """Return vectors, each on an axis of its own, that broadcast to their outer product."""
    return [v.view([-1 if i == axis else 1 for i in range(len(vectors))]) for axis, v in enumerate(vectors)]


def _planned(steps: Sequence[tuple[int, Leaf]], x: Tensor) -> tuple[list[Callable[[], Tensor]], Tensor]:
    """Plan the products of Mᵀ with x along the axes of the leaves M; return calls, and the tensor that the last one writes."""
    products: list[Callable[[], Tensor]] = []
    for axis, leaf in steps:
        matrix = leaf.dense().T.to(x.dtype)
        before, after = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
        out = x.new_empty(*x.shape[:axis], len(matrix), *x.shape[axis + 1 :])
        if after == 1:
            product = partial(torch.mm, x.view(before, -1), matrix.T, out=out.view(before, -1))
        elif before == 1:
            product = partial(torch.mm, matrix.contiguous(), x.view(-1, after), out=out.view(-1, after))
        else:
            many = matrix.expand(before, *matrix.shape)
            product = partial(torch.bmm, many, x.view(before, -1, after), out=out.view(before, -1, after))
        products.append(product)
        x = out
    return products, x
