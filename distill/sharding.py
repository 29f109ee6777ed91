"""HMM parameters sharded over ranks by hidden state.

The state is an index (i_1, …, i_k), k = 1 if the transition is dense. Each rank holds a range of i_1: the emission rows and
messages of these states, and of each factor of the transition

    factor s > 1, which rewrites i_s      the blocks of these i_1; no communication
    factor 1, which rewrites i_1          the columns of these new i_1; messages are gathered before it

All ranks see the same sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import EvidenceError, ShapeError
from ..inference.queries.baum_welch import Factor, HMMCounts, weights_of
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
        weights, axes = weights_of(hmm.transition)
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
            SplitFactor(w.to(dtype), axis, self.team)
            if axis == 0 and self.team.size > 1
            else Factor(w.to(dtype), axis)
            for w, axis in zip(self.weights, self.axes or (0,), strict=True)
        ]

    def map(self, fn: Callable[[Tensor], Tensor]) -> ShardedHMM:
        """Apply ``fn`` to each parameter."""
        return ShardedHMM(
            fn(self.initial), tuple(map(fn, self.weights)), self.axes, fn(self.emission), self.team
        )

    def m_step(self, counts: HMMCounts, pseudocount: float = 0.0) -> ShardedHMM:
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
            for w, c, axis in zip(self.weights, counts.transition, self.axes or (0,), strict=True)
        ]
        first, last = (
            normalise("initial", self.initial, counts.initial, True),
            normalise("emission", self.emission, counts.emission, False),
        )
        return ShardedHMM(first, tuple(weights), self.axes, last, self.team)

    def blend(self, new: ShardedHMM, step: float) -> ShardedHMM:
        """Interpolate every parameter: (1 − η) · this + η · ``new``."""
        weights = [torch.lerp(a, b, step) for a, b in zip(self.weights, new.weights, strict=True)]
        initial = torch.lerp(self.initial, new.initial, step)
        return ShardedHMM(
            initial, tuple(weights), self.axes, torch.lerp(self.emission, new.emission, step), self.team
        )


class SplitFactor(Factor):
    """The factor that rewrites the axis which is divided among ranks: one rank's columns of it."""

    def __init__(self, weight: Tensor, axis: int, team: Ranks) -> None:
        super().__init__(weight, axis)
        self.team = team

    def forward(self, message: Float[Tensor, "batch states"]) -> Float[Tensor, "batch states"]:
        """Sum over the old index, of all ranks."""
        return super().forward(self.team.gather(message, 1))

    def backward(self, message: Float[Tensor, "batch states"]) -> Float[Tensor, "batch states"]:
        """Sum over the new index, of all ranks; return this rank's part."""
        found = super().backward(message)
        self.team.sum([found])
        each = found.shape[1] // self.team.size
        return found.narrow(1, self.team.rank * each, each)

    def outer(
        self, before: Float[Tensor, "time batch states"], after: Float[Tensor, "time batch states"]
    ) -> Tensor:
        """Sum before ⊗ after, one step at a time: all messages of all ranks would not fit in memory."""
        found = torch.zeros_like(self.weight)
        for b, a in zip(before, after, strict=True):
            found += super().outer(self.team.gather(b, 1)[None], a[None])
        return found
