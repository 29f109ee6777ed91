"""Mini-batch expectation-maximisation for HMMs, with dense or Monarch transitions, whose states ranks may share.

    θ ← (1 − η) θ + η · normalised expected counts

The counts are those of :mod:`tractile.inference.queries.baum_welch`. A parameter that is zero stays zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import EvidenceError, ShapeError
from ..inference.queries.baum_welch import (
    HMMCounts,
    Sweep,
    forward_backward,
    hmm_counts,
)
from ..inference.queries.marginal import log_marginal
from .distributed import ALONE, Ranks
from .sharding import ShardedHMM


def expected_counts(
    part: ShardedHMM,
    tokens: Int[Tensor, "batch length"],
    missing: Float[Tensor, " hidden"] | None = None,
    messages: torch.dtype | None = None,
) -> HMMCounts:
    """Compute the expected counts of this rank's parameters; ``missing`` as in :func:`~.baum_welch.forward_backward`.

    ``messages``: dtype of the messages, by default the HMM's. ``torch.bfloat16`` halves the memory, and the time on processors
    with bfloat16 arithmetic; the counts then have about three digits, which is enough for EM.

    Raises :class:`EvidenceError` if a sequence is impossible, or if the states are shared among ranks and one may be lost to
    underflow in float64; :class:`ShapeError` for ``messages`` in float16, whose range is too small for them.
    """
    if messages is torch.float16:
        raise ShapeError("expected_counts: float16 loses small probabilities; take bfloat16")
    if part.team.size == 1:
        return hmm_counts(part.initial, part.operator, part.emission, tokens, missing, messages)
    own, sweep = part.emission.dtype, _swept(part, tokens, missing, messages)
    if bool(sweep.lost.any()) and own != torch.float64:
        part = part.map(torch.Tensor.double)
        sweep = _swept(part, tokens, missing, None)
    if bool(sweep.lost.any()):
        raise EvidenceError(_out_of_range("expected_counts", int(sweep.lost.nonzero()[0])))
    return sweep.counts(part.weights).to(own)


def _swept(part: ShardedHMM, tokens: Tensor, missing: Tensor | None, messages: torch.dtype | None) -> Sweep:
    own = part.emission.dtype
    missing = None if missing is None else missing.to(own)
    factors, add = part.factors(messages or own), part.team.sum
    return forward_backward(part.initial, factors, part.emission, tokens, missing, messages, add)


def _out_of_range(what: str, row: int) -> str:
    return (
        f"{what}: in sequence {row} the hidden states differ by more than float64 holds; leave the sequence out, or do not "
        "share the states among ranks"
    )


@torch.no_grad()
def log_likelihood(hmm: ShardedHMM, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, " batch"]:
    """Compute log p of each sequence, in nats, in float64; −inf if it is impossible.

    Raises :class:`EvidenceError` if the states are shared among ranks and one may be lost to underflow in float64.
    """
    if hmm.team.size == 1:
        return log_marginal(hmm.whole(), tokens)
    hmm = hmm.map(torch.Tensor.double)
    factors = hmm.factors(torch.float64)
    found = hmm.emission.new_zeros(len(tokens))
    message = hmm.initial.expand(len(tokens), -1)
    weakest = prod(min(1.0, smallest_weight(w)) for w in (*hmm.weights, hmm.emission))
    lost = torch.zeros(len(tokens), 1, device=found.device)
    for t in range(tokens.shape[1]):
        for factor in factors if t else []:
            message = factor.forward(message)
        low = message.masked_fill(message <= 0, torch.inf).amin(1, keepdim=True)
        lost += low * weakest < torch.finfo(torch.float64).tiny / torch.finfo(torch.float64).eps
        message = message * hmm.emission.T[tokens[:, t]]
        scale = message.sum(1, keepdim=True)
        hmm.team.sum([scale])
        found += scale[:, 0].log()
        message = message / scale.clamp(min=torch.finfo(scale.dtype).tiny)
    hmm.team.sum([lost])
    if bool(lost.any()):
        raise EvidenceError(_out_of_range("log_likelihood", int(lost[:, 0].nonzero()[0])))
    return found


def em_step(
    hmm: ShardedHMM,
    tokens: Int[Tensor, "batch length"],
    rate: float,
    pseudocount: float,
    chunk_size: int,
    eos_token_id: int | None = None,
    team: Ranks = ALONE,
    messages: torch.dtype | None = None,
) -> tuple[ShardedHMM, float]:
    """Do one mini-batch step of EM; return the new HMM, and log p of the batch under the old one, in nats.

    Counts are summed over chunks of ``chunk_size`` sequences, which bounds memory, and over the ranks of ``team``, which share
    the sequences. Emissions are counted, and sent, for the
    tokens of the batch only. With ``eos_token_id`` padding is skipped: the end state emits it with certainty, so it would change
    nothing.
    """
    device = hmm.emission.device
    seen, numbers = tokens.clamp(min=-1).unique(return_inverse=True)
    numbers -= int(seen[0] < 0)  # −1, an unobserved token, stays −1
    seen = seen[seen >= 0].to(device)
    part = replace(hmm, emission=hmm.emission.index_select(1, seen))
    initial, *weights, emission, unobserved = (
        torch.zeros_like(p, dtype=torch.float64)  # so that the order of summation hardly matters
        for p in (part.initial, *part.weights, part.emission, part.initial)
    )
    counts = HMMCounts(initial, weights, emission, unobserved, initial.new_zeros(()))
    missing = (
        None if eos_token_id is None else 1 - hmm.emission[:, eos_token_id]
    )  # an unobserved token is never the end token, see drop_tokens
    for rows, length in _chunks(tokens, chunk_size, eos_token_id, team):
        counts.add_(expected_counts(part, numbers[rows, :length].to(device), missing, messages))
    team.sum(counts.tensors())
    everything = counts.emission.new_zeros(hmm.emission.shape).index_copy_(1, seen, counts.emission)
    new = hmm.m_step(counts._replace(emission=everything), pseudocount)
    return hmm.blend(new, rate), float(counts.log_likelihood)


def _chunks(
    tokens: Tensor, size: int, eos_token_id: int | None, team: Ranks
) -> Iterator[tuple[Int[Tensor, " rows"], int]]:
    """Deal out rows to ranks and split those of this one into chunks: (their numbers, the columns that are not all padding).

    With ``eos_token_id`` rows go by length, so that each rank has short and long ones, and a chunk rows of about one length.
    """
    lengths = torch.full((len(tokens),), tokens.shape[1])
    order = torch.arange(len(tokens))
    if eos_token_id is not None:
        lengths = 1 + (tokens[:, :-1] != eos_token_id).sum(1)
        order = lengths.argsort(stable=True)
    mine = order[team.rank :: team.size]
    for rows in torch.split(mine, size) if len(mine) else []:
        yield rows, int(lengths[rows].max())


def smallest_weight(matrix: Tensor) -> float:
    """Return the smallest positive weight; infinity if there is none."""
    return float(matrix.masked_fill(matrix <= 0, torch.inf).amin())
