"""Steps of P-GCD on the live automaton states and edges only.

For each live pair (row, state s) with HMM message α_s and each edge e: s → s' alive within the budget,

    m(v) = Σ_e [v ∈ label(e)] · Σ_h B[h, v] · α_s[h] · (A β_{r−1})[h, s'],

so only the messages α_s ∘ Aβ_{r−1}[:, s'] are multiplied with the emission matrix: wide labels share one product with all of B,
narrow ones gather their tokens' columns; nothing of size batch × edges × V is formed. Every message has its own scale, and a
doubt: a bound of what it lost to underflow (:mod:`~tractile.inference.next_token.underflow`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from math import log
from typing import NamedTuple, Self, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from .backward_table import Backward, BackwardMessage
from .emission_table import EdgeMessages, EmissionTable, Scores, ragged_arange, row_logsumexp, score, smallest
from .gcd import GCDQuery
from .rows import Copied
from .underflow import Belief, Transition, added, doubt_of_product, least, normalised

SMALLEST_PRODUCT = -650.0  # log of a positive number that float64 holds with room to spare


class ProductTables:
    """The tables of P-GCD's steps, shared by all copies of a query: HMM, automaton, backward messages and emissions."""

    def __init__(
        self,
        hmm: HMM,
        automaton: Automaton,
        backward: Backward,
        emission: EmissionTable,
        betas: Bool[Tensor, "states lengths"] | None,
    ) -> None:
        self.hmm, self.automaton, self.backward, self.emission = hmm, automaton, backward, emission
        self.dtype, self.device = hmm.emission_probs.dtype, hmm.emission_probs.device
        self.deterministic = automaton.is_deterministic
        first = torch.searchsorted(automaton.edge_source, torch.arange(automaton.num_states + 1))
        self.first = (first if automaton.num_edges else first * 0).to(self.device)
        self.target = automaton.edge_target.to(self.device)
        self.final = automaton.final[0].double().to(self.device)
        # Per edge, the distance of its target; or, if `betas` is given, per state the numbers of tokens that can accept.
        self._distance = torch.zeros(0) if betas is not None else torch.from_numpy(automaton.distances)
        self._distance = self._distance.to(self.device)[self.target] if betas is None else self._distance
        self._within = None if betas is None else betas.to(self.device)

    def alive(self, edge: Int[Tensor, " edges"], left: Int[Tensor, " edges"]) -> Bool[Tensor, " edges"]:
        """Tell which edges have a target from which acceptance is reachable in ``left`` tokens."""
        if self._within is None:
            return self._distance.take(edge) <= left
        last = self._within.shape[1] - 1
        return self._within.take(self.target.take(edge) * (last + 1) + left.clamp(max=last))

    def least(self, doubt: Tensor, scale: Tensor) -> Tensor:
        """Return the smallest score, in units of e^scale, that the doubt cannot change by more than rounding."""
        eps = torch.finfo(self.dtype).eps
        return ((doubt - scale).exp() / eps).nan_to_num(0.0, torch.inf).clamp(min=least(self.dtype))


@final
class RealFilter:
    """The transition of beliefs in the HMM's precision; rows that lose an entry to underflow are recomputed in float64."""

    def __init__(self, hmm: HMM) -> None:
        self._operator, self._dtype = hmm.transition.T, hmm.emission_probs.dtype
        self._move = Transition(self._operator, self._dtype)
        self._wide_move: Transition | None = None

    def __call__(self, belief: Belief) -> Belief:
        alpha, scale = normalised(belief.alpha, belief.scale)
        moved = self._move(alpha)
        if moved.lost is not None and self._dtype != torch.float64:
            if self._wide_move is None:
                self._wide_move = Transition(self._operator, torch.float64)
            rows = moved.lost.nonzero().squeeze(1)
            moved = moved.with_rows(rows, self._wide_move(alpha[rows]))
        return belief.moved(scale, moved)


class SparseState(NamedTuple):
    """The forward messages of each row, and of each live pair (row, state), before the next emission.

    ``prior``: p_hmm(prefix, z_t = h) of each row; ``alpha``: p_hmm(prefix, z_t = h) times the number of the automaton's paths to
    the state, for each pair. ``row`` and ``live`` are the row and state of each pair, sorted by row.
    """

    prior: Belief
    alpha: Belief
    row: Int[Tensor, " pairs"]
    live: Int[Tensor, " pairs"]

    def select(self, rows: Int[Tensor, " rows"]) -> SparseState:
        """Return the state of the rows ``rows``, in that order; rows may repeat."""
        rows = rows.to(self.row.device)
        counts = torch.bincount(self.row, minlength=len(self.prior.scale))
        line, place = ragged_arange(counts[rows])
        keep = (counts.cumsum(0) - counts)[rows][line] + place
        prior = self.prior.select(rows)
        alpha = prior if self.alpha is self.prior else self.alpha.select(keep)
        return SparseState(prior, alpha, line, self.live[keep])

    @property
    def nbytes(self) -> int:
        """The size of the messages in bytes."""
        return int(self.prior.alpha.nbytes + self.alpha.alpha.nbytes)


