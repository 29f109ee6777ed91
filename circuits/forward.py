"""The forward algorithm of a hidden Markov model, on arrays (Rabiner 1989, Eq. 19 and 92).

    α_1 = π ∘ B[:, x_1],   α_t = (α_{t−1} A) ∘ B[:, x_t],   p(x_1 … x_n) = Σ_h α_n[h]

Each α_t is divided by its sum c_t, so that nothing under- or overflows for any length, and log p = Σ_t log c_t. The result
equals that of the general query :func:`~tractile.log_marginal`, which this specialisation replaces for speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from math import log2
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..argument_checks import whole_numbers
from ..errors import EvidenceError
from ..layers import Dense, Operator
from ..layers.functorch_utils import any_if_concrete, is_abstract, is_plain

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
    lengths = None if lengths is None else checked_lengths(lengths, batch, n).to(tokens.device)
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


def checked_lengths(lengths: Any, batch: int, n: int) -> Int[Tensor, " batch"]:
    """Return a length for each row, 0 … n, as int64. Raises :class:`EvidenceError` for anything else."""
    found = whole_numbers(lengths, "lengths")
    if found.shape != (batch,) or any_if_concrete((found < 0) | (found > n)):
        raise EvidenceError(f"lengths must be of shape ({batch},) with values in 0 … {n}")
    return found


def _checked(tokens: Tensor, vocab_size: int) -> Int[Tensor, "batch length"]:
    tokens = tokens[None] if tokens.ndim == 1 else tokens
    if tokens.ndim != 2 or tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise EvidenceError(
            f"tokens must be whole numbers of shape (batch, length), not {tuple(tokens.shape)} and {tokens.dtype}; "
            "tt.log_marginal takes weights"
        )
    tokens = tokens.long()
    if any_if_concrete((tokens < -1) | (tokens >= vocab_size)):
        raise EvidenceError(f"tokens must be in 0 … {vocab_size - 1} (or −1: marginalised)")
    return tokens


def _columns(emission: Tensor, tokens: Tensor, missing: float) -> Iterator[Float[Tensor, "batch hidden"]]:
    """Yield B[:, x_t] for each t; ``missing`` where the token is −1.

    Rows of several steps are gathered at once: a gather for each step costs more than its multiplication.
    """
    rows = tokens.T.contiguous()
    some = is_abstract(tokens) or bool((tokens < 0).any())
    known = rows.clamp(min=0) if some else rows
    if known.numel() < emission.shape[1]:
        gathered = emission.index_select(1, known.flatten()).T.contiguous().view(*known.shape, -1)
        blocks: Iterable[Tensor] = (gathered,)
    else:  # a transposed copy pays off: columns are then read as rows
        table = emission.T.contiguous()
        width = max(1, GATHERED_ELEMENTS // max(1, known.shape[1] * emission.shape[0]))  # steps
        blocks = (table.index_select(0, at.flatten()).view(*at.shape, -1) for at in known.split(width))
    t = 0
    for block in blocks:
        unknown = rows[t : t + len(block), :, None] < 0 if some else None
        yield from (block if unknown is None else torch.where(unknown, missing, block)).unbind(0)
        t += len(block)


def _scaled(
    initial: Tensor,
    transition: Operator,
    emission: Tensor,
    tokens: Tensor,
    lengths: Tensor | None,
    every: int = 4,
) -> Float[Tensor, " batch"]:
    """Run the recursion, bringing the sum of α to ``size`` after ``every`` steps, and after each in rows that shrink too much.

    ``size`` is large: sums only shrink, so that nothing overflows, and α keeps its precision while its sum is at least ε.
    """
    n = tokens.shape[1]
    every = 1 if lengths is not None or is_abstract(tokens) else every
    (backwards,) = transition.T.leaves()
    dtype = reduce(torch.promote_types, (t.dtype for t in transition.parameters()), emission.dtype)
    emission, initial = emission.to(dtype), initial.to(dtype)
    matrix = transition.weight.to(emission.device, dtype) if isinstance(transition, Dense) else None
    size = 2.0 ** int(log2(torch.finfo(dtype).max) / 2)
    shares, scales = initial.new_full((len(initial), 1), 1 / size), list[Tensor]()
    for t, column in enumerate(_columns(emission, tokens, 1.0)):
        if not t:
            alpha = initial * size * column
            in_place = matrix is not None and is_plain((alpha, matrix))
            spare = torch.empty_like(alpha) if in_place else None
        elif matrix is None:
            alpha = backwards.times(alpha.T).T.mul_(column)
        else:
            alpha, spare = torch.mm(alpha, matrix, out=spare).mul_(column), alpha if in_place else None
        if t % every == every - 1 or t == n - 1:
            scales.append(alpha @ shares)
            alpha.div_(scales[-1])  # NaN from the step on at which a row is zero
    found = torch.stack(scales)[..., 0]
    logs = found.double().log()
    total = (logs if lengths is None else logs.where(_inside(lengths, n).T, 0.0)).sum(0)
    total = total.where(~total.isnan(), -torch.inf)
    info = torch.finfo(dtype)
    kept = found >= max(info.eps / size, info.tiny)
    if every == 1 or bool(kept.all()):
        return total
    (rows,) = (~kept.all(0)).nonzero(as_tuple=True)
    return total.index_put((rows,), _scaled(initial, transition, emission, tokens[rows], None, every=1))


def _inside(lengths: Int[Tensor, " batch"], n: int) -> Bool[Tensor, "batch length"]:
    return torch.arange(n, device=lengths.device) < lengths[:, None]


def _reachable(
    initial: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor, lengths: Tensor | None
) -> Tensor:
    """Return which rows have a hidden path of positive probability; the parameters are zeros and ones."""
    states, found = initial, torch.ones(len(tokens), dtype=torch.bool, device=tokens.device)
    inside = None if lengths is None else _inside(lengths, tokens.shape[1])
    for t, column in enumerate(_columns(emission, tokens, 1.0)):
        states = ((states @ transition if t else states) * column > 0).float()
        alive = (states > 0).any(1)
        found &= alive if inside is None else alive | ~inside[:, t]
    return found


def _in_log_space(
    initial: Tensor, transition: Tensor, emission: Tensor, tokens: Tensor, lengths: Tensor | None
) -> Float[Tensor, " batch"]:
    """Compute log p of each row in log space; the parameters are logarithms."""
    rows, alpha, ends = max(1, BLOCK_ELEMENTS // transition.numel()), initial, list[Tensor]()
    for column in _columns(emission, tokens, 0.0):
        if ends:
            parts = [(part[:, :, None] + transition).logsumexp(1) for part in alpha.split(rows)]
            alpha = torch.cat(parts)
        alpha = alpha + column
        ends.append(alpha.logsumexp(1))
    if lengths is None:
        return ends[-1]
    found = torch.stack([torch.zeros_like(ends[0]), *ends], 1)
    return found.gather(1, lengths[:, None])[:, 0]
