"""The particles of a run: K sequences, finished, dead or growing, with their weights; growing ones may wait for others."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from .step import Prefixes


@dataclass
class Particles:
    """On the CPU. ``log_psi`` is log Ψ of each prefix; ``state`` its row of language model, query and potentials; ``origin``
    the particle that it was when a trace last looked."""

    tokens: Int[Tensor, "particles tokens"]
    length: Int[Tensor, " particles"]
    log_weight: Float[Tensor, " particles"]
    log_psi: Float[Tensor, " particles"]
    log_prob: Float[Tensor, " particles"]
    growing: Bool[Tensor, " particles"]
    waiting: Bool[Tensor, " particles"]
    state: Int[Tensor, " particles"]
    origin: Int[Tensor, " particles"]

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
            zeros(torch.bool),
            zeros(torch.long),
            torch.arange(count),
        )

    def __len__(self) -> int:
        return len(self.length)

    @property
    def moving(self) -> Bool[Tensor, " particles"]:
        """Those about to be extended."""
        return self.growing & ~self.waiting

    def prefixes(self, rows: Int[Tensor, " rows"]) -> Prefixes:
        """Their tokens so far."""
        lengths = self.length[rows].tolist()
        if len(set(lengths)) == 1:
            return self.tokens[rows, : lengths[0]]
        return [self.tokens[row, :n] for row, n in zip(rows.tolist(), lengths, strict=True)]

    def append(
        self, rows: Int[Tensor, " rows"], tokens: Int[Tensor, " rows"], log_prob: Float[Tensor, " rows"]
    ) -> None:
        """One token more for each row, of that log-probability."""
        self.tokens[rows, self.length[rows]] = tokens
        self.length[rows] += 1
        self.log_prob[rows] += log_prob

    def take(self, index: Int[Tensor, " some"]) -> Particles:
        """Copies of some of them, weights too."""
        return Particles(*(getattr(self, field.name)[index] for field in fields(self)))

    def put(self, where: Int[Tensor, " some"], others: Particles) -> Particles:
        """These with ``others`` in the place of some of them (behind the rest, if it is not one for one)."""
        if len(where) == len(others):
            for field in fields(self):
                getattr(self, field.name)[where] = getattr(others, field.name)
            return self
        rest = torch.ones(len(self), dtype=torch.bool).index_fill_(0, where, False).nonzero()[:, 0]
        both = zip(*(vars(part).values() for part in (self.take(rest), others)), strict=True)
        return Particles(*(torch.cat(pair) for pair in both))

    def merge(self, vocab_size: int) -> tuple[Int[Tensor, " states"], Int[Tensor, " states"]]:
        """New states, one for each different prefix that grows: the former state and the last token of each (−1: it waits)."""
        growing = self.growing.nonzero()[:, 0]
        token = self.tokens[growing, self.length[growing] - 1].masked_fill(self.waiting[growing], -1)
        pair = self.state[growing] * (vocab_size + 1) + token + 1
        distinct, self.state[growing] = pair.unique(return_inverse=True)
        return distinct // (vocab_size + 1), distinct % (vocab_size + 1) - 1

    def split(self, factor: int) -> Particles:
        """Each growing particle as ``factor`` copies of a share of its weight."""
        copies = torch.where(self.growing, factor, 1)
        split = self.take(torch.arange(len(self)).repeat_interleave(copies))
        split.log_weight -= copies.repeat_interleave(copies).double().log()
        return split
