"""Underflow in the messages of P-GCD: bounds of what entries set to zero can contribute to a score.

A message is a row of hidden states with a maximum of one and a scale. An entry below :func:`least` is set to zero. That
loses nothing where the entry is zero in truth; where it is not, the row gets a *doubt*: the logarithm (nats) of an upper
bound of what was lost, on the same absolute scale as the message, −inf where nothing was. Since emissions are at most
top(v) and rows of a transition sum to one, a doubt is carried along by adding log top(v), and a result is trusted where the
doubt is below its rounding error.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...layers import Dense, Operator
from ..engine.contract import apply
from ..semirings.scaled_real import Real, Scaled
from .emission_table import product, row_logsumexp, smallest


def least(dtype: torch.dtype) -> float:
    """Return the smallest entry that a message of this precision keeps: tiny / ε; smaller ones are set to zero."""
    info = torch.finfo(dtype)
    return info.tiny / info.eps


LEAST = least(torch.float64)


class Belief(NamedTuple):
    """The HMM's forward message: p(prefix, z_t = h) = alpha · e^scale, in float64.

    The doubt is the logarithm (nats) of a bound of the sum of what was lost.
    """

    alpha: Float[Tensor, "rows hidden"]
    scale: Float[Tensor, " rows"]
    doubt: Float[Tensor, " rows"]

    def select(self, rows: Int[Tensor, " rows"]) -> Belief:
        """Return the rows ``rows``."""
        return Belief(*(x.index_select(0, rows) for x in self))

    def emitted(self, emission: Float[Tensor, "rows hidden"], log_top: Float[Tensor, " rows"]) -> Belief:
        """Return the belief after each row emits a token; ``log_top``: log of the token's largest emission probability."""
        alpha, doubt = self.alpha * emission, self.doubt + log_top
        thin = alpha < LEAST
        lost = (thin & (self.alpha > 0) & (emission > 0)).any(1)
        alpha.masked_fill_(thin, 0)
        return Belief(alpha, self.scale, _more(doubt, lost, alpha, self.scale, LEAST))

    def moved(self, scale: Float[Tensor, " rows"], moved: Moved) -> Belief:
        """Return the belief after a transition; ``scale``: that of the rows before it."""
        rows = moved.rows.double()
        doubt = self.doubt
        if moved.lost is not None:
            doubt = _more(doubt, moved.lost, rows, scale + moved.scale.clamp(min=0), least(moved.rows.dtype))
        return Belief(rows, scale + moved.scale, doubt)

    def where(self, condition: Bool[Tensor, " rows"], other: Belief) -> Belief:
        """Return these rows where the condition holds, those of ``other`` elsewhere."""
        alpha = torch.where(condition[:, None], self.alpha, other.alpha)
        return Belief(
            alpha, *(torch.where(condition, a, b) for a, b in zip(self[1:], other[1:], strict=True))
        )


class Moved(NamedTuple):
    """Rows after a transition, the logarithms (nats) of their scales, and which lost a positive entry (None: none did)."""

    rows: Float[Tensor, "rows hidden"]
    scale: Float[Tensor, " rows"]
    lost: Bool[Tensor, " rows"] | None

    def with_rows(self, rows: Int[Tensor, " some"], found: Moved) -> Moved:
        """Replace the rows ``rows`` by ``found``, computed in a wider precision; the others lost nothing."""
        lost = None
        if found.lost is not None:
            lost = torch.zeros(len(self.scale), dtype=torch.bool, device=self.scale.device)
            lost[rows] = found.lost
        values = self.rows.to(found.rows.dtype).index_copy(0, rows, found.rows)
        return Moved(values, self.scale.index_copy(0, rows, found.scale), lost)


