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
from ..layers.log_product import log_product, smallest_weight

GATHERED_ELEMENTS = 1 << 17  # emission probabilities gathered at once


def log_prob(
    initial: Float[Tensor, " hidden"],
    transition: Operator,
    emission: Float[Tensor, "hidden vocab"],
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"] | None = None,
) -> Float[Tensor, " batch"]:
    """Compute log p(x_1 … x_n) of each row in nats, in float64; −1 marginalises a position.

    With ``lengths`` only the first ``lengths[i]`` tokens of row i count. Rows in which a hidden state may have been lost to
    underflow, because the states differ too much in probability, are computed again in log space.
    Raises :class:`EvidenceError` for tokens or lengths out of range.
    """
    tokens = checked_tokens(tokens, emission.shape[1]).to(emission.device)
    batch, n = tokens.shape
    lengths = None if lengths is None else checked_lengths(lengths, batch, n).to(tokens.device)
    if not batch or not n:
        return torch.zeros(batch, dtype=torch.float64, device=tokens.device)
    found, sure = _scaled(initial, transition, emission, tokens, lengths)
    if not any_if_concrete(~sure):
        return found
    rows = (~sure).nonzero()[:, 0]
    some = None if lengths is None else lengths[rows]
    return found.index_put((rows,), _in_log_space(initial, transition, emission, tokens[rows], some))


def checked_lengths(lengths: Any, batch: int, n: int) -> Int[Tensor, " batch"]:
    """Return a length for each row, 0 … n, as int64. Raises :class:`EvidenceError` for anything else."""
    found = whole_numbers(lengths, "lengths")
    if found.shape != (batch,) or any_if_concrete((found < 0) | (found > n)):
        raise EvidenceError(f"lengths must be of shape ({batch},) with values in 0 … {n}")
    return found


def checked_tokens(tokens: Tensor, vocab_size: int) -> Int[Tensor, "batch length"]:
    """Return rows of tokens as int64. Raises :class:`EvidenceError` for tokens other than −1 … vocab_size − 1."""
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
    initial: Tensor, transition: Operator, emission: Tensor, tokens: Tensor, lengths: Tensor | None
) -> tuple[Float[Tensor, " batch"], Bool[Tensor, " batch"]]:
    """Run the recursion in scaled arithmetic; return log p of each row, and whether it kept every positive entry of α.

    A row whose α has no entry near the end of the range lost none. The others are computed again with a scale for each step
    and a bound: positive entries of at least ``low`` make those of the next α at least low · min A · min B.
    """
    dtype = reduce(torch.promote_types, (t.dtype for t in transition.parameters()), emission.dtype)
    emission, initial = emission.to(dtype), initial.to(dtype)
    info = torch.finfo(dtype)
    size = 2.0 ** int(log2(info.max) / 2)
    least = (
        max(4 * len(initial) / info.eps, size) * info.tiny
    )  # of α within four steps; scales are in range, too
    rows, found = None, None
    if lengths is None and not is_abstract(tokens):
        scales, lows = _sweep(initial * size, transition, emission, tokens, size, every=4, whole=least)
        found, sure = scales.double().log().sum(0), (lows >= least).all(0)
        if bool(sure.all()):
            return found, sure
        (rows,) = (~sure).nonzero(as_tuple=True)
        tokens = tokens[rows]
    scales, lows = _sweep(initial * size, transition, emission, tokens, size, every=1)
    weights = torch.stack([_smallest(w.flatten()) for w in (*transition.parameters(), emission)])
    needed = (least / weights.double().clamp(max=1).prod()).clamp(max=info.max / 2)
    logs, kept = scales.double().log(), (lows >= needed) | lows.isnan()  # NaN: the row is zero
    if lengths is not None:
        inside = _inside(lengths, len(logs)).T
        logs, kept = logs.where(inside, 0.0), kept | ~inside
    total, kept = logs.sum(0), kept.all(0) & (_smallest(initial * size) >= needed)
    total = total.where(~total.isnan(), -torch.inf)
    if is_abstract(tokens):  # no row can be computed again: a finite answer is right, or it is not given
        return total.where(kept, torch.nan), torch.ones_like(kept)
    if found is None or rows is None:
        return total, kept
    return found.index_put((rows,), total), sure.index_put((rows,), kept)


def _sweep(
    alpha: Tensor,
    transition: Operator,
    emission: Tensor,
    tokens: Tensor,
    size: float,
    every: int,
    whole: float = 0,
) -> tuple[Float[Tensor, "scales batch"], Float[Tensor, "scales batch"]]:
    """Return the scales of the recursion, and the smallest entry of α before each division.

    The sum of α is brought to ``size`` after ``every`` steps; it only shrinks between, so that nothing overflows. With ``whole``
    zeros are entries, and the sweep ends if at the first scale no row has all entries above ``whole``; otherwise only positive
    entries count.
    """
    n = tokens.shape[1]
    (backwards,) = transition.T.leaves()
    matrix = transition.weight.to(emission) if isinstance(transition, Dense) else None
    shares, scales, lows = alpha.new_full((len(alpha), 1), 1 / size), list[Tensor](), list[Tensor]()
    for t, column in enumerate(_columns(emission, tokens, 1.0)):
        if not t:
            alpha = alpha * column
            in_place = matrix is not None and is_plain((alpha, matrix))
            spare = torch.empty_like(alpha) if in_place else None
        elif matrix is None:
            alpha = backwards.times(alpha.T).T.mul_(column)
        else:
            alpha, spare = torch.mm(alpha, matrix, out=spare).mul_(column), alpha if in_place else None
        if t % every == every - 1 or t == n - 1:
            lows.append(alpha.amin(1) if whole else _smallest(alpha))
            scales.append(alpha @ shares)
            if whole and len(lows) == 1 and not bool((lows[0] >= whole).any()):
                break  # the parameters have zeros
            alpha.div_(scales[-1])  # NaN from the step on at which a row is zero
    return torch.stack(scales)[..., 0], torch.stack(lows)


def _smallest(x: Tensor) -> Tensor:
    """Return the smallest positive entry along the last axis; infinity where there is none."""
    return x.masked_fill(x <= 0, torch.inf).amin(-1)


def _inside(lengths: Int[Tensor, " batch"], n: int) -> Bool[Tensor, "batch length"]:
    return torch.arange(n, device=lengths.device) < lengths[:, None]


def _in_log_space(
    initial: Tensor, transition: Operator, emission: Tensor, tokens: Tensor, lengths: Tensor | None
) -> Float[Tensor, " batch"]:
    """Compute log p of each row with the logarithms of α in float64, right over any range."""
    matrix, ends, alpha = transition.dense().double(), list[Tensor](), initial.double().log()
    smallest = smallest_weight(matrix)
    for column in _columns(emission, tokens, 1.0):
        alpha = (log_product(alpha, matrix, smallest) if ends else alpha) + column.double().log()
        ends.append(alpha.logsumexp(1))
    if lengths is None:
        return ends[-1]
    found = torch.stack([torch.zeros_like(ends[0]), *ends], 1)
    return found.gather(1, lengths[:, None])[:, 0]
