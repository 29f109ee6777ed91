"""Products of matrices with vectors given by logarithms, right over any range of magnitudes.

    y_k = log Σ_h exp(x_h) M[h, k]

Entries of x within a band below the largest one are exponentiated and multiplied as ordinary numbers, so wide a band that no
product of a positive weight falls out of range; the entries below are a band of their own. A message whose entries fit into
one band, as nearly all do, takes one matrix product.
"""

from __future__ import annotations

from math import inf, log

import torch
from jaxtyping import Float
from torch import Tensor


def log_product(
    x: Float[Tensor, "rows states"], matrix: Float[Tensor, "states columns"], smallest: float | None = None
) -> Float[Tensor, "rows columns"]:
    """Compute log(exp(x) @ matrix) for logarithms x in float64 and non-negative weights, to rounding error.

    ``smallest``: the smallest positive weight, if known.
    """
    matrix = matrix.to(x)
    top = x.amax(1, keepdim=True)
    x, top = x - finite(top), finite(top)
    found = (x.exp() @ matrix).log()
    info = torch.finfo(x.dtype)
    least = log(info.tiny / info.eps)
    if bool((found >= least).all()):
        return found + top
    smallest = smallest_weight(matrix) if smallest is None else smallest
    near = x >= min(-1.0, least - log(min(1.0, smallest)))
    (rows,) = (~near & (x > -inf)).any(1).nonzero(as_tuple=True)
    if len(rows):
        some, near = x[rows], near[rows]
        above = (some.masked_fill(~near, -inf).exp() @ matrix).log()
        found[rows] = torch.logaddexp(above, log_product(some.masked_fill(near, -inf), matrix, smallest))
    return found + top


def smallest_weight(matrix: Tensor) -> float:
    """Return the smallest positive weight; infinity if there is none."""
    return float(matrix.masked_fill(matrix <= 0, inf).amin())


def finite(x: Tensor) -> Tensor:
    """Return x with zero in place of infinite values and NaN."""
    return torch.where(x.isfinite(), x, 0)