class Transition:
    """The product M x of an operator and rows x (maximum one each), and which rows lost a positive entry to underflow."""

    def __init__(self, operator: Operator, dtype: torch.dtype) -> None:
        self._operator, self.dtype = operator, dtype
        self._times = Times(operator if _dtype_of(operator) == dtype else operator.map(lambda t: t.to(dtype)))
        self._log_smallest = smallest_weight(operator).log()
        self._reach: Times | None = None

    def __call__(
        self, rows: Float[Tensor, "rows hidden"], low: Float[Tensor, " rows"] | None = None
    ) -> Moved:
        """Apply the operator in this precision; ``lost`` of the result is None if no row lost anything.

        ``low``: log lower bounds (nats) of the positive entries of each row, if known.
        """
        moved, scale = self._times(rows.to(self.dtype))
        exposed = self.exposed(smallest(rows).log() if low is None else low)
        if not bool(exposed.any()):
            return Moved(moved, scale, None)
        thin = moved < least(self.dtype)
        moved = moved.masked_fill_(thin, 0)
        doubtful = (thin.any(1) & exposed).nonzero().squeeze(1)
        if not len(doubtful):
            return Moved(moved, scale, None)
        lost = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        lost[doubtful] = (self.reached(rows[doubtful]) & thin[doubtful]).any(1)
        return Moved(moved, scale, lost)

    def without_waiting(self, rows: Float[Tensor, "rows hidden"]) -> Moved:
        """Apply the operator without reading anything back from the device; ``lost`` may name rows that lost nothing."""
        moved, scale = self._times(rows.to(self.dtype))
        thin = moved < least(self.dtype)
        return Moved(moved.masked_fill_(thin, 0), scale, thin.any(1) & self.exposed(smallest(rows).log()))

    def exposed(self, low: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Tell in which rows an entry may underflow; ``low``: log lower bounds (nats) of their positive entries."""
        return low + self._log_smallest < log(least(self.dtype))

    def reached(self, rows: Float[Tensor, "rows hidden"]) -> Bool[Tensor, "rows hidden"]:
        """Tell which entries of M x are positive, by Boolean arithmetic."""
        if self._reach is None:
            self._reach = Times(self._operator.map(lambda t: (t > 0).float()))
        return self._reach((rows > 0).float())[0] > 0


class _Unmarked(Real):
    """Real without marks of underflow, which is accounted for here by doubts."""

    def _lost(self, *args: Any) -> None:
        return None


class Times:
    """The product M x of an operator and rows x (maximum one each), and the logarithms (nats) of the rows' scales."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._by_weight = product(operator.weight.T) if isinstance(operator, Dense) else None
        self._semiring = _Unmarked()

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        if self._by_weight is not None:
            return self._by_weight(rows), rows.new_zeros(len(rows), dtype=torch.float64)
        exponent = torch.zeros(1, len(rows), dtype=torch.float64, device=rows.device)
        moved = apply(self._semiring, self._operator, Scaled(rows.T.contiguous(), exponent))
        return moved.mantissa.T.contiguous(), moved.exponent.expand(1, len(rows))[0] * log(2)


def _dtype_of(operator: Operator) -> torch.dtype | None:
    dtypes = {t.dtype for t in operator.parameters()}
    return dtypes.pop() if len(dtypes) == 1 else None


def smallest_weight(operator: Operator) -> Float[Tensor, ""]:
    """Return a lower bound of an operator's positive entries: the product of each parameter's smallest positive entry."""
    found = [smallest(t.flatten()[None])[0].clamp(max=1) for t in operator.parameters()]
    return torch.stack(found).prod() if found else torch.ones((), dtype=torch.float64)


def _more(doubt: Tensor, lost: Tensor, rows: Tensor, scale: Tensor, kept: float) -> Tensor:
    """Return the doubt of rows of which those ``lost`` had entries below ``kept`` · e^scale set to zero."""
    fresh = scale + log(4 * rows.shape[1] * kept)  # H entries; the factor covers underflow of their terms
    return torch.where(lost, torch.logaddexp(doubt, fresh), doubt)


def added(belief: Belief, to: Int[Tensor, " rows"], count: int) -> Belief:
    """Sum beliefs into ``count`` rows; belief i is added to row ``to[i]``."""
    top = belief.scale.new_full((count,), -torch.inf).scatter_reduce(0, to, belief.scale, "amax")
    shift = belief.scale - torch.where(top.isfinite(), top, 0)[to]
    weight = shift.exp()
    doubt = _more(
        belief.doubt, smallest(belief.alpha).log() + shift < log(LEAST), belief.alpha, top[to], LEAST
    ).masked_fill(~belief.scale.isfinite() & belief.doubt.isneginf(), -torch.inf)
    alpha = belief.alpha.new_zeros(count, belief.alpha.shape[1]).index_add(
        0, to, belief.alpha * weight[:, None]
    )
    alpha, scale = normalised(alpha, top)
    return Belief(alpha, scale, row_logsumexp(doubt, to, count))


def doubt_of_product(
    belief: Belief, scale: Float[Tensor, "rows ..."], doubt: Float[Tensor, "rows ..."]
) -> Float[Tensor, "rows ..."]:
    """Bound what Σ_h α_h F_h b_h lost (nats), for b ≤ 1 and backward messages F ≤ 1 with scale and doubt."""
    more = [1] * (scale.ndim - 1)
    mass = (belief.scale + log(belief.alpha.shape[1])).view(-1, *more)
    lost = torch.logaddexp(mass + doubt, belief.doubt.view(-1, *more) + torch.logaddexp(scale, doubt))
    return torch.logaddexp(lost, mass + scale + log(torch.finfo(torch.float64).tiny))


def trusted(
    found: Float[Tensor, " rows"], doubt: Float[Tensor, " rows"], dtype: torch.dtype
) -> Bool[Tensor, " rows"]:
    """Tell which logarithms are finite and exceed their doubt by more than the rounding error of a precision."""
    return found + log(torch.finfo(dtype).eps) > doubt


def normalised(rows: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Scale rows to maximum one; return them and the logarithms (nats) of their scales, −inf for a row of zeros."""
    if not len(rows):
        return rows, scale
    top = rows.amax(1)
    return rows / torch.where(top > 0, top, 1)[:, None], scale + top.double().log()
