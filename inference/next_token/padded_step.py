"""Messages of the next-token query on an HMM × a deterministic automaton in tensors of fixed shapes, for accelerators.

Each row is in one state of the automaton. The state's edges are padded to fixed numbers: W wide edges (with many tokens), whose
messages are multiplied with the whole table, each token then taking the score of its own edge; and N tokens of narrow edges,
whose columns are gathered. No step waits for the accelerator. Equal, by test, to
:class:`~.product_step.ProductMessages`, which do less arithmetic but read sizes back from the device.

A scale is NaN where an entry was lost to underflow, as in :class:`~tractile.inference.semirings.scaled_real.Real`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import Any, NamedTuple, Self, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ...errors import CircuitError
from ..engine.contract import apply
from ..semirings.linear import LinearSemiring
from ..semirings.scaled_real import Real
from .dfa_tables import PaddedCSR, PaddedEdges
from .product_step import Scores
from .product_tables import ProductTables
from .row_query import Messages
from .token_scores import LOG2, TableScores

CHUNK_ELEMENTS = 1 << 27  # numbers gathered at once


@cache
def recording_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which steps are recorded.

    Matrix products recorded on one stream share a workspace, so graphs that run at the same time need different ones; those of
    language models are recorded on torch's default stream for recording.
    """
    return torch.cuda.Stream(device)


class PaddedRows(NamedTuple):
    """The rows: automaton state (num_states: none), tokens left, α with maximum one, and the log of its scale (nats)."""

    state: Int[Tensor, " batch"]
    left: Int[Tensor, " batch"]
    alpha: Float[Tensor, "batch hidden"]
    scale: Float[Tensor, " batch"]

    def select(self, rows: Int[Tensor, " rows"]) -> PaddedRows:
        """Return the rows ``rows``."""
        return PaddedRows(*(x.index_select(0, rows) for x in self))


@final
class Plain(LinearSemiring):
    """Ordinary sums and products, without scales."""

    def _lift(self, weight: Tensor) -> Tensor:
        return weight