class LiveEdges(NamedTuple):
    """The edges out of live pairs whose target can accept within the budget, sorted by edge, with α_s and Aβ[:, s']."""

    row: Int[Tensor, " edges"]
    edge: Int[Tensor, " edges"]
    alpha: Belief
    ahead: BackwardMessage


def live_edges(tables: ProductTables, state: SparseState, remaining: Int[Tensor, " batch"]) -> LiveEdges:
    """Return the edges that the next token may take; ``remaining``: the tokens left in each row."""
    first, last = tables.first[state.live], tables.first[state.live + 1]
    pair, place = ragged_arange(torch.where(remaining[state.row] > 0, last - first, 0))
    edge, left = first[pair] + place, (remaining - 1).clamp(min=0)
    alive = tables.alive(edge, left[state.row[pair]])
    edge, order = edge[alive].sort()
    pair = pair[alive][order]
    row = state.row[pair]
    ahead = tables.backward.columns(left[row], tables.target[edge])
    return LiveEdges(row, edge, state.alpha.select(pair), ahead)


def edge_messages(tables: ProductTables, live: LiveEdges) -> EdgeMessages:
    """Return α_s ∘ Aβ[:, s'] for each edge."""
    row, edge, alpha, ahead = live
    values, scale = normalised(alpha.alpha * ahead.columns.double(), alpha.scale + ahead.scale)
    least = tables.least(doubt_of_product(alpha, ahead.scale, ahead.doubt), scale)
    return EdgeMessages(values.to(tables.dtype), scale, row, edge, least)


def prior_messages(tables: ProductTables, prior: Belief) -> EdgeMessages:
    """Return the HMM's own belief as one message per row; its ``edge`` is 0 and not used."""
    alpha, scale, doubt = prior
    row = torch.arange(len(scale), device=scale.device)
    return EdgeMessages(alpha.to(tables.dtype), scale, row, row * 0, tables.least(doubt, scale))


class Messages(NamedTuple):
    """The messages to multiply with the emission matrix: of the live edges, and of the HMM alone."""

    live: LiveEdges
    edges: EdgeMessages
    prior: EdgeMessages

    @classmethod
    def of(cls, tables: ProductTables, state: SparseState, remaining: Int[Tensor, " batch"]) -> Messages:
        """Return the messages of all rows; ``remaining``: the tokens left in each row."""
        live = live_edges(tables, state, remaining)
        return cls(live, edge_messages(tables, live), prior_messages(tables, state.prior))


def zeros_are_exact(tables: ProductTables, state: SparseState, messages: Messages) -> Bool[Tensor, " batch"]:
    """Tell in which rows every score of zero is exactly zero, not underflow.

    That is if no message of the row has a doubt, and the product of the smallest positive factors does not underflow.
    """
    live, found, prior = messages
    ahead = smallest(live.ahead.columns).log()
    small = smallest(live.alpha.alpha).log() + ahead
    gone = small.isposinf()  # one of the factors is zero throughout
    shift = torch.where(gone, 0, found.scale - live.alpha.scale - live.ahead.scale)
    bound = small - shift + log(tables.emission.smallest)
    exact = gone | ((small > SMALLEST_PRODUCT) & (bound > found.least.log()))
    exact &= live.alpha.doubt.isneginf() & live.ahead.doubt.isneginf()
    small = smallest(state.prior.alpha).log()
    alone = small.isposinf() | (small + log(tables.emission.smallest) > prior.least.log())
    wrong = torch.zeros(len(alone), dtype=torch.long, device=alone.device).index_add(
        0, live.row, (~exact).long()
    )
    return alone & state.prior.doubt.isneginf() & (wrong == 0)


