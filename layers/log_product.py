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
    x: Float[Tensor, "rows states"], matrix: Float[Tensor, "states columns"]
) -> Float[Tensor, "rows columns"]:
    """Compute log(exp(x) @ matrix) for logarithms x in float64 and non-negative weights, to rounding error."""
    matrix = matrix.to(x)
    top = x.amax(1, keepdim=True)
    top = torch.where(top.isfinite(), top, 0)
    found = ((x - top).exp() @ matrix).log() + top
    info = torch.finfo(x.dtype)
    least = log(info.tiny / info.eps)
    if bool((found - top >= least).all()):
        return found
    positive = matrix[matrix > 0]
    width = max(1.0, (log(float(positive.min())) if len(positive) else 0.0) - least)
    below = (x - top < -width) & (x > -inf)
    rows = below.any(1).nonzero()[:, 0]
    if len(rows):
        some, apart, height = x[rows], below[rows], top[rows]
        near = ((some - height).masked_fill(apart, -inf).exp() @ matrix).log() + height
        found[rows] = torch.logaddexp(near, log_product(some.masked_fill(~apart, -inf), matrix))
    return found