@final
class PaddedMessages(Messages):
    """Messages of fixed shapes, with the methods of :class:`~.product_step.ProductMessages`.

    Nothing is read from the device; ``outside`` says there whether a token was outside the vocabulary. Raises
    :class:`CircuitError` for an automaton that is not deterministic or a chain that is no HMM.
    """

    _rows: PaddedRows

    def __init__(self, tables: ProductTables) -> None:
        if not tables.deterministic:
            raise CircuitError("pgcd: steps of fixed shapes need a deterministic automaton; determinise it")
        if not isinstance(tables.tokens, TableScores) or not isinstance(tables.semiring, Real):
            raise CircuitError("pgcd: steps of fixed shapes need an HMM: one table of emissions")
        self._tables, self._table, self.vocab_size = tables, tables.tokens.table, tables.automaton.vocab_size
        self._chain, self._semiring = tables.chain, tables.semiring
        self.edges = PaddedEdges(tables.automaton, tables.labels, tables.device)
        columns, exponents = tables.backward.table()
        self._ahead, self._ahead_scale = columns.flatten(0, 1), (exponents * LOG2).flatten()
        self._alive = tables.backward.alive.flatten()
        self._states = tables.automaton.num_states
        accept = tables.automaton.final[0].to(tables.device, torch.float64)
        self._accept = torch.cat([accept, accept.new_zeros(1)])
        self._final = self._chain.unit_final[0].to(tables.device, self._chain.initial[0].dtype)
        self._move = self._chain.right.T.map(torch.Tensor.double)
        self._plain = Plain()
        self._smallest = self._table.smallest  # read once, so that no step waits for it
        self._graph: Any = None  # a CUDA graph, its inputs (tokens, moving) and its output (scores)
        self._replay: Scores | None = None
        self.outside = torch.zeros((), dtype=torch.bool, device=tables.device)

    @property
    def nbytes(self) -> int:
        """The size of the messages in bytes."""
        return int(self._rows.alpha.nbytes)

    def snapshot(self) -> Self | None:
        return None if self._graph is not None else self.fork()

    def fork(self) -> Self:
        out = copy(self)  # a recorded graph stays with the original
        out.outside = self.outside.clone()
        if self._graph is not None:
            out._graph = out._replay = None
            out._rows = PaddedRows(*(x.clone() for x in self._rows))
        return out

    # ------------------------------------------------------------ rows

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        tables, batch = self._tables, len(budgets)
        alpha = self._chain.initial[0].double().repeat(batch, 1)
        state = torch.full((batch,), tables.automaton.start_states[0], device=tables.device)
        self._graph = self._replay = None
        self._rows = PaddedRows(state, budgets.to(tables.device), *scaled(alpha, alpha.new_zeros(batch)))
        self.outside = torch.zeros((), dtype=torch.bool, device=tables.device)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        if self._graph is None:
            self._rows = self.moved(self._rows, tokens, moving)
            return
        graph, given, also, self._replay = self._graph
        given.copy_(tokens)
        also.copy_(moving)
        graph.replay()

    def moved(
        self, now: PaddedRows, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]
    ) -> PaddedRows:
        """Return the rows after a token is appended where ``moving`` is True."""
        tokens = torch.where(moving, tokens, 0)
        outside = (tokens < 0) | (tokens >= self.vocab_size)
        self.outside.logical_or_(outside.any())
        tokens, moving = tokens.clamp(0, self.vocab_size - 1), moving & (now.left > 0)
        emission = self._chain.inputs.parameters()[0].index_select(1, tokens).T.double()
        emitted = now.alpha * emission
        lost = self._flushed(emitted, (now.alpha > 0) & (emission > 0))
        alpha, scale = scaled(emitted, now.scale + lost)
        after = self._transition(alpha)
        lost = self._flushed(after, self._transition((alpha > 0).to(alpha)) > 0)
        alpha, scale = scaled(after, scale + lost)
        state = torch.where(moving, self.edges.step(now.state, tokens), now.state)
        return PaddedRows(
            state,
            now.left - moving.long(),
            torch.where(moving[:, None], alpha, now.alpha),
            torch.where(moving, scale, now.scale),
        )

    def _transition(self, alpha: Float[Tensor, "batch hidden"]) -> Float[Tensor, "batch hidden"]:
        """Compute Rᵀ α in float64."""
        found: Tensor = apply(self._plain, self._move, alpha.T)
        return found.T

    def _flushed(
        self, found: Float[Tensor, "rows some"], truth: Bool[Tensor, "rows some"]
    ) -> Float[Tensor, " rows"]:
        """Return NaN for rows with an entry that is positive in truth and too small to be right, else 0."""
        least = self._semiring.least(found.dtype)
        lost = ((found < least) & truth).any(1)
        return torch.where(lost, torch.nan, 0.0).double()

    def select(self, indices: Tensor | Sequence[int]) -> None:
        self._put(self._rows.select(torch.as_tensor(indices).to(self._tables.device)))

    def _put(self, rows: PaddedRows) -> None:
        if self._graph is None:
            self._rows = rows
            return
        for mine, new in zip(self._rows, rows, strict=True):
            mine.copy_(new)
        self._replay = None

    def capture(self) -> None:
        """Record a step as a CUDA graph: until rows begin again, ``advance_some`` replays it, for a batch of this size."""
        now = PaddedRows(*(x.clone() for x in self._rows))
        given, moving = torch.zeros_like(now.state), torch.ones_like(now.state, dtype=torch.bool)
        aside = recording_stream(now.state.device)
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # warm up: lazily made tensors must not be part of the graph
                self.scored(self.moved(now, given, moving))
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=aside):
            for mine, new in zip(now, self.moved(now, given, moving), strict=True):
                mine.copy_(new)
            scores = self.scored(now)
        self._rows, self._graph = now, (graph, given, moving, scores)

    # ------------------------------------------------------------ scores

    def scores(self) -> Scores:
        return self._replay or self.scored(self._rows)

    def scored(self, now: PaddedRows) -> Scores:
        """Score all tokens; a scale is NaN where a score was lost."""
        batch, dtype = len(now.alpha), self._table.dtype
        entry, there, ahead, ahead_scale = self._edges_of(self.edges.wide, now)
        values, shift = scaled(
            (now.alpha[:, None] * ahead.double()).flatten(0, 1), (now.scale[:, None] + ahead_scale).flatten()
        )
        alone, alone_scale = scaled(now.alpha * self._final, now.scale)
        wide = torch.cat([alone, values])
        rows = wide.to(torch.promote_types(dtype, torch.float32))
        unsure = ~self._sure(wide, rows.dtype)
        found = self._table.products(rows)
        prior = found[:batch].to(rows.dtype)
        emitted, least = self._table.log_top.isfinite(), self._semiring.least(rows.dtype)
        lost = ((prior < least) & emitted & unsure[:batch, None]).any(1)
        shift = shift.view(entry.shape).masked_fill(~there, -torch.inf)
        token, gathered, uncertain = self._gathered(now)
        top = torch.maximum(shift.amax(1), gathered.amax(1))
        base = torch.where(top.isneginf(), 0, top)[:, None]
        # A token is on at most one edge of a state: it is scored by the message of that edge alone.
        place, most = self.edges.wide_edge(now.state), entry.shape[1]
        out = found[batch:].view(*entry.shape, self.vocab_size)
        out = out.gather(1, place.clamp(max=most - 1)[:, None]).squeeze(1).to(rows.dtype)
        none = (0, 1)  # a place more, for tokens on no wide edge
        unsure = pad(there & unsure[batch:].view(entry.shape), none).gather(1, place)
        lost = lost | ((out < least) & emitted & unsure).any(1) | uncertain
        out = out.log_().add_(pad((shift - base).to(out.dtype), none, value=-torch.inf).gather(1, place))
        out = out.scatter_reduce(1, token, (gathered - base).to(out.dtype), "amax")
        marks = torch.where(lost, torch.nan, 0.0)
        return Scores(out, base[:, 0] + marks, prior.log(), alone_scale)

    def _sure(self, rows: Float[Tensor, "rows hidden"], dtype: torch.dtype) -> Bool[Tensor, " rows"]:
        """Tell for which messages every positive product with the table is large enough to be right in a precision."""
        small = rows.masked_fill(rows <= 0, torch.inf).amin(1)
        return torch.ge(small * self._smallest, self._semiring.least(dtype))

    def _edges_of(self, edges: PaddedCSR, now: PaddedRows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return for each row its padded entries, which of them can be taken, and the messages of their targets with scales."""
        entry, there = edges.of(now.state)
        after = self._tables.backward.lengths(now.left)[:, None].expand(entry.shape)
        edge = edges.edge.take(entry)
        at = (after * self._states + self._tables.target.take(edge)).flatten()
        columns, scale = (
            x.index_select(0, at).view(*entry.shape, *x.shape[1:]) for x in (self._ahead, self._ahead_scale)
        )
        there = there & (now.left > 0)[:, None] & self._alive.take(at).view(entry.shape)
        return entry, there, columns, scale

    def _gathered(self, now: PaddedRows) -> tuple[Tensor, Tensor, Bool[Tensor, " batch"]]:
        """Return the tokens of narrow edges in each row, their log-scores (nats), and which rows may have lost one of them."""
        width, parts = max(1, CHUNK_ELEMENTS // (self.edges.narrow.most * now.alpha.shape[1])), []
        for b in range(0, max(1, len(now.state)), width):
            rows = PaddedRows(*(x[b : b + width] for x in now))
            entry, there, ahead, scale = self._edges_of(self.edges.narrow, rows)
            token = self.edges.narrow.token.take(entry)
            emitted = self._table.columns(token.flatten()).view(ahead.shape).double()
            weighted = rows.alpha[:, None] * ahead.double()
            found = torch.einsum("bnh,bnh->bn", weighted, emitted)
            small = weighted.masked_fill(weighted <= 0, torch.inf).amin(2) * self._smallest
            least = self._semiring.least(found.dtype)
            uncertain = ((found < least) & there & (small < least)).any(1)
            value = (found.log() + rows.scale[:, None] + scale).masked_fill(~there, -torch.inf)
            parts.append((token, value, uncertain))
        token, value, uncertain = (torch.cat(x) for x in zip(*parts, strict=True))
        return token, value, uncertain

    # ------------------------------------------------------------ totals of the prefix

    def log_prior(self) -> Float[Tensor, " batch"]:
        """Return the log of the chain's own total of the prefix (nats)."""
        return (self._rows.alpha * self._chain.final[0]).sum(1).log() + self._rows.scale

    def log_ended(self) -> Float[Tensor, " batch"]:
        """Return the log of the product's total of the prefix as a complete sequence (nats)."""
        return self._accept.index_select(0, self._rows.state).log() + self.log_prior()


def scaled(rows: Float[Tensor, "rows some"], scale: Float[Tensor, " rows"]) -> tuple[Tensor, Tensor]:
    """Scale rows to maximum one; return them and the logarithms (nats) of their scales, −∞ for a row of zeros."""
    top = rows.amax(1)
    return rows / torch.where(top > 0, top, 1)[:, None], scale + top.double().log()
