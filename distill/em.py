"""Expectation-maximisation for HMMs: one rule for every parameter,

    expected count of θ  =  θ · ∂ log p(x) / ∂θ,

since a parameter that is used c times contributes θ^c. :func:`counts_by_autograd` is that rule on the engine, for any
transition operator; :func:`expected_counts` is the same sum written out as one fused forward-backward pass (Baum and
Welch), which is what training uses. Maximising is normalising the counts of each row; a mini-batch step blends,

    θ ← (1 − η) θ + η · normalised counts.

A transition is a product of factors, each rewriting one axis of the state (i_1, …, i_k): one factor if dense, several
if Monarch. With F_s the forward message before factor s and G_s the backward message after it, the counts of the
factor over all steps are W_s ∘ Σ_{t, batch} F_s ⊗ G_s: one large product each. A parameter that is zero stays zero.

Axes here are (time, batch, state): tokens are known, so emissions are gathered row by row from the transposed emission.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import EvidenceError, ShapeError
from ..inference.engine import messages
from ..inference.engine.contract import observe
from ..inference.queries.evidence import as_evidence
from ..inference.semirings.scaled_real import Real
from .sharding import Factor, ShardedHMM, factors_of


class Counts(NamedTuple):
    """Expected numbers of uses of each parameter, summed over a batch."""

    initial: Float[Tensor, " hidden"]
    transition: list[Tensor]  # shaped like transition.parameters()
    emission: Float[Tensor, "hidden vocab"]
    log_likelihood: Float[Tensor, ""]  # nats, summed over the batch

    @classmethod
    def zeros(cls, part: ShardedHMM) -> Counts:
        """Nothing counted yet; in float64, so that the order of additions hardly matters."""

        def zeros(weight: Tensor) -> Tensor:
            return torch.zeros_like(weight, dtype=torch.float64)

        total = zeros(part.initial[0])
        return cls(zeros(part.initial), [zeros(w) for w in part.weights], zeros(part.emission), total)

    def tensors(self) -> list[Tensor]:
        """All of them, in a fixed order."""
        return [self.initial, *self.transition, self.emission, self.log_likelihood]

    def add_(self, other: Counts) -> None:
        """Add other counts to these, in place."""
        for mine, theirs in zip(self.tensors(), other.tensors(), strict=True):
            mine += theirs


def counts_by_autograd(hmm: HMM, tokens: Int[Tensor, "batch length"]) -> Counts:
    """The rule itself, by differentiating the engine's log p; the reference for :func:`expected_counts`.

    The last step stops at the emission: the chain goes on to a next state, which nothing is known about.
    """
    free = hmm.map(lambda weight: weight.detach().clone().requires_grad_())
    semiring, n = Real(), tokens.shape[1]
    evidence = as_evidence(tokens, dict.fromkeys(range(n), hmm.vocab_size))
    *_, alpha = messages.forward(free, semiring, evidence, n - 1)
    last = observe(semiring, free.inputs, alpha, tokens[:, -1])
    total = semiring.log(semiring.reduce(last, [0])).sum()
    weights = [free.initial_probs, *free.transition.parameters(), free.emission_probs]
    gradients = torch.autograd.grad(total, weights, allow_unused=True)
    initial, *transition, emission = [
        torch.zeros_like(w) if g is None else (w * g).detach()
        for w, g in zip(weights, gradients, strict=True)
    ]
    return Counts(initial, transition, emission, total.detach())


@torch.no_grad()
def expected_counts(
    hmm: HMM | ShardedHMM,
    tokens: Int[Tensor, "batch length"],
    missing: Float[Tensor, " hidden"] | None = None,
    messages: torch.dtype | None = None,
) -> Counts:
    """Expected counts by one scaled forward-backward pass; memory is about (2 k + 1) · batch · length · hidden numbers.

    Token −1 is not known: its probability in each state is ``missing``, one (it may be any token) if absent; it counts
    as no emission. ``messages`` is the type of those numbers, the HMM's own if absent: ``torch.bfloat16`` halves their
    memory and, where the processor multiplies in it, the time; counts then have three digits, which EM does not mind.

    Raises :class:`EvidenceError` if a sequence is impossible, :class:`ShapeError` for ``messages`` in float16, whose
    range is too small for them, and :class:`CircuitError` for a transition that is neither dense nor Monarch.
    """
    if messages is torch.float16:
        raise ShapeError("expected_counts: float16 loses small probabilities; take bfloat16")
    part = hmm if isinstance(hmm, ShardedHMM) else ShardedHMM.of(hmm)
    sweep = _forward_backward(part, tokens, missing, messages)
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
    """p(z_t | x_1 … x_n), smoothed, at each position; raises as :func:`expected_counts` does."""
    return _forward_backward(ShardedHMM.of(hmm), tokens, None, None).posterior.transpose(0, 1)


@torch.no_grad()
def log_likelihood(part: ShardedHMM, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, " batch"]:
    """log p of each sequence in nats, of an HMM whose states are dealt out to ranks; −inf if it is impossible."""
    factors, found = part.factors(part.emission.dtype), part.emission.new_zeros(len(tokens))
    message = part.initial.expand(len(tokens), -1)
    for t in range(tokens.shape[1]):
        for factor in factors if t else []:
            message = factor.forward(message)
        message = message * part.emission.T[tokens[:, t]]
        scale = message.sum(1, keepdim=True)
        part.team.sum([scale])
        found += scale[:, 0].log()
        message = message / scale.clamp(min=torch.finfo(scale.dtype).tiny)
    return found


class _Sweep(NamedTuple):
    """What one forward-backward pass leaves: messages before and after each factor, and posteriors, (time, batch, state)."""

    factors: list[Factor]
    rows: Tensor  # emission, (vocab, hidden), with a last row for −1 if there is one
    tokens: Tensor  # the row of each token, (time, batch)
    before: list[Tensor]
    after: list[Tensor]
    posterior: Tensor
    log_likelihood: Tensor


def _forward_backward(
    part: ShardedHMM, tokens: Tensor, missing: Tensor | None, messages: torch.dtype | None
) -> _Sweep:
    own = part.emission.dtype  # of the scales, whose logarithms are added up
    dtype = messages or own
    factors = part.factors(dtype)
    batch, n = tokens.shape
    rows = part.emission.T.to(dtype).contiguous()

    def total(message: Tensor) -> Tensor:
        """Σ over the states, of all ranks."""
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

    message = part.initial.to(dtype).expand(batch, -1)
    for t in range(n):
        message = message * emitted[t]
        scale = total(message)
        log_likelihood += scale[:, 0].log()
        message /= scale
        for s, factor in enumerate(factors if t + 1 < n else []):
            before[s][t] = message
            message = factor.forward(message)
    if not bool(log_likelihood.isfinite().all()):
        row = int((~log_likelihood.isfinite()).nonzero()[0])
        raise EvidenceError(f"expected_counts: sequence {row} has probability zero under the HMM")

    beta = torch.ones_like(emitted[0])
    last = message
    for t in range(n - 2, -1, -1):
        alpha_next = last if t == n - 2 else before[0][t + 1]
        message = beta * emitted[t + 1]
        emitted[t + 1] = alpha_next * beta
        for s in range(len(factors) - 1, -1, -1):
            after[s][t] = message
            message = factors[s].backward(message)
        # Dividing by this sum makes every step's posterior sum to one, whatever the scale of the message was.
        scale = total(before[0][t] * message)
        beta = (message / scale).to(dtype)
        for each in after:
            each[t] /= scale
    emitted[0] = (last if n == 1 else before[0][0]) * beta
    return _Sweep(factors, rows, index, before, after, emitted, log_likelihood)


def m_step(hmm: HMM, counts: Counts, pseudocount: float = 0.0) -> HMM:
    """Normalised counts. ``pseudocount`` is added wherever the parameter is not zero; rows never used stay as they are."""
    new = ShardedHMM.of(hmm).m_step(counts.initial, counts.transition, counts.emission, pseudocount)
    return new.whole().for_vocabulary(hmm.vocabulary_fingerprint)


def blend(old: HMM, new: HMM, step: float) -> HMM:
    """(1 − η) old + η new, for every parameter."""
    blended = ShardedHMM.of(old).blend(ShardedHMM.of(new), step).whole()
    return blended.for_vocabulary(old.vocabulary_fingerprint)


@torch.no_grad()
def state_marginals(hmm: HMM, steps: int) -> Float[Tensor, "steps hidden"]:
    """p(z_t) for t = 1 … steps."""
    message, found, factors = hmm.initial_probs[None], [], factors_of(hmm.transition)
    for _ in range(steps):
        found.append(message)
        for factor in factors:
            message = factor.forward(message)
    return torch.cat(found)
