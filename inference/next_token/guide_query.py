"""P-GCD for guiding a sampler: the real next-token query on HMM × automaton within a tolerance, at a fraction of the cost.

    m(v) = Σ_h α[h] · B[h, v] · (A β_{r−1})[h, s'],    e: s → s' the edge with v ∈ label(e)

As :mod:`~.pgcd_query`, for a deterministic automaton, with three simplifications: the backward sweep ends once its messages
hardly change (:mod:`~.guide_messages`); positive entries below 1e-30 of the largest are raised to this bound, not recomputed;
and the query has no masks: :class:`~.coarse.CoarseQuery` combines it with exact ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from math import log
from typing import NamedTuple, Self, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...circuits.hmm import HMM
from ...circuits.weighted_hmm import parameters_of, weights_of
from ..semirings.scaled_real import Real
from .edge_labels import EdgeLabels
from .emission_table import FEW, EdgeMessages, EmissionTable, Label, exclusive_scores, ragged_arange
from .finite_masks import FiniteMasks
from .gcd import GCDQuery
from .guide_messages import FLOOR, GuideMessages, floored
from .history import History, Trail
from .protocol import Tokens
from .rows import Copied, checked_rollback, row_indices
from .support import SupportQuery
from .underflow import Times, normalised

Scored = tuple[Tensor, Tensor, Tensor | None]
"""Log scores log Σ_h α[h] B[h, v] (A β)[h, s'] / top(v) and log Σ_h α[h] B[h, v] / top(v), without the scale of the belief, and
places: if None, both scores are tables (rows, vocab), else they are those of the entries at these places of the flat tables."""


class GuideRows(NamedTuple):
    """The belief of each row before the next emission, scaled to maximum one, with log scale (nats), state and tokens left.

    The state ``num_states`` means that the automaton has rejected the prefix.
    """

    belief: Float[Tensor, "rows hidden"]
    scale: Float[Tensor, " rows"]
    state: Int[Tensor, " rows"]
    left: Int[Tensor, " rows"]

    def select(self, rows: Int[Tensor, " rows"]) -> GuideRows:
        """Return the rows at these positions."""
        return GuideRows(*(x.index_select(0, rows) for x in self))

    @property
    def nbytes(self) -> int:
        """The size of the tensors in bytes."""
        return sum(x.nbytes for x in self)


def can_guide(hmm: HMM, automaton: Automaton) -> bool:
    """Return whether a :class:`GuideQuery` can be made.

    The automaton must be deterministic, and the HMM's parameters all float32 or all float64, on the CPU.
    """
    dtypes = {t.dtype for t in parameters_of(hmm)}
    wide = dtypes in ({torch.float32}, {torch.float64})
    return wide and hmm.device.type == "cpu" and automaton.is_deterministic


class GuideTables:
    """The tables that all copies of a :class:`GuideQuery` share."""

    def __init__(self, hmm: HMM, automaton: Automaton, horizon: int, tolerance: float) -> None:
        labels, dtype = EdgeLabels(automaton), hmm.emission_probs.dtype
        self.hmm, self.automaton, self.dtype = hmm, automaton, dtype
        self.messages = GuideMessages(hmm, automaton, horizon, labels, tolerance)
        self.emission = EmissionTable(hmm.emission_probs, labels, dtype)
        self.move, self.weights = Times(hmm.transition.T), weights_of(hmm)
        first = torch.searchsorted(automaton.edge_source, torch.arange(automaton.num_states + 2))
        self.first = first if automaton.num_edges else first * 0
        self.final = torch.cat([automaton.final[0] > 0, torch.zeros(1, dtype=torch.bool)])

    def step(self, state: int, token: int) -> int:
        """Return the state after a token; the number of states if there is none."""
        nowhere = self.automaton.num_states
        found = () if state == nowhere else self.automaton.step(state, token)
        return found[0] if found else nowhere


@final
class GuideQuery(Copied):
    """The lookahead of an HMM and a deterministic automaton on the CPU, within ``tolerance`` nats as estimated.

    Rows, ``lookahead``, ``log_weights`` and ``log_lookahead`` as in :class:`~.protocol.NextTokenQuery`; tokens that the
    automaton cannot take have −inf.
    """

    _rows: GuideRows

    def __init__(self, hmm: HMM, automaton: Automaton, horizon: int, tolerance: float) -> None:
        hmm = hmm.detached()
        self.hmm, self.automaton, self.horizon, self.semiring = hmm, automaton, horizon, Real()
        self.vocab_size, self.device = automaton.vocab_size, hmm.device
        self._tables = GuideTables(hmm, automaton, horizon, tolerance)
        self._history, self._trail = History(), Trail()
        self._scored: Scored | None = None

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._history, out._trail = copy(self._history), copy(self._trail)
        return out

    @cached_property
    def chain(self) -> Chain:
        """The product of HMM and automaton."""
        return self.hmm * self.automaton

    @property
    def nbytes(self) -> int:
        """The size of the backward messages in bytes."""
        return self._tables.messages.nbytes

    # ------------------------------------------------------------ rows

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin one empty prefix per budget."""
        self._begin(budgets)
        self._history.begin(budgets)
        self._trail.clear()

    def _begin(self, budgets: Int[Tensor, " batch"]) -> None:
        initial = self.hmm.initial_probs.expand(len(budgets), -1)
        start = self.automaton.start_states
        state = torch.full_like(budgets, start[0] if start else self.automaton.num_states)
        self._rows = GuideRows(*self._floored(initial, torch.zeros(len(budgets)).double()), state, budgets)
        self._scored = None

    def advance(self, tokens: Tokens) -> None:
        """Append one token to each prefix; rows with no tokens left stay as they are."""
        found = torch.as_tensor(tokens).long()
        self.advance_some(found, torch.ones(len(found), dtype=torch.bool))

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows where ``moving`` is True."""
        moving = moving & (self._rows.left > 0)
        tokens = tokens.masked_fill(~moving, -1)
        self._trail.append(self._rows)
        self._history.append(tokens)
        self._move(tokens)

    def _move(self, tokens: Int[Tensor, " batch"]) -> None:
        """Append tokens; −1: the row stays."""
        tables, rows, moving = self._tables, self._rows, tokens >= 0
        emission = tables.hmm.emission_probs.index_select(1, tokens.clamp(min=0)).T
        belief, scale = self._floored(rows.belief.double() * emission, rows.scale)
        moved, more = tables.move(belief.to(tables.dtype))
        belief, scale = self._floored(moved, scale + more)
        if bool((lost := moving & scale.isneginf() & rows.scale.isfinite()).any()):
            belief, scale = self._with_support(lost, belief, scale)
        ahead = [
            tables.step(s, t) if t >= 0 else s
            for s, t in zip(rows.state.tolist(), tokens.tolist(), strict=True)
        ]
        if not bool(moving.all()):
            belief = torch.where(moving[:, None], belief, rows.belief)
            scale = torch.where(moving, scale, rows.scale)
        self._rows = GuideRows(
            belief, scale, torch.tensor(ahead, dtype=torch.long), rows.left - moving.long()
        )
        self._scored = None

    def _with_support(self, lost: Tensor, belief: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        """Replace beliefs that underflowed to zero by ones at the possible hidden states, :data:`FLOOR` times the old scale."""
        support = self._history.query("support", self._make_support)
        possible = support.hidden_states() & lost[:, None]
        least = torch.where(possible.any(1), self._rows.scale + log(FLOOR), scale)
        return torch.where(lost[:, None], possible.to(belief), belief), least

    @staticmethod
    def _floored(belief: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        belief, scale = normalised(belief, scale)
        return floored(belief), scale

    def select(self, indices: Tensor | Sequence[int]) -> None:
        """Keep the rows ``indices``, in that order."""
        indices = row_indices(indices, len(self._rows.left))
        self._rows = self._rows.select(indices)
        self._history.select(indices)
        self._trail.select(indices)
        self._scored = None

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` tokens of every row."""
        if not (n := checked_rollback(n, self._history.tokens.shape[1])):
            return
        self._history.rollback(n)
        self._scored = None
        if (rows := self._trail.back(n)) is not None:
            self._rows = rows
            return
        past = self._history.tokens
        self._history.begin(self._history.budgets)
        self._begin(self._history.budgets)
        for tokens in past.T:
            self._history.append(tokens)
            self._move(tokens)

    # ------------------------------------------------------------ scores

    def lookahead(self) -> Float[Tensor, "batch vocab"]:
        """Return log p_hmm(C | x_<t, v) in nats."""
        product, prior, place = self._score()
        return self._table(torch.where(product > -torch.inf, product - prior, -torch.inf), place)

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        """Return log p_hmm(x_<t, v, the rest accepted within the budget) in nats."""
        product, _, place = self._score()
        scale, weights = self._rows.scale[:, None], self._tables.weights
        found = (self._table(product, place) + self._tables.emission.log_top).double() + scale
        return found if weights is None else found + weights

    def log_lookahead(self) -> Float[Tensor, " batch"]:
        """Return log p_hmm(C | x_<t) in nats; 0 or −inf if no token is left."""
        rows = self._rows
        accepted = self._tables.final[rows.state] & (rows.scale > -torch.inf)
        ended = torch.where(accepted, 0.0, -torch.inf).double()
        mass = self.log_weights().logsumexp(1) - rows.scale
        open_ = torch.where(mass > -torch.inf, mass - rows.belief.double().sum(1).log(), -torch.inf)
        return torch.where(rows.left > 0, open_, ended)

    def _table(self, scores: Tensor, place: Tensor | None) -> Float[Tensor, "batch vocab"]:
        """Return a table of scores for all tokens; scores at places are written into a table of −inf."""
        if place is None:
            return scores
        rows = len(self._rows.left)
        out = torch.full((rows * self.vocab_size,), -torch.inf, dtype=scores.dtype)
        return out.index_copy_(0, place, scores).view(rows, self.vocab_size)

    def _score(self) -> Scored:
        if self._scored is None:
            tables, (belief, _, state, left) = self._tables, self._rows
            first, last = tables.first[state], tables.first[state + 1]
            row, line = ragged_arange(torch.where(left > 0, last - first, 0))
            edge = first[row] + line
            columns, scale = tables.messages.ahead(left[row] - 1, self.automaton.edge_target[edge])
            if not bool((alive := scale > -torch.inf).all()):
                row, edge, columns, scale = row[alive], edge[alive], columns[alive], scale[alive]
            values, scale = normalised(belief.double()[row] * columns, scale)
            values = floored(values).to(tables.dtype)
            messages = EdgeMessages(values, scale, row, edge, torch.zeros_like(scale))
            labels = [tables.emission.label(e) for e in edge.tolist()]
            narrow = all(len(tokens) <= FEW and emission is not None for tokens, emission in labels)
            self._scored = self._of_few(messages, labels) if narrow and labels else self._of_all(messages)
        return self._scored

    def settle(self, missing: Bool[Tensor, "batch vocab"]) -> None:
        """Set the least score for tokens of the mask ``missing``, allowed without a score, unless the HMM rules them out.

        A score is missing if it is zero or underflowed; Boolean arithmetic (:class:`~.support.SupportQuery`) tells which.
        """
        rows = missing.any(1).nonzero().squeeze(1)
        possible = torch.zeros_like(missing)
        possible[rows] = self._history.query("support", self._make_support).possible(rows)
        product, prior, place = self._score()
        product, prior, lost = self._table(product, place), self._table(prior, place), missing & possible
        prior = torch.where(lost, prior.clamp(min=log(FLOOR)), prior)
        self._scored = torch.where(lost, prior + log(FLOOR), product), prior, None

    def _make_support(self) -> SupportQuery:
        source = FiniteMasks(self.automaton, self.horizon)
        betas = None if source.betas is None else torch.from_numpy(source.betas)
        masks = GCDQuery(self.automaton, self.horizon, source)
        return SupportQuery(self.hmm, self.automaton, self.horizon, masks, betas)

    def _of_few(self, messages: EdgeMessages, labels: list[Label]) -> Scored:
        """Score only the tokens on the live edges, which have few each, by gathering their emission columns."""
        tokens = torch.cat([label.tokens for label in labels])
        emission = torch.cat([label.columns for label in labels if label.columns is not None])
        count = torch.tensor([len(label.tokens) for label in labels])
        line = torch.arange(len(labels)).repeat_interleave(count)
        row = messages.row[line]
        product = (messages.values[line] * emission).sum(1).log() + messages.scale[line]
        prior = (self._rows.belief[row] * emission).sum(1).log()
        return product, prior, row * self.vocab_size + tokens

    def _of_all(self, messages: EdgeMessages) -> Scored:
        """Score all tokens, by multiplying messages with the whole emission matrix."""
        belief, nothing = self._rows.belief, torch.zeros_like(self._rows.scale)
        edge, order = messages.edge.sort()
        values, scale, row, _, least = messages
        messages = EdgeMessages(values[order], scale[order], row[order], edge, least)
        alone = torch.arange(len(belief))
        prior = EdgeMessages(belief, nothing, alone, alone * 0, nothing)
        return *exclusive_scores(self._tables.emission, messages, prior), None
