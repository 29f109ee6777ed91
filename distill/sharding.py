"""HMM parameters sharded over ranks by hidden state.

The state is an index (i_1, …, i_k), k = 1 if the transition is dense. Each rank holds a range of i_1: the emission rows and
messages of these states, and of each factor of the transition

    factor s > 1, which rewrites i_s      the blocks of these i_1; no communication
    factor 1, which rewrites i_1          the columns of these new i_1; messages are gathered before it

All ranks see the same sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import CircuitError, EvidenceError, ShapeError
from ..layers import Dense, Monarch, Operator
from .distributed import Ranks


@dataclass(frozen=True)
class ShardedHMM:
    """The HMM parameters of one rank's hidden states; ``team``: the ranks that share the states (one rank: the whole HMM)."""

    initial: Float[Tensor, " states"]
    weights: tuple[Tensor, ...]
    axes: tuple[int, ...] | None  # the axes of a Monarch transition; None if dense
    emission: Float[Tensor, "states vocab"]
    team: Ranks

    @classmethod
    def of(cls, hmm: HMM, team: Ranks | None = None) -> ShardedHMM:
        """Take this rank's shard of an HMM; the whole HMM without ``team``.

        Raises :class:`CircuitError` for a transition that is neither dense nor Monarch, :class:`ShapeError` if the first
        index cannot be divided evenly.
        """
        team = team or Ranks()
        weights, axes = _form(hmm.transition)
        first, rest = weights[0].shape[0], prod(weights[0].shape[1:-1])
        if first % team.size:
            raise ShapeError(
                f"{first} blocks of hidden states cannot be dealt out to {team.size} ranks evenly"
            )
        each = first // team.size

        def mine(tensor: Tensor, dim: int, times: int = 1) -> Tensor:
            return (
                tensor
                if team.size == 1
                else tensor.narrow(dim, team.rank * each * times, each * times).clone()
            )

        parts = [
            mine(w, w.ndim - 1 if axis == 0 else 0) for w, axis in zip(weights, axes or (0,), strict=True)
        ]
        return cls(
            mine(hmm.initial_probs, 0, rest), tuple(parts), axes, mine(hmm.emission_probs, 0, rest), team
        )

    def whole(self) -> HMM:
        """Gather the whole HMM on every rank; on the CPU if there are several ranks."""
        axes = self.axes or (0,)
        weights = [
            self.team.join(w, w.ndim - 1 if axis == 0 else 0)
            for w, axis in zip(self.weights, axes, strict=True)
        ]
        operator: Operator = Dense(weights[0]) if self.axes is None else Monarch(weights, self.axes)
        return HMM(self.team.join(self.initial, 0), operator, self.team.join(self.emission, 0))

    @property
    def operator(self) -> Operator:
        """The transition of this rank's hidden states."""
        return Dense(self.weights[0]) if self.axes is None else Monarch(self.weights, self.axes)

    def factors(self, dtype: torch.dtype) -> list[Factor]:
        """Return the factors of the transition, in the given dtype."""
        return [
            Factor(w.to(dtype), axis, self.team)
            for w, axis in zip(self.weights, self.axes or (0,), strict=True)
        ]

    def map(self, fn: Callable[[Tensor], Tensor]) -> ShardedHMM:
        """Apply ``fn`` to each parameter."""
        return ShardedHMM(
            fn(self.initial), tuple(map(fn, self.weights)), self.axes, fn(self.emission), self.team
        )

    def m_step(
        self, initial: Tensor, transition: Sequence[Tensor], emission: Tensor, pseudocount: float
    ) -> ShardedHMM:
        """Normalise counts, with ``pseudocount`` added where a parameter is not zero; unused rows stay.

        Raises :class:`EvidenceError` if a count is not a finite number.
        """

        def normalise(what: str, weight: Tensor, count: Tensor, split: bool) -> Tensor:
            count = count + pseudocount * (weight > 0)
            total = count.sum(-1, keepdim=True)
            if split:  # other ranks hold further parts of the row
                self.team.sum([total])
            if not bool(total.isfinite().all()):
                row = int((~total.isfinite()).flatten().nonzero()[0])
                raise EvidenceError(
                    f"m_step: the counts of {what} row {row} are not finite numbers; find the sequence by expected_counts of "
                    "each alone, and check the parameters of the HMM"
                )
            tiny = torch.finfo(total.dtype).tiny  # smaller sums are not accurate, and count for nothing
            return torch.where(total >= tiny, (count / total.clamp(min=tiny)).to(weight.dtype), weight)

        weights = [
            normalise("transition", w, c, axis == 0)
            for w, c, axis in zip(self.weights, transition, self.axes or (0,), strict=True)
        ]
        first, last = (
            normalise("initial", self.initial, initial, True),
            normalise("emission", self.emission, emission, False),
        )
        return ShardedHMM(first, tuple(weights), self.axes, last, self.team)

    def blend(self, new: ShardedHMM, step: float) -> ShardedHMM:
        """Interpolate every parameter: (1 − η) · this + η · ``new``."""
        weights = [torch.lerp(a, b, step) for a, b in zip(self.weights, new.weights, strict=True)]
        initial = torch.lerp(self.initial, new.initial, step)
        return ShardedHMM(
            initial, tuple(weights), self.axes, torch.lerp(self.emission, new.emission, step), self.team
        )


