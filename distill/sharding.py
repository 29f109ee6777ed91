"""HMM parameters sharded over ranks by hidden state.

The state is an index (i_1, …, i_k), k = 1 if the transition is dense. Each rank holds a range of i_1: the emission rows and
messages of these states, and of each factor of the transition

    factor s > 1, which rewrites i_s      the blocks of these i_1; no communication
    factor 1, which rewrites i_1          the columns of these new i_1; messages are gathered before it

All ranks see the same sequences. A whole HMM is the shard of a single rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import EvidenceError, ShapeError
from ..inference.queries.baum_welch import HMMCounts, TransitionFactor, weights_of
from ..layers import Dense, Monarch, Operator
from .distributed import ALONE, Ranks


@dataclass(frozen=True)
class ShardedHMM:
    """The HMM parameters of one rank's hidden states; ``team``: the ranks that share the states (one rank: the whole HMM)."""

    initial: Float[Tensor, " states"]
    weights: tuple[Tensor, ...]
    axes: tuple[int, ...] | None  # the axes of a Monarch transition; None if dense
    emission: Float[Tensor, "states vocab"]
    team: Ranks

    @classmethod
    def of(cls, hmm: HMM) -> ShardedHMM:
        """Return a whole HMM as the shard of a single rank.

        Raises :class:`CircuitError` for a transition that is neither dense nor Monarch.
        """
        weights, axes = weights_of(hmm.transition)
        return cls(hmm.initial_probs, tuple(weights), axes, hmm.emission_probs, ALONE)

    def whole(self) -> HMM:
        """Return the HMM of a single rank."""
        assert self.team.size == 1
        return HMM(self.initial, self.operator, self.emission)

    @property
    def operator(self) -> Operator:
        """The transition of this rank's hidden states."""
        return Dense(self.weights[0]) if self.axes is None else Monarch(self.weights, self.axes)

    @property
    def parameters(self) -> list[Tensor]:
        """This rank's parameters, in the order of :func:`names_and_cuts`."""
        return [self.initial, *self.weights, self.emission]

    def with_parameters(self, tensors: Sequence[Tensor]) -> ShardedHMM:
        """Return a shard with other parameters, in the order of ``parameters``."""
        initial, *weights, emission = tensors
        return ShardedHMM(initial, tuple(weights), self.axes, emission, self.team)

    def map(self, fn: Callable[[Tensor], Tensor]) -> ShardedHMM:
        """Apply ``fn`` to each parameter."""
        return self.with_parameters([fn(tensor) for tensor in self.parameters])

    def factors(self, dtype: torch.dtype) -> list[TransitionFactor]:
        """Return the factors of the transition, in the given dtype."""
        return [
            SplitFactor(w.to(dtype), axis, self.team) if axis == 0 else TransitionFactor(w.to(dtype), axis)
            for w, axis in zip(self.weights, self.axes or (0,), strict=True)
        ]

    def row_sums(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Sum the rows of tensors shaped like the parameters, over all ranks that hold a part of a row; the last axis is kept."""
        sums = [tensor.sum(-1, keepdim=True) for tensor in tensors]
        cuts = names_and_cuts(self.axes).values()
        self.team.sum([s for s, t, cut in zip(sums, tensors, cuts, strict=True) if cut in (-1, t.ndim - 1)])
        return sums

    def normalised(self) -> ShardedHMM:
        """Divide each row by its sum."""
        return self.with_parameters(
            [w / total for w, total in zip(self.parameters, self.row_sums(self.parameters), strict=True)]
        )

    def m_step(self, counts: HMMCounts, pseudocount: float = 0.0) -> ShardedHMM:
        """Normalise counts, which are overwritten, with ``pseudocount`` added where a parameter is not zero; unused rows stay.

        Raises :class:`EvidenceError` if a count is not a finite number.
        """
        given = [counts.initial, *counts.transition, counts.emission]
        for weight, count in zip(self.parameters, given, strict=True):
            count += pseudocount * (weight > 0)
        found = list[Tensor]()
        for name, weight, count, total in zip(
            names_and_cuts(self.axes), self.parameters, given, self.row_sums(given), strict=True
        ):
            if not bool(total.isfinite().all()):
                row = int((~total.isfinite()).flatten().nonzero()[0])
                raise EvidenceError(
                    f"m_step: the counts of {name} row {row} are not finite numbers; find the sequence by expected_counts of "
                    "each alone, and check the parameters of the HMM"
                )
            tiny = torch.finfo(total.dtype).tiny  # smaller sums are not accurate, and count for nothing
            count /= total.clamp(min=tiny)
            found.append(torch.where(total >= tiny, count.to(weight.dtype), weight))
        return self.with_parameters(found)

    def blend(self, new: ShardedHMM, step: float) -> ShardedHMM:
        """Interpolate every parameter: (1 − η) · this + η · ``new``."""
        pairs = zip(self.parameters, new.parameters, strict=True)
        return self.with_parameters([torch.lerp(a, b, step) for a, b in pairs])

    def smooth(self, floor: float, eos_token_id: int) -> ShardedHMM:
        """Mix a share ``floor`` of the uniform distribution into every row that is not deterministic.

        States that do not emit ``eos_token_id`` do not do so afterwards, so that only the end state ends a text.
        """
        allowed = [torch.ones_like(weight) for weight in self.parameters]
        allowed[-1][:, eos_token_id] = (self.emission[:, eos_token_id] > 0).to(allowed[-1].dtype)
        certain = self.row_sums([(weight == 1).to(weight.dtype) for weight in self.parameters])
        return self.with_parameters(
            [
                torch.where(ones > 0, w, (1 - floor) * w + floor * each / total)
                for w, each, total, ones in zip(
                    self.parameters, allowed, self.row_sums(allowed), certain, strict=True
                )
            ]
        )

    def with_end(self, eos_token_id: int) -> ShardedHMM:
        """Make the last state of the last rank the end: absorbing, and the only state to emit ``eos_token_id``.

        Raises :class:`ShapeError` for an HMM of one state, which would be the end of every text.
        """
        if len(self.initial) * self.team.size < 2:
            raise ShapeError(
                "an HMM to distil needs two hidden states or more: one of them is the end of the text"
            )
        initial, *weights, emission = (weight.clone() for weight in self.parameters)
        emission[:, eos_token_id] = 0
        last = self.team.rank == self.team.size - 1
        for weight, axis in zip(weights, self.axes or (0,), strict=True):
            # (i_1, …, i_k) all last: whichever axis the factor rewrites, the new index is the last one too
            if axis == 0 or last:
                weight[(-1,) * (weight.ndim - 1)] = 0
            if last:
                weight[(-1,) * weight.ndim] = 1
        if last:
            emission[-1] = 0
            emission[-1, eos_token_id] = 1
        emission /= emission.sum(1, keepdim=True)
        return self.with_parameters([initial, *weights, emission])

    def has_end(self, eos_token_id: int) -> bool:
        """Return whether the last state is absorbing and emits the end token with certainty."""
        certain = [*(weight[(-1,) * weight.ndim] for weight in self.weights), self.emission[-1, eos_token_id]]
        return self.team.every(all(float(p) == 1 for p in certain))[-1]


def names_and_cuts(axes: Sequence[int] | None) -> dict[str, int]:
    """Return the parameters' names, in order, and for each the dimension along which ranks hold parts of it."""
    factors = {f"transition.{i}": -1 if axis == 0 else 0 for i, axis in enumerate(axes or (0,))}
    return {"initial": 0, **factors, "emission": 0}


def part_size(dims: Sequence[int], team: Ranks) -> tuple[int, int]:
    """Return (values of i_1, hidden states) of each rank. Raises :class:`ShapeError` if they cannot be dealt out evenly."""
    if dims[0] % team.size:
        raise ShapeError(f"{dims[0]} blocks of hidden states cannot be dealt out to {team.size} ranks evenly")
    return dims[0] // team.size, prod(dims) // team.size


class SplitFactor(TransitionFactor):
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
