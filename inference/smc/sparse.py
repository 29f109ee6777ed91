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

from .step import Step

MOST = 0.5  # the largest allowed share of a large table: beyond, reading the whole table is faster
SMALL = 1 << 16  # allowed entries up to which a table is no large one
CACHE_SIZE = 1 << 10  # masks of an automaton whose lists of allowed tokens are cached


@final
class SparseStep(Step):
    """A step with flat tables: entries for the tokens ``allowed[0]`` of state 0, then ``allowed[1]`` of state 1, and so on."""

    def __init__(self, step: Step, allowed: Sequence[Int[ndarray, " some"]]) -> None:
        super().__init__(step.table, step.query, step.prefixes, step.rows, decode=step.decode)
        self.tokens, self._counts = np.concatenate(allowed), np.array([len(tokens) for tokens in allowed])
        self._start = self._counts.cumsum() - self._counts
        vocab = step.table.shape[1]
        self._place = np.concatenate([tokens + i * vocab for i, tokens in enumerate(allowed)])

    @cached_property
    def mask(self) -> Bool[Tensor, ""]:
        return torch.tensor(True)

    def allowed_only(self, belief: Float[Tensor, " allowed"]) -> Float[Tensor, " allowed"]:
        return belief

    def _of_rows(self, table: Tensor) -> Float[Tensor, " allowed"]:
        return torch.from_numpy(table.detach().numpy().reshape(-1).take(self._place))

    def _token(self, column: int) -> int:
        return int(self.tokens[column])

    def draw(
        self, belief: Float[Tensor, " allowed"], generator: Generator
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Draw a token for each row with probability q ∝ exp(belief); return the tokens and log p_lm − log q in nats."""
        log_weight, state = belief.numpy(), self.rows.numpy()
        # The bound keeps `top` finite in states without any mass.
        top = np.maximum(np.maximum.reduceat(log_weight, self._start), np.finfo(log_weight.dtype).min)
        weight = np.exp(log_weight - np.repeat(top, self._counts))
        cumulative = torch.from_numpy(weight).cumsum(0, dtype=torch.float64).numpy()
        end = cumulative[self._start + self._counts - 1]
        low, high = np.concatenate([[0.0], end[:-1]])[state], end[state]
        uniform = torch.rand(len(state), 1, dtype=torch.float64, generator=generator).numpy()[:, 0]
        # Stay within the state's segment despite rounding.
        point = np.minimum(low + uniform * (high - low), np.nextafter(high, low))
        place = np.minimum(np.searchsorted(cumulative, point, "right"), len(weight) - 1)
        log_p = self.log_probs.numpy()[place].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):  # states without mass, which are dead
            total = np.log(np.add.reduceat(weight, self._start, dtype=np.float64)[state])
            log_q = log_weight[place] - top[state] - total
            ratio = np.where((total == -np.inf) | (log_p == -np.inf), -np.inf, log_p - log_q)
        return torch.from_numpy(self.tokens[place]), torch.from_numpy(ratio)


def sparse_step(step: Step) -> SparseStep | None:
    """Return the step restricted to the allowed tokens, or None if that is impossible or would not be faster.

    None if the tables are not float32 or float64 on the CPU, if there is no automaton, if a state allows no token, or if more
    than :data:`MOST` of a large table is allowed.
    """
    states, vocab = step.table.shape
    readable = step.table.device.type == "cpu" and step.table.dtype in (torch.float32, torch.float64)
    if not readable or step.query.automaton is None:
        return None
    kept: dict[bytes, Int[ndarray, " allowed"]] = step.query.automaton.cache.setdefault("allowed", {})
    allowed = []
    for words in step.words:
        key = words.tobytes()
        tokens = kept.get(key)
        if tokens is None:
            if len(kept) >= CACHE_SIZE:
                kept.clear()
            tokens = kept[key] = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        allowed.append(tokens)
    if not all(map(len, allowed)) or sum(map(len, allowed)) > max(MOST * states * vocab, SMALL):
        return None
    return SparseStep(step, allowed)
