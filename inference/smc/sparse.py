"""Steps restricted to the allowed tokens: the tables of all states concatenated in one flat array.

A constraint often allows few tokens of a large vocabulary, and many particles share a state. So on the CPU, a proposal whose
belief is computed token by token (``elementwise``) is evaluated once per state, on the allowed tokens only, and each row draws
from the segment of its state; steps of several runs draw together. Equal, by test, to drawing from the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Generator, Tensor

from .step import Step

MOST = 0.5  # the largest allowed share of a large table: beyond, reading the whole table is faster
SMALL = 1 << 16  # allowed entries up to which a table is no large one


@final
class SparseStep(Step):
    """A step with flat tables: entries for the allowed tokens of state 0, then of state 1, and so on.

    ``places`` are the entries' places in the table read row by row, ``bounds`` the first entry of each state, and their number.
    """

    def __init__(self, step: Step, places: Int[ndarray, " allowed"], bounds: Int[ndarray, " bounds"]) -> None:
        super().__init__(step.table, step.query, step.prefixes, step.rows, decode=step.decode)
        self.places, self.start, self.counts = places, bounds[:-1], bounds[1:] - bounds[:-1]

    @cached_property
    def mask(self) -> Bool[Tensor, ""]:
        return torch.tensor(True)

    def allowed_only(self, belief: Float[Tensor, " allowed"]) -> Float[Tensor, " allowed"]:
        return belief

    def _of_rows(self, table: Tensor) -> Float[Tensor, " allowed"]:
        return torch.from_numpy(table.detach().numpy().reshape(-1).take(self.places))

    def _token(self, column: int) -> int:
        return int(self.places[column]) % self.table.shape[1]


def sparse_step(step: Step) -> SparseStep | None:
    """Return the step restricted to the allowed tokens, or None if that is impossible or would not be faster.

    None if the tables are not float32 or float64 on the CPU, if there is no automaton, if a state allows no token, or if more
    than :data:`MOST` of a large table is allowed.
    """
    states, vocab = step.table.shape
    readable = step.table.device.type == "cpu" and step.table.dtype in (torch.float32, torch.float64)
    if not readable or step.query.automaton is None:
        return None
    allowed = np.unpackbits(step.words.view(np.uint8), axis=1, count=vocab, bitorder="little").view(np.bool_)
    if np.count_nonzero(allowed) > max(MOST * states * vocab, SMALL):
        return None
    places = np.flatnonzero(allowed)
    bounds = places.searchsorted(np.arange(states + 1) * vocab)
    found = SparseStep(step, places, bounds)
    return found if found.counts.all() else None


def draw_sparse(
    steps: Sequence[SparseStep], beliefs: Sequence[Float[Tensor, " allowed"]], generators: Sequence[Generator]
) -> list[tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]]:
    """Draw a token for each row of each step with probability q ∝ exp(belief).

    Return the tokens of each step and log p_lm − log q in nats. A step draws what it would draw alone.
    """
    columns, first, states, rows = list[tuple[ndarray, ...]](), [0], [0], [0]  # where each step begins
    for step, belief, one in zip(steps, beliefs, generators, strict=True):
        uniform = torch.rand(len(step.rows), dtype=torch.float64, generator=one).numpy()
        start, state = step.start + first[-1], step.rows.numpy() + states[-1]
        columns.append(
            (belief.numpy(), step.log_probs.numpy(), step.places, step.counts, start, state, uniform)
        )
        first.append(first[-1] + len(belief))
        states.append(states[-1] + len(start))
        rows.append(rows[-1] + len(state))
    joined = columns[0] if len(columns) == 1 else map(np.concatenate, zip(*columns, strict=True))
    log_weight, log_p, places, counts, start, state, uniform = joined
    # The bound keeps `top` finite in states without any mass.
    top = np.maximum(np.maximum.reduceat(log_weight, start), np.finfo(log_weight.dtype).min)
    weight = np.exp(log_weight - np.repeat(top, counts))
    cumulative = np.empty(len(weight))
    for a, b in pairwise(first):  # the sums of a step are those that it has alone
        weight[a:b].cumsum(dtype=np.float64, out=cumulative[a:b])
    high = cumulative[start + counts - 1]
    low = np.concatenate([[0.0], high[:-1]])
    for n in states[1:-1]:
        low[n] = 0.0
    low, high = low[state], high[state]
    # Stay within the state's segment despite rounding.
    point = np.minimum(low + uniform * (high - low), np.nextafter(high, low))
    place = np.empty(len(point), dtype=np.intp)
    for (a, b), (i, j) in zip(pairwise(first), pairwise(rows), strict=True):
        place[i:j] = np.minimum(cumulative[a:b].searchsorted(point[i:j], "right") + a, b - 1)
    log_p = log_p[place].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):  # states without mass, which are dead
        total = np.log(np.add.reduceat(weight, start, dtype=np.float64)[state])
        log_q = log_weight[place] - top[state] - total
        ratio = np.where((total == -np.inf) | (log_p == -np.inf), -np.inf, log_p - log_q)
    tokens = places[place] % steps[0].table.shape[1]
    return [(torch.from_numpy(tokens[i:j]), torch.from_numpy(ratio[i:j])) for i, j in pairwise(rows)]