@final
class SparseSteps(Copied):
    """Steps on live pairs and edges, with tensors of data-dependent shapes; ``move`` applies the HMM's transition."""

    state: SparseState
    _messages: Messages | None = None  # those of the last scores, if these are not certain

    def __init__(self, tables: ProductTables, masks: GCDQuery, move: Callable[[Belief], Belief]) -> None:
        self._tables, self._masks, self._move = tables, masks, move

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        """The tokens left in each row."""
        return self._masks.remaining

    def masks(self) -> GCDQuery:
        """Return the automaton's mask query of the rows."""
        return self._masks

    def fork(self) -> Self:
        """Return a copy with rows of its own."""
        out = copy(self)
        out._masks = self._masks.fork()
        return out

    def begin(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin one empty prefix per budget."""
        self._masks.take_up(budgets.cpu())
        pi, nothing = self._tables.hmm.initial_probs.double(), budgets.new_zeros(len(budgets))
        nothing = nothing.double().to(self._tables.device)
        prior = Belief(pi.repeat(len(budgets), 1), nothing, nothing - torch.inf)
        row, live = self._pairs()
        self.state = SparseState(prior, prior.select(row), row, live)

    def _pairs(self) -> tuple[Int[Tensor, " pairs"], Int[Tensor, " pairs"]]:
        """Return the row and the state of each live pair, sorted by row."""
        states, device = self._masks.states, self._tables.device
        row = ragged_arange(torch.tensor([len(some) for some in states], dtype=torch.long))[0].to(device)
        return row, torch.tensor([s for some in states for s in some], dtype=torch.long).to(device)

    def advance(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows where ``moving`` is True."""
        tables, before = self._tables, self._masks.states
        self._masks.advance_some(tokens, moving)
        prior, here, moving = self.state.prior, tokens.to(tables.device), moving.to(tables.device)
        emission = tables.hmm.emission_probs.index_select(1, here).T.double()
        top = tables.emission.log_top.index_select(0, here).double()
        prior = self._move(prior.emitted(emission, top)).where(moving, prior)
        row, live = self._pairs()
        if not tables.deterministic:
            alpha = self._moved_pairs(emission, top, before, moving, tokens.tolist())
        else:  # a prefix has one path, so α is the HMM's own belief
            alpha = prior if len(row) == len(tokens) else prior.select(row)
        self.state = SparseState(prior, alpha, row, live)

    def _moved_pairs(
        self,
        emission: Float[Tensor, "batch hidden"],
        top: Float[Tensor, " batch"],
        before: list[tuple[int, ...]],
        moving: Bool[Tensor, " batch"],
        tokens: list[int],
    ) -> Belief:
        """Return α of the pairs reached, summed over the paths that reach the same pair."""
        pair, reached, count, place = list[int](), list[int](), 0, 0
        step, now = self._tables.automaton.step, self._masks.states
        for states, after, token, moves in zip(before, now, tokens, moving.tolist(), strict=True):
            for i, state in enumerate(states, count):
                for target in step(state, token) if moves else (state,):
                    pair.append(i)
                    reached.append(place + after.index(target))
            count, place = count + len(states), place + len(after)
        taken, to = torch.tensor([pair, reached], dtype=torch.long).to(self._tables.device)
        row, alpha = self.state.row, self.state.alpha
        moved = self._move(alpha.emitted(emission[row], top[row])).where(moving[row], alpha)
        return added(moved.select(taken), to, place)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep the rows ``rows``, in that order."""
        self._masks.select(rows)
        self.state = self.state.select(rows)

    def restore(self, state: SparseState, n: int) -> None:
        """Go back to ``state``, that of ``n`` tokens ago."""
        self._masks.rollback(n)
        self.state = state

    def scores(self) -> Scores:
        """Return the next-token log-weights of the product and of the HMM alone, not normalised."""
        tables = self._tables
        messages = Messages.of(tables, self.state, self.remaining.to(tables.device))
        found = score(tables.emission, messages.edges, messages.prior, tables.deterministic)
        self._messages = None if found.certain else messages
        return found

    def doubted(self, found: Scores) -> Int[Tensor, " rows"]:
        """Return the rows in which a score of zero, just computed, may be an underflow."""
        messages, self._messages = self._messages, None
        if found.certain:
            return torch.arange(0, device=self._tables.device)
        if messages is None:
            messages = Messages.of(self._tables, self.state, self.remaining.to(self._tables.device))
        return (~zeros_are_exact(self._tables, self.state, messages)).nonzero().squeeze(1)

    def log_prior(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
        """Return log p_hmm(prefix) and its doubt, in nats."""
        prior = self.state.prior
        return prior.alpha.sum(1).log() + prior.scale, prior.doubt

    def log_ended(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"], Bool[Tensor, " batch"]]:
        """Return log p(prefix, accepted) and its doubt, in nats, and whether the automaton accepts the prefix."""
        prior, alpha, row, live = self.state
        final, batch = self._tables.final[live], len(prior.scale)
        accepted = final.new_zeros(batch).index_add(0, row, final) > 0
        ended = (alpha.alpha.sum(1) * final).log() + alpha.scale
        doubt = alpha.doubt.masked_fill(final == 0, -torch.inf)
        return row_logsumexp(ended, row, batch), row_logsumexp(doubt, row, batch), accepted
