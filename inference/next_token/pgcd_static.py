"""P-GCD on a deterministic automaton as tensor operations of fixed shapes, so that no step waits for the accelerator.

Each row is in one state. Its edges are spread over a fixed number of places: those with many tokens are scored for every
token, W to a row; the tokens of the others, N to a row, gather their columns. A deterministic automaton has one path for a
prefix, so α is the HMM's own message. Equal, by test, to :class:`~tractile.inference.next_token.pgcd.PGCDQuery`, which
does less arithmetic and asks for sizes as it goes along.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import CircuitError, VocabularyMismatch
from .backward_table import BackwardTable
from .dfa_tables import PaddedCSR, Tables
from .emission_table import Scores
from .generic import Tokens, as_tokens
from .pgcd import PGCDQuery
from .range import Belief, Transition, doubt_of_product, least, normalised, smallest, smallest_weight
from .record import row_indices

CHUNK_ELEMENTS = 1 << 27  # gathered at once


class DecodingState(NamedTuple):
    """Where the rows are: state (the number of states: none), tokens left, p(prefix, z_t = h), its scale and doubt in nats."""

    state: Int[Tensor, " batch"]
    left: Int[Tensor, " batch"]
    prior: Float[Tensor, "batch hidden"]
    scale: Float[Tensor, " batch"]
    doubt: Float[Tensor, " batch"]

    @property
    def belief(self) -> Belief:
        """The HMM's own message."""
        return Belief(self.prior, self.scale, self.doubt)


