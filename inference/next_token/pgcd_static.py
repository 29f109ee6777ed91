"""Steps of P-GCD on a deterministic automaton in tensors of fixed shapes, so that no step waits for the accelerator.

Each row is in one state. The state's edges are padded to fixed numbers: W wide edges (with many tokens), which are scored for
every token, and N tokens of narrow edges, whose emission columns are gathered. A deterministic automaton has one path for a
prefix, so α is the HMM's own message. Equal, by test, to :class:`~tractile.inference.next_token.pgcd_steps.SparseSteps`, which
do less arithmetic but read sizes back from the device.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from math import log
from typing import Any, NamedTuple, Self, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from ...errors import CircuitError, VocabularyMismatch
from .backward_table import BackwardMessage
from .dfa_tables import PaddedCSR, Tables
from .emission_table import Scores
from .gcd import GCDQuery
from .pgcd_steps import Messages, ProductTables, SparseState, zeros_are_exact
from .rows import Copied
from .underflow import Belief, Transition, doubt_of_product, least, normalised, smallest_weight

CHUNK_ELEMENTS = 1 << 27  # numbers gathered at once


@cache
def recording_stream(device: torch.device) -> torch.cuda.Stream:
    """Return the stream on which steps are recorded.

    Matrix products recorded on one stream share a workspace, so graphs that run at the same time need different ones; those of
    language models are recorded on torch's default stream for recording.
    """
    return torch.cuda.Stream(device)


class DecodingState(NamedTuple):
    """The rows: automaton state (num_states: none), tokens left, p_hmm(prefix, z_t = h), its scale and doubt in nats."""

    state: Int[Tensor, " batch"]
    left: Int[Tensor, " batch"]
    prior: Float[Tensor, "batch hidden"]
    scale: Float[Tensor, " batch"]
    doubt: Float[Tensor, " batch"]

    @property
    def belief(self) -> Belief:
        """The HMM's own forward message."""
        return Belief(self.prior, self.scale, self.doubt)

    @property
    def nbytes(self) -> int:
        """The size of the messages in bytes."""
        return int(self.prior.nbytes)

    def select(self, rows: Int[Tensor, " rows"]) -> DecodingState:
        """Return the rows ``rows``."""
        return DecodingState(*(x.index_select(0, rows) for x in self))


