"""Steps restricted to the allowed tokens: the tables of all states concatenated in one flat array.

A constraint often allows few tokens of a large vocabulary, and many particles share a state. So on the CPU, a proposal whose
belief is computed token by token (``elementwise``) is evaluated once per state, on the allowed tokens only, and each row draws
from the segment of its state. Equal, by test, to drawing from the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Generator, Tensor

from .step import Step, check_support

MOST = 0.5  # the largest allowed share of a table: beyond, reading the whole table is faster
CACHE_SIZE = 1 << 10  # masks of an automaton whose lists of allowed tokens are cached


@final
class SparseStep(Step):
    """A step with flat tables: entries for the tokens ``allowed[0]`` of state 0, then ``allowed[1]`` of state 1, and so on."""

    def __init__(self, step: Step, allowed: Sequence[Int[ndarray, " some"]]) -> None:
        self._table, self._query, self.rows, self._step = step.table, step.query, step.rows, step
        self.tokens, self._counts = np.concatenate(allowed), np.array([len(tokens) for tokens in allowed])
        self._start = self._counts.cumsum() - self._counts
        self._place = np.repeat(np.arange(len(allowed)) * step.table.shape[1], self._counts) + self.tokens

    @cached_property
    def log_probs(self) -> Float[Tensor, " allowed"]:
        return self._of_allowed(self._table)

    @cached_property
    def mask(self) -> Bool[Tensor, ""]:
        return torch.tensor(True)

    def allowed_only(self, belief: Float[Tensor, " allowed"]) -> Float[Tensor, " allowed"]:
        return belief

    @cached_property
    def lookahead(self) -> Float[Tensor, " allowed"]:
        return self._supported(self._query.lookahead())

    @cached_property
    def conditional(self) -> Float[Tensor, " allowed"]:
        return self._supported(self._query.scores())

    def _supported(self, belief: Tensor) -> Tensor:
        chosen = self._of_allowed(belief)
        lost = (chosen.isneginf() & ~self.log_probs.isneginf()).nonzero()[:, 0]
        check_support(self.tokens[lost.numpy()])
        return chosen

    def _of_allowed(self, table: Tensor) -> Float[Tensor, " allowed"]:
        return torch.from_numpy(table.detach().numpy().reshape(-1).take(self._place))

    def draw(
        self, belief: Float[Tensor, " allowed"], generator: Generator
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Draw a token for each row with probability q ∝ exp(belief); return the tokens and log p_lm − log q in nats."""
        log_weight = belief.numpy()
        top = np.maximum.reduceat(log_weight, self._start)
        top[np.isneginf(top)] = 0.0
        weight = np.exp(log_weight - np.repeat(top, self._counts))
        cumulative = torch.from_numpy(weight).cumsum(0, dtype=torch.float64).numpy()
        total = np.add.reduceat(weight, self._start, dtype=np.float64)
        end = cumulative[self._start + self._counts - 1]
        state = self.rows.numpy()
        low, high = np.concatenate([[0.0], end[:-1]])[state], end[state]
        uniform = torch.rand(len(state), 1, dtype=torch.float64, generator=generator).numpy()[:, 0]
        # Stay within the state's segment despite rounding; a state without mass gives weight zero below.
        point = np.minimum(low + uniform * (high - low), np.nextafter(high, low))
        place = np.minimum(np.searchsorted(cumulative, point, "right"), len(weight) - 1)
        log_p = self.log_probs.numpy()[place].astype(np.float64)
        dead = np.isneginf(log_p) | (total[state] == 0)
        log_q = (
            np.where(dead, 0.0, log_weight[place]) - top[state] - np.log(np.where(dead, 1.0, total[state]))
        )
        return torch.from_numpy(self.tokens[place]), torch.from_numpy(np.where(dead, -np.inf, log_p - log_q))


def sparse_step(step: Step) -> SparseStep | None:
    """Return the step restricted to the allowed tokens, or None if that is impossible or would not be faster.

    None if the tables are not float32 or float64 on the CPU, if there is no automaton, if a state allows no token, or if more
    than :data:`MOST` of the table is allowed.
    """
    states, vocab = step.table.shape
    readable = step.table.device.type == "cpu" and step.table.dtype in (torch.float32, torch.float64)
    if not readable or step.query.automaton is None:
        return None
    kept: dict[bytes, Int[ndarray, " allowed"]] = step.query.automaton.kept.setdefault("allowed", {})
    allowed = []
    for words in step.query.words():
        key = words.tobytes()
        tokens = kept.get(key)
        if tokens is None:
            if len(kept) >= CACHE_SIZE:
                kept.clear()
            tokens = kept[key] = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        allowed.append(tokens)
    if not all(map(len, allowed)) or sum(map(len, allowed)) > MOST * states * vocab:
        return None
    return SparseStep(step, allowed)
