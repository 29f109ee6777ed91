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

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import CircuitError, EvidenceError, ShapeError
from ..inference import messages
from ..inference.contract import emit
from ..inference.evidence import as_evidence
from ..inference.real import Real
from ..layers import Dense, Monarch, Operator


class Counts(NamedTuple):
    """Expected numbers of uses of each parameter, summed over a batch."""

    initial: Float[Tensor, " hidden"]
    transition: list[Tensor]  # shaped like transition.parameters()
    emission: Float[Tensor, "hidden vocab"]
    log_likelihood: Float[Tensor, ""]  # nats, summed over the batch

    @classmethod
    def zeros(cls, hmm: HMM) -> Counts:
        """Nothing counted yet; in float64, so that the order of additions hardly matters."""

        def zeros(weight: Tensor) -> Tensor:
            return torch.zeros_like(weight, dtype=torch.float64)

        transition = [zeros(weight) for weight in hmm.transition.parameters()]
        total = zeros(hmm.initial_probs[0])
        return cls(zeros(hmm.initial_probs), transition, zeros(hmm.emission_probs), total)

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
    last = emit(semiring, free.inputs, alpha, tokens[:, -1])
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
    hmm: HMM,
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
    sweep = _forward_backward(hmm, tokens, missing, messages)
    own = hmm.emission_probs.dtype
    transition = [
        weight * f.counts(b, a).to(own)
        for weight, f, b, a in zip(
            hmm.transition.parameters(), sweep.factors, sweep.before, sweep.after, strict=True
        )
    ]
    emission = torch.zeros_like(sweep.rows, dtype=own)
    emission.index_add_(0, sweep.tokens.flatten(), sweep.posterior.flatten(0, 1).to(own))
    total = sweep.log_likelihood.sum()
    first = sweep.posterior[0].sum(0, dtype=own)
    return Counts(first, transition, emission[: hmm.vocab_size].T, total)


@torch.no_grad()
def posteriors(hmm: HMM, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length hidden"]:
    """p(z_t | x_1 … x_n), smoothed, at each position; raises as :func:`expected_counts` does."""
    return _forward_backward(hmm, tokens, None, None).posterior.transpose(0, 1)


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
    hmm: HMM, tokens: Tensor, missing: Tensor | None, messages: torch.dtype | None
) -> _Sweep:
    own = hmm.emission_probs.dtype  # of the scales, whose logarithms are added up
    dtype = messages or own
    factors = factors_of(hmm.transition.map(lambda weight: weight.to(dtype)))
    batch, n = tokens.shape
    rows = hmm.emission_probs.T.to(dtype).contiguous()
    if bool((tokens < 0).any()):
        rows = torch.cat([rows, torch.ones_like(rows[:1]) if missing is None else missing[None].to(dtype)])
    index = (tokens.T % len(rows)).contiguous()  # −1 is the last row
    emitted = rows[index]  # (time, batch, state); becomes the posterior below
    before = [emitted.new_empty(n - 1, batch, hmm.hidden) for _ in factors]
    after = [torch.empty_like(f) for f in before]
    log_likelihood = emitted.new_zeros(batch, dtype=own)

    message = hmm.initial_probs.to(dtype).expand(batch, -1)
    for t in range(n):
        message = message * emitted[t]
        scale = message.sum(1, keepdim=True, dtype=own)
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
        scale = (before[0][t] * message).sum(1, keepdim=True, dtype=own)
        beta = (message / scale).to(dtype)
        for part in after:
            part[t] /= scale
    emitted[0] = (last if n == 1 else before[0][0]) * beta
    return _Sweep(factors, rows, index, before, after, emitted, log_likelihood)


def maximise(hmm: HMM, counts: Counts, pseudocount: float = 0.0) -> HMM:
    """Normalised counts. ``pseudocount`` is added wherever the parameter is not zero; rows never used stay as they are."""

    def normalise(weight: Tensor, count: Tensor) -> Tensor:
        count = count + pseudocount * (weight > 0)
        total = count.sum(-1, keepdim=True)
        normal = (count / total.clamp(min=torch.finfo(total.dtype).tiny)).to(weight.dtype)
        return torch.where(total > 0, normal, weight)

    return _zip(normalise, hmm, counts.initial, counts.transition, counts.emission)


def blend(old: HMM, new: HMM, step: float) -> HMM:
    """(1 − η) old + η new, for every parameter."""
    return _zip(
        lambda a, b: torch.lerp(a, b, step),
        old,
        new.initial_probs,
        new.transition.parameters(),
        new.emission_probs,
    )


class Factor:
    """One factor of a transition: rewrites axis a of the state, W[i_1, …, i_k, new i_a]."""

    def __init__(self, weight: Tensor, axis: int) -> None:
        self.weight, self.dims = weight, weight.shape[:-1]
        # Backward is forward with old and new turned round; laid out anew once, not by every product.
        self._turned = weight.transpose(axis, -1).contiguous()
        old = "abcdefghijkl"[: len(self.dims)]
        new = old[:axis] + "z" + old[axis + 1 :]
        self._forward = f"n{old},{old}z->n{new}"
        self._counts = f"n{old},n{new}->{old}z"

    def forward(self, message: Tensor) -> Tensor:
        return torch.einsum(self._forward, torch.unflatten(message, 1, self.dims), self.weight).flatten(1)

    def backward(self, message: Tensor) -> Tensor:
        return torch.einsum(self._forward, torch.unflatten(message, 1, self.dims), self._turned).flatten(1)

    def counts(self, before: Tensor, after: Tensor) -> Tensor:
        """Σ before ⊗ after over time and batch; times W, the expected counts."""
        rows = [torch.unflatten(x.flatten(0, 1), 1, self.dims) for x in (before, after)]
        return torch.einsum(self._counts, *rows)


@torch.no_grad()
def state_marginals(hmm: HMM, steps: int) -> Float[Tensor, "steps hidden"]:
    """p(z_t) for t = 1 … steps."""
    message, found, factors = hmm.initial_probs[None], [], factors_of(hmm.transition)
    for _ in range(steps):
        found.append(message)
        for factor in factors:
            message = factor.forward(message)
    return torch.cat(found)


def factors_of(transition: Operator) -> list[Factor]:
    """The factors of a dense or Monarch transition; raises :class:`CircuitError` for another."""
    if isinstance(transition, Dense):
        return [Factor(transition.weight, 0)]
    if isinstance(transition, Monarch) and not transition.transposed:
        return [Factor(w, axis) for w, axis in zip(transition.weights, transition.axes, strict=True)]
    raise CircuitError(f"EM: the transition must be Dense or Monarch, not {transition!r}")


def _zip(
    fn: Callable[[Tensor, Tensor], Tensor],
    hmm: HMM,
    initial: Tensor,
    transition: list[Tensor],
    emission: Tensor,
) -> HMM:
    """A new HMM from its parameters and others of the same shapes, pair by pair."""
    others = iter(transition)
    operator = hmm.transition.map(lambda weight: fn(weight, next(others)))
    return HMM(fn(hmm.initial_probs, initial), operator, fn(hmm.emission_probs, emission))
