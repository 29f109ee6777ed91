"""The particles of a run: K sequences with their weights; each is growing, waiting for others, ended or dead."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Generator, Tensor
from torch.nn import functional

from .resampling import Resampling, checked
from .step import Prefixes

FIRST_COLUMNS = 64
"""The tokens for which there is room at first; the room doubles when it is full."""


@dataclass
class Particles:
    """Sequences and weights, on the CPU; columns of ``tokens`` and ``token_…`` beyond a particle's length are zero.

    They have as many columns as the tokens drawn need, not as the budget allows.

    ``log_weight`` is the log of the importance weight, in nats; resampling divides the total weight among the particles it draws.
    ``log_psi`` is log Ψ of the prefix (−∞ for a dead particle). ``token_log_weights`` are the proposal's log-weights as they
    were drawn, ``token_log_probs`` log p_lm. ``state`` is the particle's row of language model, query and potential, ``origin``
    its index when a trace was last recorded. ``lineage`` has a column for each resampling: the index of the particle's ancestor
    before it.
    """

    tokens: Int[Tensor, "particles tokens"]
    token_log_weights: Float[Tensor, "particles tokens"]
    token_log_probs: Float[Tensor, "particles tokens"]
    length: Int[Tensor, " particles"]
    log_weight: Float[Tensor, " particles"]
    log_psi: Float[Tensor, " particles"]
    growing: Bool[Tensor, " particles"]
    waiting: Bool[Tensor, " particles"]
    state: Int[Tensor, " particles"]
    origin: Int[Tensor, " particles"]
    lineage: Int[Tensor, "particles resamplings"]

    @classmethod
    def start(cls, count: int, max_new_tokens: int) -> Particles:
        """Return ``count`` empty prefixes of weight one, all in state 0."""
        table = torch.zeros(count, min(max_new_tokens, FIRST_COLUMNS), dtype=torch.float64)
        return cls(
            tokens=table.long(),
            token_log_weights=table,
            token_log_probs=table.clone(),
            length=torch.zeros(count, dtype=torch.long),
            log_weight=torch.zeros(count, dtype=torch.float64),
            log_psi=torch.zeros(count, dtype=torch.float64),
            growing=torch.ones(count, dtype=torch.bool),
            waiting=torch.zeros(count, dtype=torch.bool),
            state=torch.zeros(count, dtype=torch.long),
            origin=torch.arange(count),
            lineage=torch.zeros(count, 0, dtype=torch.long),
        )

    def joined(self, *others: Particles) -> Particles:
        """Return these particles and others."""
        return self._with(lambda *columns: torch.cat(columns), *others)

    def _with(self, make: Callable[..., Tensor], *others: Particles) -> Particles:
        """Return the particles whose columns ``make`` gives of the columns of these and of others."""
        every = (self, *others)
        columns = max(one.tokens.shape[1] for one in every)
        for one in every:
            one.widen(columns)
        return Particles(*map(make, *(vars(one).values() for one in every)))

    def __len__(self) -> int:
        return self.length.shape[0]

    @property
    def moving(self) -> Int[ndarray, " some"]:
        """The indices of the particles about to be extended: growing and not waiting."""
        return np.flatnonzero(self.growing.numpy() & ~self.waiting.numpy())

    @property
    def log_prob(self) -> Float[Tensor, " particles"]:
        """log p_lm of each sequence so far, in nats."""
        return self.token_log_probs.sum(1)

    @property
    def log_target(self) -> Float[Tensor, " particles"]:
        """log p_lm + log Ψ of each sequence so far, in nats."""
        return self.log_prob + self.log_psi

    def log_value(self, start: Int[Tensor, " particles"]) -> Float[Tensor, " particles"]:
        """Return log Ψ plus the log-weights of the tokens from ``start`` on; −∞ for a dead particle."""
        suffix = torch.arange(self.tokens.shape[1]) >= start[:, None]
        return self.log_psi + self.token_log_weights.masked_fill(~suffix, 0.0).sum(1)

    def token_ids(self, row: int) -> tuple[int, ...]:
        """Return the token ids of one particle, without padding."""
        return tuple(self.tokens[row, : int(self.length[row])].tolist())

    def prefixes(self, rows: Int[ndarray, " rows"]) -> Prefixes:
        """Return the tokens of some particles: a table if they are equally long, else a list."""
        lengths = self.length.numpy()[rows].tolist()
        if len(set(lengths)) == 1:
            return torch.from_numpy(self.tokens.numpy()[rows, : lengths[0]])
        return [self.tokens[row, :n] for row, n in zip(rows.tolist(), lengths, strict=True)]

    def append(
        self, rows: Int[ndarray, " rows"], tokens: Int[Tensor, " rows"], log_prob: Float[Tensor, " rows"]
    ) -> None:
        """Append one token with its log p_lm to each row."""
        length = self.length.numpy()
        place = length[rows]
        if (width := self.tokens.shape[1]) <= (last := max(place.tolist(), default=-1)):
            self.widen(max(2 * width, last + 1))
        self.tokens.numpy()[rows, place] = tokens.numpy()
        self.token_log_probs.numpy()[rows, place] = log_prob.numpy()
        length[rows] = place + 1

    def widen(self, columns: int) -> None:
        """Pad the arrays of tokens to at least ``columns`` columns."""
        if (more := columns - self.tokens.shape[1]) > 0:
            for name in ("tokens", "token_log_weights", "token_log_probs"):
                setattr(self, name, functional.pad(getattr(self, name), (0, more)))

    def take(self, index: Int[Tensor, " some"]) -> Particles:
        """Return copies of some particles, with their weights."""
        return self._with(lambda column: column[index])

    def descendants(self, scheme: Resampling, count: int, generator: Generator) -> Particles:
        """Resample to about ``count`` particles, whose total weight is that of these in expectation."""
        total = self.log_weight.logsumexp(0)
        given = self.log_weight.softmax(0)
        ancestors, weights = checked(scheme(given, generator, count), given, count, scheme)
        chosen = self.take(ancestors)
        equal = chosen.log_weight.new_full((len(chosen),), -math.log(count))
        chosen.log_weight = total + (equal if weights is None else weights.log())
        return chosen

    def where(self, chosen: Bool[Tensor, " particles"], others: Particles) -> Particles:
        """Return the particles of ``others`` where ``chosen`` is true, these elsewhere."""

        def mixed(a: Tensor, b: Tensor) -> Tensor:
            return torch.where(chosen if a.ndim == 1 else chosen[:, None], b, a)

        return self._with(mixed, others)

    def put(self, where: Int[Tensor, " some"], others: Particles) -> Particles:
        """Return the particles with ``others`` at ``where``; if these are more or fewer, they are appended to the rest."""
        if len(where) == len(others):
            return self._with(lambda a, b: a.index_copy(0, where, b), others)
        rest = torch.ones(len(self), dtype=torch.bool).index_fill_(0, where, False).nonzero()[:, 0]
        return self.take(rest).joined(others)

    def merge(self) -> tuple[Int[Tensor, " states"], Int[Tensor, " states"]]:
        """Number the distinct growing prefixes as new states; return the former state and last token (−1: waits) of each."""
        growing, state = self.growing.numpy().nonzero()[0], self.state.numpy()
        token = self.tokens.numpy()[growing, self.length.numpy()[growing] - 1]
        token[self.waiting.numpy()[growing]] = -1
        number: dict[tuple[int, int], int] = {}
        pairs = zip(state[growing].tolist(), token.tolist(), strict=True)
        state[growing] = [number.setdefault(pair, len(number)) for pair in pairs]
        former, last = torch.tensor(list(zip(*number, strict=True)))
        return former, last

    def split(self, factor: int) -> Particles:
        """Return ``factor`` copies of each growing particle, which share its weight, and the others as they are."""
        copies = torch.where(self.growing, factor, 1)
        split = self.take(torch.arange(len(self)).repeat_interleave(copies))
        split.log_weight -= copies.repeat_interleave(copies).double().log()
        return split