@final
class FixedShapeSteps(Copied):
    """Steps of fixed shapes, with the methods of :class:`~.pgcd_steps.SparseSteps`.

    In advancing and scoring, only ``doubted`` reads from the device: whether a token was outside the vocabulary, and whether a
    score may have been lost to underflow. Raises :class:`CircuitError` for an automaton that is not deterministic.
    """

    def __init__(self, tables: ProductTables, masks: GCDQuery, table: BackwardMessage) -> None:
        if not tables.deterministic:
            raise CircuitError("pgcd: steps of fixed shapes need a deterministic automaton; determinise it")
        self._tables, self._masks, self.vocab_size = tables, masks, masks.vocab_size
        self.edges = Tables(tables.automaton, tables.emission.edge_labels, tables.device)
        # Aβ as (horizon · S, H), and its scales and doubts as (horizon · S)
        self._ahead = BackwardMessage(*(x.flatten(0, 1) for x in table))
        hmm, dtype = tables.hmm, tables.dtype
        rare = tables.emission.smallest * smallest_weight(hmm.transition)
        narrow = rare < least(dtype) / torch.finfo(dtype).eps  # beliefs may underflow in this dtype
        self._move = Transition(hmm.transition.T, torch.float64 if narrow else dtype)
        self._graph: Any = None  # a CUDA graph, its inputs (tokens, moving) and its output (scores)
        self._replay: Scores | None = None
        self._wrong = torch.zeros((), dtype=torch.bool, device=tables.device)

    @property
    def state(self) -> DecodingState | None:
        """The present rows, for rollback; None if a graph changes them in place."""
        return None if self._graph is not None else self._rows

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        return self._rows.left

    def masks(self) -> GCDQuery:
        state, none = self._rows.state.tolist(), len(self._tables.final)
        self._masks.place([(s,) if s < none else () for s in state], self._rows.left.tolist())
        return self._masks

    # ------------------------------------------------------------ rows

    def fork(self) -> Self:
        """Return a copy with rows of its own; a recorded graph stays with the original."""
        out = copy(self)
        out._masks, out._wrong = self._masks.fork(), self._wrong.clone()
        if self._graph is not None:
            out._graph = out._replay = None
            out._rows = DecodingState(*(x.clone() for x in self._rows))
        return out

    def begin(self, budgets: Int[Tensor, " batch"]) -> None:
        tables, batch = self._tables, len(budgets)
        prior = tables.hmm.initial_probs.double().repeat(batch, 1)
        state = torch.full((batch,), tables.automaton.start_states[0], device=tables.device)
        nothing = prior.new_zeros(batch)
        begun = DecodingState(state, budgets.to(tables.device), prior, nothing, nothing - torch.inf)
        self._graph = self._replay = None
        self._rows, self._wrong = begun, torch.zeros((), dtype=torch.bool, device=tables.device)

    def advance(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        if self._graph is None:
            self._rows = self.moved(self._rows, tokens, moving)
            return
        graph, given, also, self._replay = self._graph
        given.copy_(tokens)
        also.copy_(moving)
        graph.replay()

    def moved(
        self, now: DecodingState, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]
    ) -> DecodingState:
        """Return the rows after a token is appended where ``moving`` is True."""
        outside = (tokens < 0) | (tokens >= self.vocab_size)
        self._wrong.logical_or_(outside.any())
        tokens, moving = tokens.clamp(0, self.vocab_size - 1), moving & (now.left > 0)
        emission = self._tables.hmm.emission_probs.index_select(1, tokens).T.double()
        top = self._tables.emission.log_top.index_select(0, tokens).double()
        belief = now.belief.emitted(emission, top)
        alpha, scale = normalised(belief.alpha, belief.scale)
        belief = belief.moved(scale, self._move.without_waiting(alpha)).where(moving, now.belief)
        state = torch.where(moving, self.edges.step(now.state, tokens), now.state)
        return DecodingState(state, now.left - moving.long(), *belief)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        self._put(self._rows.select(rows))

    def restore(self, state: DecodingState, n: int) -> None:
        self._put(state)

    def _put(self, rows: DecodingState) -> None:
        if self._graph is None:
            self._rows = rows
            return
        for mine, new in zip(self._rows, rows, strict=True):
            mine.copy_(new)
        self._replay = None

    def capture(self) -> None:
        """Record a step as a CUDA graph: until rows begin again, ``advance`` replays it, for a batch of this size.

        It may be replayed on another stream, while a recorded language model works.
        """
        now = DecodingState(*(x.clone() for x in self._rows))
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

    def scored(self, now: DecodingState) -> Scores:
        """Score all tokens; ``lost`` of the result says in which rows an allowed token has no score."""
        tables, batch = self._tables, len(now.prior)
        entry, there, ahead, doubt = self._edges_of(self.edges.wide, now)
        values, shift = normalised(
            (now.prior[:, None] * ahead.columns.double()).flatten(0, 1),
            (now.scale[:, None] + ahead.scale).flatten(),
        )
        rows = torch.cat([now.prior, values]).to(tables.dtype)
        found = tables.emission.all_tokens(rows)
        prior = found[:batch].to(tables.dtype)
        prior = prior.masked_fill_(prior < tables.least(now.doubt, now.scale)[:, None], 0).log_()
        bound = tables.least(doubt.flatten(), shift).view(entry.shape)
        shift = shift.view(entry.shape).masked_fill(~there, -torch.inf)
        token, gathered, taken = self._gathered(now)
        top = torch.maximum(shift.amax(1), gathered.amax(1))
        base = torch.where(top.isfinite(), top, 0)[:, None]
        # A token is on at most one edge of a state: it is scored by the message of that edge alone.
        place = self.edges.wide_edge(now.state)
        out = found[batch:].view(*entry.shape, self.vocab_size)
        out = out.gather(1, place.clamp(max=entry.shape[1] - 1)[:, None]).squeeze(1).to(tables.dtype)
        none = (0, 1)  # a place more, for tokens on no wide edge
        out = out.masked_fill_(out < pad(bound, none).gather(1, place), 0).log_()
        out = out.add_(pad((shift - base).to(out.dtype), none, value=-torch.inf).gather(1, place))
        out = out.scatter_reduce(1, token, (gathered - base).to(out.dtype), "amax")
        possible = pad(there.to(torch.uint8), none).gather(1, place)
        possible = possible.scatter_reduce(1, token, taken.to(torch.uint8), "amax") > 0
        zero = out.isneginf() | prior.isneginf()
        lost = (possible & zero & tables.emission.log_top.isfinite()).any(1)
        return Scores(out, top, prior, now.scale.clone(), False, lost)

    def _edges_of(
        self, edges: PaddedCSR, now: DecodingState
    ) -> tuple[Tensor, Tensor, BackwardMessage, Tensor]:
        """Return for each row its padded entries, which of them can be taken, Aβ of their targets, and the products' doubts."""
        entry, there = edges.of(now.state)
        left = (now.left - 1).clamp(min=0)[:, None].expand(entry.shape)
        edge = edges.edge.take(entry)
        at = (left * len(self._tables.final) + self._tables.target.take(edge)).flatten()
        columns, scale, doubt = (x.index_select(0, at).view(*entry.shape, *x.shape[1:]) for x in self._ahead)
        alive = self._tables.alive(edge.flatten(), left.flatten()).view(edge.shape)
        there = there & (now.left > 0)[:, None] & alive
        return (
            entry,
            there,
            BackwardMessage(columns, scale, doubt),
            doubt_of_product(now.belief, scale, doubt),
        )

    def _gathered(self, now: DecodingState) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tokens of narrow edges in each row, their log-scores (nats), and which can be taken."""
        eps = log(torch.finfo(self._tables.dtype).eps)
        width = max(1, CHUNK_ELEMENTS // (self.edges.narrow.most * now.prior.shape[1]))
        parts = []
        for b in range(0, max(1, len(now.state)), width):
            rows = DecodingState(*(x[b : b + width] for x in now))
            entry, there, ahead, doubt = self._edges_of(self.edges.narrow, rows)
            token = self.edges.narrow.token.take(entry)
            emitted = self._tables.emission.columns(token.flatten()).view(ahead.columns.shape)
            weighted = rows.prior[:, None] * ahead.columns.double()
            value = (
                torch.einsum("bnh,bnh->bn", weighted, emitted.double()).log()
                + rows.scale[:, None]
                + ahead.scale
            )
            value = value.masked_fill((value + eps < doubt) | ~there, -torch.inf)
            parts.append((token, value, there))
        token, value, there = (torch.cat(x) for x in zip(*parts, strict=True))
        return token, value, there

    def doubted(self, found: Scores) -> Int[Tensor, " rows"]:
        assert found.lost is not None
        lost, wrong = torch.stack([found.lost.any(), self._wrong]).tolist()  # waits for the device
        if wrong:
            raise VocabularyMismatch(f"advance: a token lay outside the vocabulary of {self.vocab_size}")
        if not lost:
            return torch.arange(0)
        rows, tables = found.lost.nonzero().squeeze(1), self._tables
        now, left = self._rows.select(rows), self.remaining.to(tables.device)[rows]
        row = (now.state < len(tables.final)).nonzero().squeeze(1)
        state = SparseState(now.belief, now.belief.select(row), row, now.state[row])
        return rows[~zeros_are_exact(tables, state, Messages.of(tables, state, left))]

    def log_prior(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        return self._rows.prior.sum(1).log() + self._rows.scale, self._rows.doubt

    def log_ended(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"], Bool[Tensor, " batch"]]:
        now, final = self._rows, self._tables.final
        final = torch.cat([final, final.new_zeros(1)]).index_select(0, now.state)
        return (now.prior.sum(1) * final).log() + now.scale, now.doubt, final > 0
