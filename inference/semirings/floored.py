"""Real within a tolerance, for guides."""

from __future__ import annotations

import torch
from torch import Tensor

from .labelled_tensor import along
from .scaled import TINY, Scaled, ones, rescale, smallest
from .scaled_real import Real

FLOOR = 1e-30
"""The least positive entry of a column in :class:`Floored`, as a share of its largest."""


class Floored(Real):
    """Real within a tolerance: positive entries below :data:`FLOOR` times the largest of their column are raised to it.

    For guides, whose scores need not be exact: nothing is marked, so nothing is computed again.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference.semirings.floored import Floored
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
        if zeros and self._smallest(matrix) * float(smallest(m)) < TINY[out.dtype]:
            truth = along(ones(matrix), ones(m), axis) > 0
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
        x = rescale(x)
        return Scaled(torch.where(x.mantissa > 0, x.mantissa.clamp(min=FLOOR), 0), x.exponent)
