"""The particles of a run: K sequences, finished, dead or growing, with their weights."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass
class Particles:
    """On the CPU. ``log_psi`` is log Ψ of each prefix; ``state`` its row of language model, query and potentials."""

    tokens: Int[Tensor, "particles tokens"]
    length: Int[Tensor, " particles"]
    log_weight: Float[Tensor, " particles"]
    log_psi: Float[Tensor, " particles"]
    log_prob: Float[Tensor, " particles"]
    growing: Bool[Tensor, " particles"]
    state: Int[Tensor, " particles"]

    @classmethod
    def start(cls, count: int, max_new_tokens: int) -> Particles:
        """``count`` empty prefixes of weight one, all in state 0."""

        def zeros(dtype: torch.dtype) -> Tensor:
            return torch.zeros(count, dtype=dtype)

        return cls(
            torch.zeros(count, max_new_tokens, dtype=torch.long),
            zeros(torch.long),
            zeros(torch.float64),
            zeros(torch.float64),
            zeros(torch.float64),
            torch.ones(count, dtype=torch.bool),
            zeros(torch.long),
        )

    def __len__(self) -> int:
        return len(self.length)

    def take(self, index: Int[Tensor, " some"]) -> Particles:
        """Copies of some of them, weights too."""
        return Particles(*(getattr(self, field.name)[index] for field in fields(self)))

    def split(self, factor: int) -> Particles:
        """Each growing particle as ``factor`` copies of a share of its weight."""
        copies = torch.where(self.growing, factor, 1)
        split = self.take(torch.arange(len(self)).repeat_interleave(copies))
        split.log_weight -= copies.repeat_interleave(copies).double().log()
        return split
