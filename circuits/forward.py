"""The forward algorithm of a hidden Markov model, on arrays (Rabiner 1989, Eq. 19 and 92).

    α_1 = π ∘ B[:, x_1],   α_t = (α_{t−1} A) ∘ B[:, x_t],   p(x_1 … x_n) = Σ_h α_n[h]

Each α_t is divided by its sum c_t, so that nothing under- or overflows for any length, and log p = Σ_t log c_t. The result
equals that of the general query :func:`~tractile.log_marginal`, which this specialisation replaces for speed.
"""

from __future__ import annotations

from functools import reduce
from math import log

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..errors import EvidenceError
from ..layers import Dense, Operator
from ..layers.functorch_utils import any_if_concrete, is_abstract

BLOCK_ELEMENTS = 1 << 24  # elements of one step in log space
GATHERED_ELEMENTS = 1 << 17  # emission probabilities gathered at once


def log_prob(
    initial: Float[Tensor, " hidden"],
    transition: Operator,
    emission: Float[Tensor, "hidden vocab"],
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"] | None = None,
) -> Float[Tensor, " batch"]:
    """Compute log p(x_1 … x_n) of each row in nats, in float64; −1 marginalises a position.

    With ``lengths`` only the first ``lengths[i]`` tokens of row i count. Rows that underflow in scaled arithmetic, because the
    hidden states differ too much in probability, are computed again in log space, so a result is −inf only if p is zero.
    Raises :class:`EvidenceError` for tokens or lengths out of range.
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
    if tokens.ndim != 2 or tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise EvidenceError(
            f"tokens must be whole numbers of shape (batch, length), not {tuple(tokens.shape)} and {tokens.dtype}; "
            "tt.log_marginal takes weights"
        )
    if any_if_concrete((tokens < -1) | (tokens >= vocab_size)):
        raise EvidenceError(f"tokens must be in 0 … {vocab_size - 1} (or −1: marginalised)")
    return tokens.long()


class _Columns:
    """B[:, x_t] for t = 0, 1, … in this order, as rows (batch, hidden); ones where the token is −1.

    Rows of several steps are gathered at once: a gather for each step costs more than its multiplication.
    """

    def __init__(self, emission: Tensor, tokens: Tensor, missing: float) -> None:
        self.tokens, self.missing = tokens.T.contiguous(), missing
        self.some = is_abstract(tokens) or bool((tokens < 0).any())
        known = self.tokens.clamp(min=0) if self.some else self.tokens
        if known.numel() < emission.shape[1]:
            self.table = emission.index_select(1, known.flatten()).T
            known = torch.arange(known.numel(), device=tokens.device).view_as(known)
        else:  # a transposed copy pays off: columns are then read as rows
            self.table = emission.T.contiguous()
        self.known = known
        self.width = max(1, GATHERED_ELEMENTS // max(1, known.shape[1] * emission.shape[0]))  # steps
        self.block: tuple[Tensor, ...] = ()

    def __getitem__(self, t: int) -> Float[Tensor, "batch hidden"]:
        if not t % self.width:
            some = self.known[t : t + self.width]
            found = self.table.index_select(0, some.flatten()).view(*some.shape, -1)
            self.block = found.unbind(0)
        found = self.block[t % self.width]
        return torch.where(self.tokens[t][:, None] < 0, self.missing, found) if self.some else found


def _scaled(
    initial: Tensor,
    transition: Operator,
    emission: Tensor,
    tokens: Tensor,
    lengths: Tensor | None,
    every: int = 2,
) -> Float[Tensor, " batch"]:
    """Run the recursion, dividing α by its sum after ``every`` steps; after each step if two steps shrink a row below ε.

    A dense A is multiplied by a power of two near the size of the vocabulary, so that most steps hardly change the sum of α.
    """
    n, shift = tokens.shape[1], emission.shape[1].bit_length() - 1
    every = 1 if lengths is not None or is_abstract(tokens) else every
    (backwards,) = transition.T.leaves()
    dtype = reduce(torch.promote_types, (t.dtype for t in transition.parameters()), emission.dtype)
    emission, initial = emission.to(dtype), initial.to(dtype)
    matrix = (
        transition.weight.to(emission.device, dtype) * 2.0**shift if isinstance(transition, Dense) else None
    )
    shift = 0 if matrix is None else shift
    columns, scales = _Columns(emission, tokens, 1.0), list[Tensor]()
    alpha = initial * columns[0]
    for t in range(n):
        if t:
            alpha = (backwards.times(alpha.T).T if matrix is None else alpha @ matrix).mul_(columns[t])
        if t % every == every - 1 or t == n - 1:
            scales.append(alpha.sum(1, keepdim=True))
            alpha.div_(scales[-1])  # NaN from the step on at which a row is zero
    found = torch.cat(scales, 1)
    if every > 1 and not bool((found >= torch.finfo(dtype).eps).all()):
        return _scaled(initial, transition, emission, tokens, lengths, every=1)
    logs = found.double().log()
    total = (logs if lengths is None else logs.where(_inside(lengths, n), 0.0)).sum(1)
    steps = n - 1 if lengths is None else (lengths - 1).clamp(min=0).double()
    return total.where(~total.isnan(), -torch.inf) - steps * (shift * log(2))


def _inside(lengths: Int[Tensor, " batch"], n: int) -> Bool[Tensor, "batch length"]:
    return torch.arange(n, device=lengths.device) < lengths[:, None]


def _reachable(
    initial: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor, lengths: Tensor | None
) -> Tensor:
    """Return which rows have a hidden path of positive probability; the parameters are zeros and ones."""
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
    """Compute log p of each row in log space; the parameters are logarithms."""
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