class Factor:
    """One factor W[i_1, …, i_k, new i_a] of a transition, which rewrites axis a of the state; one rank's shard of it."""

    def __init__(self, weight: Tensor, axis: int, team: Ranks | None = None) -> None:
        self.weight, self.dims, self.team = weight, weight.shape[:-1], team or Ranks()
        self.split = axis == 0 and self.team.size > 1
        # Backward is forward with old and new index exchanged; transposed in memory once, not by every product.
        self._turned = weight.transpose(axis, -1).contiguous()
        old = "abcdefghijkl"[: len(self.dims)]
        new = old[:axis] + "z" + old[axis + 1 :]
        self._forward = f"n{old},{old}z->n{new}"
        self._counts = f"n{old},n{new}->{old}z"

    def forward(self, message: Float[Tensor, "batch states"]) -> Float[Tensor, "batch states"]:
        """Sum over the old index: messages forward in time."""
        if self.split:
            message = self.team.gather(message, 1)
        return torch.einsum(self._forward, torch.unflatten(message, 1, self.dims), self.weight).flatten(1)

    def backward(self, message: Float[Tensor, "batch states"]) -> Float[Tensor, "batch states"]:
        """Sum over the new index: messages backward in time."""
        message = torch.unflatten(message, 1, self._turned.shape[:-1])
        found = torch.einsum(self._forward, message, self._turned).flatten(1)
        if self.split:
            self.team.sum([found])
            each = found.shape[1] // self.team.size
            found = found.narrow(1, self.team.rank * each, each)
        return found

    def counts(
        self, before: Float[Tensor, "time batch states"], after: Float[Tensor, "time batch states"]
    ) -> Tensor:
        """Sum before ⊗ after over time and batch; times W, these are the expected counts."""
        if not self.split:
            return self._outer(before.flatten(0, 1), after.flatten(0, 1))
        found = torch.zeros_like(self.weight)
        for b, a in zip(before, after, strict=True):  # all messages of all ranks would not fit in memory
            found += self._outer(self.team.gather(b, 1), a)
        return found

    def _outer(self, before: Tensor, after: Tensor) -> Tensor:
        rows = torch.unflatten(before, 1, self.dims), torch.unflatten(after, 1, self._turned.shape[:-1])
        return torch.einsum(self._counts, *rows)


def factors_of(transition: Operator) -> list[Factor]:
    """Return the factors of a dense or Monarch transition. Raises :class:`CircuitError` for other transitions."""
    weights, axes = _form(transition)
    return [Factor(w, axis) for w, axis in zip(weights, axes or (0,), strict=True)]


def _form(transition: Operator) -> tuple[list[Tensor], tuple[int, ...] | None]:
    """(weights, axes); axes are None if dense."""
    if isinstance(transition, Dense):
        return [transition.weight], None
    if isinstance(transition, Monarch) and not transition.transposed:
        return list(transition.weights), tuple(transition.axes)
    raise CircuitError(f"EM: the transition must be Dense or Monarch, not {transition!r}")
