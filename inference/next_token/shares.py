"""A bound on underflow: which rows of the generic query in Real may have lost a hidden state."""

from __future__ import annotations

from math import log

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.chain import Chain
from ..semirings.scaled_real import Scaled, log_least, log_spread


class Shares:
    """A tracker of the rows whose messages may have lost a positive entry to underflow.

    The smallest positive entry of a message times the smallest positive weights bounds every positive entry of the next
    message from below. Once that bound is below what the precision can hold, the row counts as doubtful.
    """

    def __init__(self, chain: Chain, betas: Scaled) -> None:
        layers = (chain.left, chain.inputs, chain.right)
        weights = [t.detach() for layer in layers for t in layer.parameters() if t.is_floating_point()]
        positive = [t[t > 0] for t in weights]
        self._step = sum(min(0.0, log(float(t.min()))) for t in positive if t.numel())
        self._least = max((log_least(t.dtype) for t in weights), default=-torch.inf)
        self._ahead = log_spread(betas)
        after = self._exhausted(self._ahead).long()
        self._ahead_lost = after.cumsum(0) - after > 0  # β_r is computed from β_{r−1}
        self._lost: Bool[Tensor, " batch"] = after[:0] > 0

    def _exhausted(self, spread: Tensor) -> Bool[Tensor, " rows"]:
        return spread + self._step < self._least

    def begin(self, batch: int) -> None:
        """Begin ``batch`` rows that have lost nothing."""
        self._lost = torch.zeros(batch, dtype=torch.bool, device=self._ahead.device)

    def advance(self, alpha: Scaled) -> None:
        """Record which rows may lose an entry in the step after the forward messages ``alpha``."""
        self._lost = self._lost | self._exhausted(log_spread(alpha))

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep the rows ``rows``, in that order."""
        self._lost = self._lost[rows]

    def doubtful(self, alpha: Scaled, left: Int[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
        """Tell which rows' next-token weights may be wrong, with ``left`` tokens to come after the next."""
        met = self._exhausted(log_spread(alpha) + self._ahead[left])
        return self._lost | self._ahead_lost[left] | met
