"""Expected counts of a hidden Markov model by one forward-backward pass (Baum and Welch; Rabiner 1989, Eq. 27 and 36–40).

    α_1 = π ∘ B[:, x_1],   α_t = (α_{t−1} A) ∘ B[:, x_t],   β_n = 1,   β_{t−1} = A (B[:, x_t] ∘ β_t),   p(z_t | x) ∝ α_t ∘ β_t

A transition is a product of factors, each of which rewrites one axis of the state (i_1, …, i_k): one factor if dense,
several if Monarch. With F_s the forward message before factor s and G_s the backward message after it, the counts of the
factor are W_s ∘ Σ_{t, batch} F_s ⊗ G_s, one matrix product each.

Axes: (time, batch, state).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.chain import Chain
from ...errors import CircuitError
from ...layers import Categorical, Dense, Identity, Monarch, Operator
from .counts import counts_by_derivatives
from .evidence import check_possible
from .marginal import log_marginal


class HMMCounts(NamedTuple):
    """Expected counts of each parameter of an HMM, and log p in nats, summed over a batch.

    ``unobserved``: the expected number of unobserved tokens of each state, which ``emission`` does not count.
    """

    initial: Float[Tensor, " hidden"]
    transition: list[Tensor]  # shaped like transition.parameters(): one if dense
    emission: Float[Tensor, "hidden vocab"]
    unobserved: Float[Tensor, " hidden"]
    log_likelihood: Float[Tensor, ""]

    def tensors(self) -> list[Tensor]:
        """List all tensors, in a fixed order."""
        return [self.initial, *self.transition, self.emission, self.unobserved, self.log_likelihood]

    def add_(self, other: HMMCounts) -> None:
        """Add the counts of ``other`` to these, in place."""
        for mine, theirs in zip(self.tensors(), other.tensors(), strict=True):
            mine += theirs

    def to(self, dtype: torch.dtype) -> HMMCounts:
        """Return the counts in another precision."""
        initial, *transition, emission, unobserved, total = (t.to(dtype) for t in self.tensors())
        return HMMCounts(initial, transition, emission, unobserved, total)


class TransitionFactor:
    """One factor W[i_1, …, i_k, new i_a] of a transition, which rewrites axis a of the state."""

    def __init__(self, weight: Tensor, axis: int) -> None:
        self.weight, self.dims = weight, weight.shape[:-1]
        # Backward is forward with old and new index exchanged; transposed in memory once, not by every product.
        self._turned = weight.transpose(axis, -1).contiguous()
        old = "abcdefghijkl"[: len(self.dims)]
        new = old[:axis] + "z" + old[axis + 1 :]
        self._forward = f"n{old},{old}z->n{new}"
        self._counts = f"n{old},n{new}->{old}z"

    def forward(self, message: Float[Tensor, "batch states"]) -> Float[Tensor, "batch states"]:
        """Sum over the old index: messages forward in time."""
        if len(self.dims) == 1:
            return message @ self.weight
        return torch.einsum(self._forward, torch.unflatten(message, 1, self.dims), self.weight).flatten(1)

    def backward(self, message: Float[Tensor, "batch states"]) -> Float[Tensor, "batch states"]:
        """Sum over the new index: messages backward in time."""
        if len(self.dims) == 1:
            return message @ self._turned
        message = torch.unflatten(message, 1, self._turned.shape[:-1])
        return torch.einsum(self._forward, message, self._turned).flatten(1)

    def outer(
        self, before: Float[Tensor, "time batch states"], after: Float[Tensor, "time batch states"]
    ) -> Tensor:
        """Sum before ⊗ after over time and batch; times W, these are the expected counts."""
        before, after = before.flatten(0, 1), after.flatten(0, 1)
        rows = torch.unflatten(before, 1, self.dims), torch.unflatten(after, 1, self._turned.shape[:-1])
        return torch.einsum(self._counts, *rows)


def weights_of(transition: Operator) -> tuple[list[Tensor], tuple[int, ...] | None]:
    """Return the factors' weights, and the axis that each rewrites (None: dense).

    Raises :class:`CircuitError` for a transition that is neither dense nor Monarch.
    """
    if isinstance(transition, Dense):
        return [transition.weight], None
    if isinstance(transition, Monarch) and not transition.transposed:
        return list(transition.weights), tuple(transition.axes)
    raise CircuitError(f"EM: the transition must be Dense or Monarch, not {transition!r}")


@torch.no_grad()
def hmm_counts(
    initial: Float[Tensor, " hidden"],
    transition: Operator,
    emission: Float[Tensor, "hidden vocab"],
    tokens: Int[Tensor, "batch length"],
    missing: Float[Tensor, " hidden"] | None = None,
    messages: torch.dtype | None = None,
    rows: Int[Tensor, " batch"] | None = None,
) -> HMMCounts:
    """Compute the expected counts of the parameters of an HMM, and log p of all sequences.

    Arguments as in :func:`forward_backward`; ``rows`` are the numbers of the sequences in errors. Sequences in which a hidden
    state may have been lost to underflow are counted again in float64, then by the derivatives of log p in log space.
    Raises :class:`EvidenceError` if a sequence is impossible.
    """
    own = emission.dtype
    rows = torch.arange(len(tokens), device=tokens.device) if rows is None else rows

    weights, axes = weights_of(transition)
    factors = [TransitionFactor(w.to(messages or own), a) for w, a in zip(weights, axes or (0,), strict=True)]

    def swept(tokens: Tensor) -> Sweep:
        return forward_backward(initial, factors, emission, tokens, missing, messages)

    sweep = swept(tokens)
    if not bool(sweep.lost.any()):
        return sweep.counts(transition.parameters())
    (lost,), (kept,) = sweep.lost.nonzero(as_tuple=True), (~sweep.lost).nonzero(as_tuple=True)
    unseen = torch.ones_like(initial) if missing is None else missing
    if own == torch.float64:
        found = _in_log_space(initial, transition, emission, tokens[lost], unseen, rows[lost])
    else:
        wide = transition.map(torch.Tensor.double)
        found = hmm_counts(
            initial.double(), wide, emission.double(), tokens[lost], unseen.double(), rows=rows[lost]
        )
    if len(kept):
        found.add_(swept(tokens[kept]).counts(transition.parameters()))
    return found.to(own)


def _in_log_space(
    initial: Tensor, transition: Operator, emission: Tensor, tokens: Tensor, missing: Tensor, rows: Tensor
) -> HMMCounts:
    vocab_size = emission.shape[1]
    table = torch.cat([emission, missing[:, None]], 1)
    seen = torch.where(tokens < 0, vocab_size, tokens)
    chain = Chain(
        (initial,), Identity(len(initial)), Categorical(table), transition, (torch.ones_like(initial),)
    )
    check_possible(log_marginal(chain, seen), "expected_counts", rows)
    found = counts_by_derivatives(chain, seen)
    weights = [found.of(w) for w in transition.parameters()]
    emitted, unobserved = found.of(table).tensor_split([vocab_size], 1)
    return HMMCounts(found.of(initial), weights, emitted, unobserved[:, 0], found.log_likelihood)


class Sweep(NamedTuple):
    """Result of a forward-backward pass: messages before and after each factor, and posteriors, (time, batch, state)."""

    factors: Sequence[TransitionFactor]
    emission: Tensor  # (hidden, vocab)
    tokens: Tensor  # (time, batch); the number after the last token's is −1
    before: list[Tensor]
    after: list[Tensor]
    posterior: Tensor
    log_likelihood: Float[Tensor, " batch"]
    lost: Bool[Tensor, " batch"]  # sequences of which underflow may have taken something that counts

    def counts(self, weights: Sequence[Tensor]) -> HMMCounts:
        """Sum the expected counts; ``weights``: those of the factors."""
        own, (hidden, vocab_size) = self.emission.dtype, self.emission.shape
        transition = [
            weight * factor.outer(b, a).to(own)
            for weight, factor, b, a in zip(weights, self.factors, self.before, self.after, strict=True)
        ]
        emitted = self.emission.new_zeros(vocab_size + 1, hidden)
        emitted.index_add_(0, self.tokens.flatten(), self.posterior.flatten(0, 1).to(own))
        first = self.posterior[0].sum(0, dtype=own)
        total = self.log_likelihood.sum()
        return HMMCounts(first, transition, emitted[:vocab_size].T, emitted[vocab_size], total)


@torch.no_grad()
def forward_backward(
    initial: Float[Tensor, " hidden"],
    factors: Sequence[TransitionFactor],
    emission: Float[Tensor, "hidden vocab"],
    tokens: Int[Tensor, "batch length"],
    missing: Float[Tensor, " hidden"] | None = None,
    messages: torch.dtype | None = None,
    sum_over_ranks: Callable[[Sequence[Tensor]], None] = lambda tensors: None,
) -> Sweep:
    """Run the scaled recursions. Memory: about (2 k + 1) · batch · length · hidden numbers, for k factors.

    Token −1 is unobserved: its probability in each state is ``missing`` (default: one), and it adds no emission count.
    ``messages``: dtype of messages and factors, by default the emission's. ``sum_over_ranks`` adds tensors in place where several
    processes hold a part of the states each.
    """
    own = emission.dtype  # precision of the scales, whose logarithms are added up
    dtype = messages or own
    batch, n = tokens.shape
    rows = emission.T.to(dtype).contiguous()

    tokens = (tokens.T % (len(rows) + 1)).contiguous()  # −1 is the last row
    if bool((tokens == len(rows)).any()):
        rows = torch.cat([rows, torch.ones_like(rows[:1]) if missing is None else missing[None].to(dtype)])
    emitted = rows[tokens]  # (time, batch, state); becomes the posterior below
    alphas = torch.empty_like(emitted)
    before = [alphas[:-1], *(torch.empty_like(alphas[:-1]) for _ in factors[1:])]
    after = [torch.empty_like(each) for each in before]
    scales = emitted.new_empty(n, batch, 1, dtype=own)

    message = initial.to(dtype)
    for t, (alpha, emission_t, scale) in enumerate(zip(alphas, emitted, scales, strict=True)):
        torch.mul(message, emission_t, out=alpha)
        sum_over_ranks([torch.sum(alpha, 1, keepdim=True, dtype=own, out=scale)])
        message = alpha.div_(scale)
        for s, factor in enumerate(factors if t + 1 < n else []):
            if s:
                before[s][t] = message
            message = factor.forward(message)
    beta = torch.ones_like(emitted[0])
    for t in range(n - 1, 0, -1):
        message = torch.mul(beta, emitted[t], out=after[-1][t - 1])
        emitted[t] = beta
        for s in range(len(factors) - 1, -1, -1):
            if s + 1 < len(factors):
                after[s][t - 1] = message
            message = factors[s].backward(message)
        beta = message.div_(scales[t])
    emitted[0] = beta
    peak, posterior = emitted.amax(2, keepdim=True).to(own), emitted.mul_(alphas)
    # Divided by this sum, which is one but for rounding, the posterior of each step sums to one.
    total = posterior.sum(2, keepdim=True, dtype=own)
    sum_over_ranks([total])
    posterior.div_(total)
    for each in after:
        each.div_(scales[1:] * total[:-1])
    # What underflows in α at one step is at most tiny · H² / scale, and counts β times that, where Σ α β = 1.
    info = torch.finfo(dtype)
    least = n * len(initial) ** 2 * info.tiny / info.eps
    lost = (~((peak / total).amax(0) * least < scales.amin(0))).to(own)[:, 0]
    sum_over_ranks([lost])
    return Sweep(factors, emission, tokens, before, after, posterior, scales.log().sum((0, 2)), lost > 0)
