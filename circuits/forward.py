"""The forward algorithm of a hidden Markov model, on arrays (Rabiner 1989, Eq. 19 and 92).

    α_1 = π ∘ B[:, x_1],   α_t = (α_{t−1} A) ∘ B[:, x_t],   p(x_1 … x_n) = Σ_h α_n[h]

Each α_t is divided by its sum c_t, so that nothing under- or overflows for any length, and log p = Σ_t log c_t. It is the
query :func:`~tractile.log_marginal` of one kind of model and one kind of evidence, written out; both are tested equal.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import EvidenceError
from ..layers import Operator
from ..layers.functorch_utils import any_if_concrete, is_abstract

BLOCK_ELEMENTS = 1 << 24  # of one step in log space


def log_prob(
    initial: Float[Tensor, " hidden"],
    transition: Operator,
    emission: Float[Tensor, "hidden vocab"],
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"] | None = None,
) -> Float[Tensor, " batch"]:
    """log p(x_1 … x_n) of each row in nats, in float64; −1 marginalises a position, ``lengths`` cuts each row.

    Rows that scaled arithmetic loses to the dynamic range between hidden states are computed again in log space, so a
    result is −inf only where p is zero. Raises :class:`EvidenceError` for tokens and lengths that do not fit.
    """
    tokens = _checked(tokens, emission.shape[1]).to(emission.device)
    batch, n = tokens.shape
    if lengths is not None:
        lengths = lengths.to(tokens.device)
        if lengths.shape != (batch,) or any_if_concrete((lengths < 0) | (lengths > n)):
            raise EvidenceError(f"lengths must be of shape ({batch},) with values in 0 … {n}")
    if not batch or not n:
        return torch.zeros(batch, dtype=torch.float64, device=tokens.device)
    result = _scaled(initial, transition, emission, tokens, lengths)
    lost = result == -torch.inf
    if any_if_concrete(lost):
        rows = lost.nonzero()[:, 0]
        some = None if lengths is None else lengths[rows]
        parts = [initial, transition.dense(), emission]
        pi, matrix, table = ((x > 0).float() for x in parts)
        possible = _reachable(pi, matrix, table, tokens[rows], some)
        if bool(possible.any()):
            rows, some = rows[possible], None if some is None else some[possible]
            pi, matrix, table = (x.double().log() for x in parts)
            result = result.index_put((rows,), _in_log_space(pi, matrix, table, tokens[rows], some))
    return result


def _checked(tokens: Tensor, vocab_size: int) -> Int[Tensor, "batch length"]:
    tokens = tokens[None] if tokens.ndim == 1 else tokens
    if tokens.ndim != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise EvidenceError(
            f"tokens must be whole numbers of shape (batch, length), not {tuple(tokens.shape)} and {tokens.dtype}; "
            "tt.log_marginal takes weights"
        )
    if any_if_concrete((tokens < -1) | (tokens >= vocab_size)):
        raise EvidenceError(f"tokens must be in 0 … {vocab_size - 1} (or −1: marginalised)")
    return tokens.long()


class _Columns:
    """B[:, x_t] of each row, as rows (batch, hidden); ones where the token is −1."""

    def __init__(self, emission: Tensor, tokens: Tensor, missing: float) -> None:
        self.rows, self.missing = tokens.T.contiguous(), missing
        self.some = is_abstract(tokens) or bool((tokens < 0).any())
        self.known = self.rows.clamp(min=0) if self.some else self.rows
        if self.known.numel() < emission.shape[1]:
            self.table = emission.index_select(1, self.known.flatten()).T
            self.known = torch.arange(self.known.numel(), device=tokens.device).view_as(self.known)
        else:  # worth a copy: columns are then read as rows
            self.table = emission.T.contiguous()

    def __getitem__(self, t: int) -> Float[Tensor, "batch hidden"]:
        found = self.table.index_select(0, self.known[t])
        return torch.where(self.rows[t, :, None] < 0, self.missing, found) if self.some else found


def _scaled(
    initial: Tensor, transition: Operator, emission: Tensor, tokens: Tensor, lengths: Tensor | None
) -> Tensor:
    (step,) = transition.T.leaves()
    columns = _Columns(emission, tokens, 1.0)
    tiny = torch.finfo(emission.dtype).tiny
    alpha, scales = initial * columns[0], list[Tensor]()
    for t in range(tokens.shape[1]):
        if t:
            alpha = step.times(alpha.T).T * columns[t]
        scale = alpha.sum(1, keepdim=True)
        scales.append(scale)
        alpha = alpha / scale.clamp(min=tiny)
    logs = torch.cat(scales, 1).double().log()
    return (logs if lengths is None else logs.where(_inside(lengths, len(scales)), 0.0)).sum(1)


def _inside(lengths: Int[Tensor, " batch"], n: int) -> Bool[Tensor, "batch length"]:
    return torch.arange(n, device=lengths.device) < lengths[:, None]


def _reachable(
    initial: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor, lengths: Tensor | None
) -> Tensor:
    """Whether some hidden path has each row; the arguments are zeros and ones."""
    columns = _Columns(emission, tokens, 1.0)
    states, found = initial * columns[0], torch.ones(len(tokens), dtype=torch.bool, device=tokens.device)
    inside = None if lengths is None else _inside(lengths, tokens.shape[1])
    for t in range(tokens.shape[1]):
        if t:
            states = ((states @ transition) * columns[t] > 0).float()
        alive = (states > 0).any(1)
        found &= alive if inside is None else alive | ~inside[:, t]
    return found


def _in_log_space(
    initial: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor, lengths: Tensor | None
) -> Float[Tensor, " batch"]:
    """The same by sums of logarithms; the arguments are logarithms."""
    columns = _Columns(emission, tokens, 0.0)
    alpha = initial + columns[0]
    ends = [alpha.logsumexp(1)]
    rows = max(1, BLOCK_ELEMENTS // transition.numel())
    for t in range(1, tokens.shape[1]):
        parts = [(part[:, :, None] + transition).logsumexp(1) for part in alpha.split(rows)]
        alpha = torch.cat(parts) + columns[t]
        ends.append(alpha.logsumexp(1))
    if lengths is None:
        return ends[-1]
    found = torch.stack([torch.zeros_like(ends[0]), *ends], 1)
    return found.gather(1, lengths[:, None])[:, 0]
