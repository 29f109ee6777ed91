"""Expectation-maximisation for HMMs (Baum and Welch), with dense or Monarch transitions.

E step: expected counts, θ · ∂ log p(x) / ∂θ for each parameter θ, by one forward-backward pass. M step: normalise the
counts of each row. A mini-batch step interpolates,

    θ ← (1 − η) θ + η · normalised counts.

A transition is a product of factors, each of which rewrites one axis of the state (i_1, …, i_k): one factor if dense,
several if Monarch. With F_s the forward message before factor s and G_s the backward message after it, the counts of the
factor are W_s ∘ Σ_{t, batch} F_s ⊗ G_s, one matrix product each. A parameter that is zero stays zero.

Axes: (time, batch, state).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.forward import log_prob
from ..circuits.hmm import HMM
from ..errors import EvidenceError, ShapeError
from ..layers.log_product import smallest_weight
from .distributed import Ranks
from .in_log_space import counts_in_log_space, posteriors_in_log_space
from .sharding import Factor, ShardedHMM, factors_of


class Counts(NamedTuple):
    """Expected counts of each parameter, summed over a batch.

    ``initial`` (H,), ``transition`` a tensor for each factor (one if dense), ``emission`` (H, V), ``log_likelihood`` in nats.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import expected_counts
    >>> counts = expected_counts(tt.HMM([1.0], [[1.0]], [[0.5, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> counts.emission, counts.transition
    (tensor([[1., 2.]]), [tensor([[2.]])])
    >>> round(counts.log_likelihood.item(), 4)  # 3 log ½
    -2.0794
    """

    initial: Float[Tensor, " hidden"]
    transition: list[Tensor]  # shaped like transition.parameters()
    emission: Float[Tensor, "hidden vocab"]
    log_likelihood: Float[Tensor, ""]  # nats, summed over the batch

    @classmethod
    def zeros(cls, part: ShardedHMM) -> Counts:
        """Make zero counts, in float64, so that the order of summation hardly matters."""

        def zeros(weight: Tensor) -> Tensor:
            return torch.zeros_like(weight, dtype=torch.float64)

        total = zeros(part.initial[0])
        return cls(zeros(part.initial), [zeros(w) for w in part.weights], zeros(part.emission), total)

    def tensors(self) -> list[Tensor]:
        """List all tensors, in a fixed order."""
        return [self.initial, *self.transition, self.emission, self.log_likelihood]

    def add_(self, other: Counts) -> None:
        """Add the counts of ``other`` to these, in place."""
        for mine, theirs in zip(self.tensors(), other.tensors(), strict=True):
            mine += theirs


@torch.no_grad()
def expected_counts(
    hmm: HMM | ShardedHMM,
    tokens: Int[Tensor, "batch length"],
    missing: Float[Tensor, " hidden"] | None = None,
    messages: torch.dtype | None = None,
) -> Counts:
    """Compute expected counts by one scaled forward-backward pass.

    Memory: about (2 k + 1) · batch · length · hidden numbers, for k factors. Token −1 is unobserved: its probability in each
    state is ``missing`` (default: one, any token), and it adds no emission count. ``messages``: dtype of the messages, by
    default the HMM's. ``torch.bfloat16`` halves the memory, and the time on processors with bfloat16 arithmetic; the counts
    then have about three digits, which is enough for EM.

    Raises :class:`EvidenceError` if a sequence is impossible, :class:`ShapeError` for ``messages`` in float16, whose
    range is too small for them, and :class:`CircuitError` for a transition that is neither dense nor Monarch.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import expected_counts
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> counts = expected_counts(hmm, torch.tensor([[1, 1]]))
    >>> counts.initial  # p(z_1 | 1, 1)
    tensor([0.8834, 0.1166])
    >>> counts.transition[0]  # one transition, shared by the pairs of states
    tensor([[0.8065, 0.0768],
            [0.0768, 0.0398]])
    """
    if messages is torch.float16:
        raise ShapeError("expected_counts: float16 loses small probabilities; take bfloat16")
    part = hmm if isinstance(hmm, ShardedHMM) else ShardedHMM.of(hmm)
    return _counted(part, tokens, missing, messages, torch.arange(len(tokens), device=tokens.device))


def _counted(
    part: ShardedHMM, tokens: Tensor, missing: Tensor | None, messages: torch.dtype | None, rows: Tensor
) -> Counts:
    """Count in sequences, whose numbers are ``rows``; those that lose something to underflow again in a wider range."""
    sweep = _forward_backward(part, tokens, missing, messages)
    if not bool(sweep.lost.any()):
        return _summed(part, sweep)
    (lost,), (kept,) = sweep.lost.nonzero(as_tuple=True), (~sweep.lost).nonzero(as_tuple=True)
    if part.emission.dtype != torch.float64:
        wide = None if missing is None else missing.double()
        found = _counted(part.map(torch.Tensor.double), tokens[lost], wide, None, rows[lost])
    elif part.team.size == 1:
        found = Counts(*counts_in_log_space(part, tokens[lost], missing, rows[lost]))
    else:
        raise EvidenceError(
            f"expected_counts: in sequence {int(rows[lost[0]])} the hidden states differ by more than float64 holds; "
            "leave the sequence out, or do not share the states among ranks"
        )
    if len(kept):
        found.add_(_summed(part, _forward_backward(part, tokens[kept], missing, messages)))
    own = part.emission.dtype
    return Counts(
        found.initial.to(own),
        [w.to(own) for w in found.transition],
        found.emission.to(own),
        found.log_likelihood.to(own),
    )


def _summed(part: ShardedHMM, sweep: _Sweep) -> Counts:
    own = part.emission.dtype
    transition = [
        weight * f.counts(b, a).to(own)
        for weight, f, b, a in zip(part.weights, sweep.factors, sweep.before, sweep.after, strict=True)
    ]
    emission = torch.zeros_like(sweep.rows, dtype=own)
    emission.index_add_(0, sweep.tokens.flatten(), sweep.posterior.flatten(0, 1).to(own))
    total = sweep.log_likelihood.sum()
    first = sweep.posterior[0].sum(0, dtype=own)
    return Counts(first, transition, emission[: part.emission.shape[1]].T, total)


@torch.no_grad()
def posteriors(hmm: HMM, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length hidden"]:
    """Compute the smoothed p(z_t | x_1 … x_n) at each position. Raises as :func:`expected_counts`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import posteriors
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> posteriors(hmm, torch.tensor([[1, 1, 0]]))[0]  # a row for each position
    tensor([[0.8619, 0.1381],
            [0.7992, 0.2008],
            [0.1907, 0.8093]])
    """
    sweep = _forward_backward(ShardedHMM.of(hmm), tokens, None, None)
    found = sweep.posterior.transpose(0, 1)
    (rows,) = sweep.lost.nonzero(as_tuple=True)
    if len(rows):
        found[rows] = posteriors_in_log_space(hmm, tokens[rows], rows).to(found.dtype)
    return found


@torch.no_grad()
def log_likelihood(hmm: ShardedHMM, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, " batch"]:
    """Compute log p of each sequence, in nats, in float64; −inf if it is impossible.

    Raises :class:`EvidenceError` if the states are shared among ranks and one may be lost to underflow in float64.
    """
    if hmm.team.size == 1:
        return log_prob(hmm.initial, hmm.operator, hmm.emission, tokens)
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
        raise EvidenceError(
            f"log_likelihood: in sequence {int(lost[:, 0].nonzero()[0])} the hidden states differ by more than float64 holds; "
            "leave the sequence out, or do not share the states among ranks"
        )
    return found


class _Sweep(NamedTuple):
    """Result of a forward-backward pass: messages before and after each factor, and posteriors, (time, batch, state)."""

    factors: list[Factor]
    rows: Tensor  # emission, (vocab, hidden), with a last row for −1 if there is one
    tokens: Tensor  # the row of each token, (time, batch)
    before: list[Tensor]
    after: list[Tensor]
    posterior: Tensor
    log_likelihood: Tensor
    lost: Tensor  # sequences of which underflow may have taken something that counts: (batch,)


def _forward_backward(
    part: ShardedHMM, tokens: Tensor, missing: Tensor | None, messages: torch.dtype | None
) -> _Sweep:
    own = part.emission.dtype  # precision of the scales, whose logarithms are added up
    dtype = messages or own
    factors = part.factors(dtype)
    batch, n = tokens.shape
    rows = part.emission.T.to(dtype).contiguous()

    def total(message: Tensor) -> Tensor:
        """Sum over the states of all ranks."""
        found = message.sum(1, keepdim=True, dtype=own)
        part.team.sum([found])
        return found

    if bool((tokens < 0).any()):
        rows = torch.cat([rows, torch.ones_like(rows[:1]) if missing is None else missing[None].to(dtype)])
    index = (tokens.T % len(rows)).contiguous()  # −1 is the last row
    emitted = rows[index]  # (time, batch, state); becomes the posterior below
    before = [emitted.new_empty(n - 1, batch, len(part.initial)) for _ in factors]
    after = [torch.empty_like(f) for f in before]
    log_likelihood = emitted.new_zeros(batch, dtype=own)
    peak, slightest = (torch.ones(batch, 1, dtype=own, device=emitted.device) for _ in range(2))

    message = part.initial.to(dtype).expand(batch, -1)
    for t in range(n):
        message = message * emitted[t]
        scale = total(message)
        log_likelihood += scale[:, 0].log()
        slightest = torch.minimum(slightest, scale)
        message /= scale
        for s, factor in enumerate(factors if t + 1 < n else []):
            before[s][t] = message
            message = factor.forward(message)
    beta = torch.ones_like(emitted[0])
    last = message
    for t in range(n - 2, -1, -1):
        alpha_next = last if t == n - 2 else before[0][t + 1]
        message = beta * emitted[t + 1]
        emitted[t + 1] = alpha_next * beta
        for s in range(len(factors) - 1, -1, -1):
            after[s][t] = message
            message = factors[s].backward(message)
        # Divided by this sum, the posterior of each step sums to one, for any scale of the message.
        scale = total(before[0][t] * message)
        beta = (message / scale).to(dtype)
        peak = torch.maximum(peak, beta.amax(1, keepdim=True))
        for each in after:
            each[t] /= scale
    emitted[0] = (last if n == 1 else before[0][0]) * beta
    # What underflows in α at one step is at most tiny · H² / scale, and counts β times that, where Σ α β = 1.
    info = torch.finfo(dtype)
    sure = peak * (n * len(part.initial) ** 2 * info.tiny / info.eps) < slightest
    lost = (~sure).to(own)
    part.team.sum([lost])
    return _Sweep(factors, rows, index, before, after, emitted, log_likelihood, lost[:, 0] > 0)


def m_step(hmm: HMM, counts: Counts, pseudocount: float = 0.0) -> HMM:
    """Normalise the counts of each row: the HMM of largest likelihood for them.

    ``pseudocount`` is added where the parameter is not zero; rows without counts stay as they are.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import expected_counts, m_step
    >>> coin = tt.HMM([1.0], [[1.0]], [[0.5, 0.5]])
    >>> counts = expected_counts(coin, torch.tensor([[1, 1, 0]]))
    >>> m_step(coin, counts).emission_probs
    tensor([[0.3333, 0.6667]])
    >>> m_step(coin, counts, pseudocount=1.0).emission_probs  # 1 + 1 and 2 + 1 of 5
    tensor([[0.4000, 0.6000]])
    """
    new = ShardedHMM.of(hmm).m_step(counts.initial, counts.transition, counts.emission, pseudocount)
    return new.whole().for_vocabulary(hmm.vocabulary_fingerprint)


def blend(old: HMM, new: HMM, step: float) -> HMM:
    """Interpolate every parameter: (1 − η) old + η new, where ``step`` is η.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.distill import blend
    >>> fair, biased = (tt.HMM([1.0], [[1.0]], [[1 - p, p]]) for p in (0.5, 0.9))
    >>> blend(fair, biased, step=0.25).emission_probs
    tensor([[0.4000, 0.6000]])
    """
    blended = ShardedHMM.of(old).blend(ShardedHMM.of(new), step).whole()
    return blended.for_vocabulary(old.vocabulary_fingerprint)


def em_step(
    hmm: ShardedHMM,
    tokens: Int[Tensor, "batch length"],
    rate: float,
    pseudocount: float,
    chunk_size: int,
    eos_token_id: int | None = None,
    team: Ranks | None = None,
    messages: torch.dtype | None = None,
) -> tuple[ShardedHMM, float]:
    """Do one mini-batch step of EM; return the new HMM, and log p of the batch under the old one, in nats.

    Counts are summed over chunks of ``chunk_size`` sequences, which bounds memory, and over the ranks of ``team``: each rank
    takes some of the chunks, or all of them if the states are sharded. With ``eos_token_id`` padding is skipped: the end state
    emits it with certainty, so it would change nothing.
    """
    team = team or Ranks()
    counts, sharded = Counts.zeros(hmm), hmm.team.size > 1
    missing = (
        None if eos_token_id is None else 1 - hmm.emission[:, eos_token_id]
    )  # an unobserved token is never the end token, see drop_tokens
    for i, chunk in enumerate(_chunks(tokens, chunk_size, eos_token_id)):
        if sharded or i % team.size == team.rank:
            counts.add_(expected_counts(hmm, chunk.to(hmm.emission.device), missing, messages))
    if not sharded:
        team.sum(counts.tensors())
    new = hmm.m_step(counts.initial, counts.transition, counts.emission, pseudocount)
    return hmm.blend(new, rate), float(counts.log_likelihood)


def _chunks(tokens: Tensor, size: int, eos_token_id: int | None) -> Iterator[Tensor]:
    """Split rows into chunks; with ``eos_token_id`` sort by length and cut off columns that are padding in all rows."""
    if eos_token_id is None:
        yield from torch.split(tokens, size)
        return
    lengths = 1 + (tokens[:, :-1] != eos_token_id).sum(1)
    order = lengths.argsort(stable=True)
    for rows in torch.split(order, size):
        yield tokens[rows, : int(lengths[rows[-1]])]


@torch.no_grad()
def state_marginals(hmm: HMM, steps: int) -> Float[Tensor, "steps hidden"]:
    """Compute p(z_t) for t = 1 … steps."""
    message, found, factors = hmm.initial_probs[None], [], factors_of(hmm.transition)
    for _ in range(steps):
        found.append(message)
        for factor in factors:
            message = factor.forward(message)
    return torch.cat(found)