class StaticPGCDQuery(PGCDQuery):
    """A :class:`PGCDQuery` whose steps have fixed shapes and read nothing back.

    After a step is queued one flag is read: whether a token was outside the vocabulary, or a score was lost to the range of
    the precision, which is then computed in log space. Raises :class:`CircuitError` for an automaton that is not
    deterministic.
    """

    def __init__(
        self, hmm: HMM, automaton: Automaton, horizon: int, dtype: torch.dtype | None = None
    ) -> None:
        if not automaton.is_deterministic:
            raise CircuitError("StaticPGCDQuery: the automaton must be deterministic; determinise it")
        self._now: DecodingState | None = None
        self._graph: Any = None  # a CUDA graph, the tokens it is given, the scores it makes
        self._replay: Scores | None = None
        super().__init__(hmm, automaton, horizon, dtype)
        assert isinstance(self._future, BackwardTable)
        assert self._future.table is not None
        # (horizon · S, H) and twice (horizon · S)
        self._ahead, self._ahead_scale, self._ahead_doubt = (x.flatten(0, 1) for x in self._future.table)
        rare = float(smallest(self.hmm.emission_probs.flatten()[None]) * smallest_weight(self.hmm.transition))
        if rare < least(self._dtype) / torch.finfo(self._dtype).eps:  # a belief needs a wider range
            self._move = Transition(self.hmm.transition.T, torch.float64)
        self._tables = Tables(self.automaton, self.device)
        self._wrong = torch.zeros((), dtype=torch.bool, device=self.device)

    # ------------------------------------------------------------ what the masks ask for

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        """The tokens left in each row."""
        return torch.zeros(0, dtype=torch.long) if self._now is None else self._now.left

    @remaining.setter
    def remaining(self, budgets: Int[Tensor, " batch"]) -> None:
        if self._now is not None:
            if self._graph is None:
                self._now = self._now._replace(left=budgets.to(self.device))
            else:
                self._now.left.copy_(budgets)

    @property
    def _budget(self) -> list[int]:
        return self.remaining.tolist()

    @_budget.setter
    def _budget(self, budgets: list[int]) -> None:
        """Kept with the rows."""

    @property
    def _states(self) -> list[tuple[int, ...]]:
        none = len(self._final)
        return [] if self._now is None else [(s,) if s < none else () for s in self._now.state.tolist()]

    @_states.setter
    def _states(self, states: list[tuple[int, ...]]) -> None:
        """Kept with the rows."""

    # ------------------------------------------------------------ the step

    def __copy__(self) -> Self:
        """A copy with rows of its own; a recorded graph stays with the original."""
        out = super().__copy__()
        out._wrong = self._wrong.clone()
        if self._graph is not None:
            out._graph = out._replay = None
            out._now = DecodingState(*(x.clone() for x in self._rows))
        return out

    def _begin(self, batch: int) -> None:
        self._graph = self._replay = None
        prior = self.hmm.initial_probs.double().repeat(batch, 1)
        state = torch.full((batch,), self.automaton.start_states[0], device=self.device)
        nothing = prior.new_zeros(batch)
        self._now = DecodingState(state, torch.zeros_like(state), prior, nothing, nothing - torch.inf)
        self._wrong = torch.zeros((), dtype=torch.bool, device=self.device)
        self._scored = None

    @property
    def _rows(self) -> DecodingState:
        assert self._now is not None, "start() first"
        return self._now

    def advance(self, tokens: Tokens) -> None:
        tokens = as_tokens(tokens)
        if tokens.device.type == "cpu" or tokens.shape != self._rows.left.shape:
            self._check_tokens(tokens)
        tokens = tokens.to(self.device)
        done = self._rows.left == 0
        self._record.append(tokens.masked_fill(done, -1))
        self._scored = None
        if self._graph is None:
            self._now = self._moved(self._rows, tokens)
        else:
            graph, given, self._replay = self._graph
            given.copy_(tokens)
            graph.replay()

    def _moved(self, now: DecodingState, tokens: Int[Tensor, " batch"]) -> DecodingState:
        """The rows with a token more each."""
        outside = (tokens < 0) | (tokens >= self.vocab_size)
        self._wrong.logical_or_(outside.any())
        tokens, done = tokens.clamp(0, self.vocab_size - 1), now.left == 0
        emission = self.hmm.emission_probs.index_select(1, tokens).T.double()
        top = self._table.log_top.index_select(0, tokens).double()
        belief = now.belief.where(done, self._transition(now.belief.emitted(emission, top)))
        state = torch.where(done, now.state, self._tables.step(now.state, tokens))
        return DecodingState(state, (now.left - 1).clamp(min=0), *belief)

    def _transition(self, belief: Belief) -> Belief:
        alpha, scale = normalised(belief.alpha, belief.scale)
        return belief.moved(scale, self._move.without_waiting(alpha))

    def _product(self) -> Scores:
        return self._replay or self._scores(self._rows)

    def _scores(self, now: DecodingState) -> Scores:
        """The scores of all tokens; ``lost`` says in which rows a token that may be taken has none."""
        batch = len(now.prior)
        edge, entry, there, ahead, shift, doubt = self._columns_of(self._tables.wide, now)
        values, shift = normalised(
            (now.prior[:, None] * ahead.double()).flatten(0, 1), (now.scale[:, None] + shift).flatten()
        )
        bounds = torch.cat([self._least(now.doubt, now.scale), self._least(doubt.flatten(), shift)])
        shift = shift.view(edge.shape).masked_fill(~there, -torch.inf)
        rows = torch.cat([now.prior, values]).to(self._dtype)
        found = self._table.all_tokens(rows)
        found = found.masked_fill_(found < bounds[:, None], 0).log_()
        token, gathered, taken = self._gathered(now)
        top = torch.maximum(shift.amax(1), gathered.amax(1))
        base = torch.where(top.isfinite(), top, 0)[:, None]
        label = self._tables.wide.label.take(entry)
        member = self._tables.member.index_select(0, label.flatten()).view(*edge.shape, self.vocab_size)
        member = member & there[..., None]
        out = found[batch:].view(member.shape) + (shift - base).to(found.dtype)[..., None]
        out = torch.where(member, out, -torch.inf).amax(1)
        out = out.scatter_reduce(1, token, (gathered - base).to(out.dtype), "amax")
        possible = member.any(1).to(torch.uint8).scatter_reduce(1, token, taken.to(torch.uint8), "amax") > 0
        none = out.isneginf() | found[:batch].isneginf()
        lost = (possible & none & self._table.log_top.isfinite()).any(1)
        return Scores(out, top, found[:batch], now.scale.clone(), False, lost)

    def _columns_of(
        self, spread: PaddedCSR, now: DecodingState
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Of each row's entries: edges, entries, which can be taken, Aβ of their targets, its scales, the product's doubt."""
        entry, there = spread.of(now.state)
        left = (now.left - 1).clamp(min=0)[:, None].expand(entry.shape)
        edge = spread.edge.take(entry)
        at = (left * len(self._final) + self._target.take(edge)).flatten()
        ahead = self._ahead.index_select(0, at).view(*entry.shape, self.hmm.hidden)
        there = there & (now.left > 0)[:, None] & self._alive(edge.flatten(), left.flatten()).view(edge.shape)
        scale, doubt = (
            x.index_select(0, at).view(entry.shape) for x in (self._ahead_scale, self._ahead_doubt)
        )
        return edge, entry, there, ahead, scale, doubt_of_product(now.belief, scale, doubt)

    def _gathered(self, now: DecodingState) -> tuple[Tensor, Tensor, Tensor]:
        """The tokens of narrow labels, their log-scores, and which can be taken."""
        width = max(1, CHUNK_ELEMENTS // (self._tables.narrow.most * now.prior.shape[1]))
        parts = []
        for b in range(0, max(1, len(now.state)), width):
            rows = DecodingState(*(x[b : b + width] for x in now))
            _, entry, there, ahead, shift, doubt = self._columns_of(self._tables.narrow, rows)
            token = self._tables.narrow.token.take(entry)
            emitted = self._table.columns(token.flatten()).view(*entry.shape, self.hmm.hidden)
            value = (rows.prior[:, None] * ahead.double() * emitted.double()).sum(2)
            value = value.log() + rows.scale[:, None] + shift
            doubted = value + log(torch.finfo(self._dtype).eps) < doubt
            value = value.masked_fill(doubted | ~there, -torch.inf)
            parts.append((token, value, there))
        token, value, there = (torch.cat(x) for x in zip(*parts, strict=True))
        return token, value, there

    def _lost(self, found: Scores) -> Int[Tensor, " rows"]:
        assert found.lost is not None
        lost, wrong = torch.stack([found.lost.any(), self._wrong]).tolist()  # what a step waits for
        if wrong:
            raise VocabularyMismatch(f"advance: a token lay outside the vocabulary of {self.vocab_size}")
        return found.lost.nonzero().squeeze(1) if lost else torch.arange(0)

    def _prior_found(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        now = self._rows
        return now.prior.sum(1).log() + now.scale, now.doubt

    def _ended_found(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"], Bool[Tensor, " batch"]]:
        now = self._rows
        final = torch.cat([self._final, self._final.new_zeros(1)]).index_select(0, now.state)
        return (now.prior.sum(1) * final).log() + now.scale, now.doubt, final > 0

    def select(self, indices: Tensor | Sequence[int]) -> None:
        indices = row_indices(indices, len(self._rows.left)).to(self.device)
        chosen = DecodingState(*(x.index_select(0, indices) for x in self._rows))
        self._record.select(indices)
        if self._graph is None:
            self._now = chosen
            self._scored = self._scored.select(indices) if self._scored is not None else None
        else:
            for mine, new in zip(self._rows, chosen, strict=True):
                mine.copy_(new)
            self._scored = self._replay = None

    def capture(self) -> None:
        """Record the step as a CUDA graph: until the next ``start``, ``advance`` replays it, for a batch of this size."""
        now = DecodingState(*(x.clone() for x in self._rows))
        given = torch.zeros_like(now.state)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):  # what is made at the first use is not part of the graph
                self._scores(self._moved(now, given))
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for mine, new in zip(now, self._moved(now, given), strict=True):
                mine.copy_(new)
            scores = self._scores(now)
        self._now, self._graph = now, (graph, given, scores)
