"""DenseQuery: the next-token query of any chain in any semiring, every unit and token at every step.

For a chain and a number of tokens left r, with p_t the predicted message and f_{r−1} the one ahead of the token when r − 1
unobserved ones follow it (:mod:`tractile.inference.engine.filter`),

    m(v) = Bᵀ (p_t ∘ f_{r−1})        (Dang et al. 2026, Algorithm 1)

is the ⊕-total of all sequences with the prefix x_{<t}, token v, and r − 1 tokens more. In the Boolean semiring on an
automaton it is the GCD mask (Eqs. 2–4), or the LCD mask (Eq. 1) if f marks the edges after which acceptance can be reached
at any length; in the real semiring on HMM × automaton it is P-GCD. The chain is time-homogeneous, so one backward sweep
serves every prompt, row and budget up to the horizon. It defines what the faster queries answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self, cast, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ...errors import CircuitError
from ..engine.contract import total
from ..engine.filter import Filter, columns_of, dot, where
from ..queries.evidence import Evidence
from ..queries.exact import arithmetics, at_least_single
from ..semirings.base import Semiring
from ..semirings.linear import Boolean
from ..semirings.scaled_real import Real
from .ahead import forced, validate
from .history import History
from .protocol import Budgets, Tokens
from .rows import (
    Copied,
    Shortfall,
    bitmask,
    check_horizon,
    checked_budgets,
    checked_rollback,
    checked_tokens,
    conditionals,
    described,
    mask_logits,
    no_hmm,
    resume,
    row_indices,
    shortfall_of,
    support,
    words,
)


@final
class DenseQuery(Copied):
    """The next-token query of a chain in a semiring: a :class:`~.protocol.NextTokenQuery`.

    ``horizon``: the largest budget in tokens, or None for no budget. Without a budget the Boolean query asks for acceptance at
    any length; in another semiring ``final`` must be its own backward message (an HMM's ones), else :class:`CircuitError`.

    In Real, rows that lost something to underflow are computed again in float64, then in log space (see
    :class:`~tractile.inference.semirings.scaled_real.Real`). ``rollback`` replays the prefix.

    Differentiable in the chain's parameters.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile.inference import Log
    >>> from tractile.inference.next_token.generic import DenseQuery
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> query = DenseQuery(hmm * one, 3, Log()).start(batch=1)
    >>> query.scores().exp()
    tensor([[0.6332, 0.3668]])
    """

    has_lookahead = False
    remaining: Int[Tensor, " batch"]
    _predicted: Any
    _ended: Any  # the root of each row as a complete sequence
    resume, apply, fork = resume, mask_logits, copy
    mask, words, bitmask, validate, forced = support, words, bitmask, validate, forced
    lookahead, log_lookahead = no_hmm, no_hmm

    def __init__(self, chain: Chain, horizon: int | None, semiring: Semiring[Any]) -> None:
        check_horizon(horizon, "NextToken")
        chain = at_least_single(chain)
        self.chain, self.horizon, self.semiring = chain, horizon, semiring
        self.automaton = chain if isinstance(chain, Automaton) else None
        self.device, self.vocab_size = chain.device, chain.vocab_size
        self._filter = Filter(chain, semiring)
        self._last, self._empty = self._filter.last(1), self._filter.empty(1)
        ahead = self._sweep()
        self._ahead = semiring.cat(ahead)
        begun = semiring.mul(self._filter.initial(len(ahead)), total(semiring, chain.inputs, chain.device))
        some = dot(semiring, begun, self._ahead)
        if horizon is not None:
            some = semiring.cat([self._empty, some])
        elif isinstance(semiring, Boolean):
            some = semiring.add(self._empty, some)
        self._totals = semiring.log(some)  # by the number of tokens
        self._history = History()

    __repr__ = described

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._history = copy(self._history)
        return out

    def _sweep(self) -> list[Any]:
        """Return what is ahead of a token with 0, 1, … tokens left after it; one message if there is no horizon."""
        sr, everything = self.semiring, Evidence(1, self.device)
        if self.horizon is not None:
            return list(self._filter.backward(everything, range(self.horizon)))
        if isinstance(sr, Boolean):
            return [self._filter.settled(torch.equal, any_length=True)]
        first, second = self._filter.backward(everything, range(2))
        if not torch.allclose(sr.log(first).exp(), sr.log(second).exp(), rtol=1e-4):
            raise CircuitError(
                "NextToken: without a horizon the chain must be normalised (its final vector its own backward message)"
            )
        return [first]

    # ------------------------------------------------------------ rows

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        self.take_up(checked_budgets(self, batch, budgets, self._shortfall))
        return self

    def _shortfall(self, lengths: Int[Tensor, " batch"]) -> Shortfall | None:
        return shortfall_of(self.feasible_lengths(), lengths, self.horizon)

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        self.remaining = budgets.to(self.device)
        self._predicted = self._filter.initial(len(budgets))
        self._ended = self.semiring.gather(self._empty, torch.zeros_like(self.remaining), 0)
        self._history.begin(self.remaining)

    def advance(self, tokens: Tokens) -> None:
        tokens = checked_tokens(tokens, len(self.remaining), self.vocab_size)
        self._append(tokens.to(self.device), self.remaining > 0)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        moving = moving.to(self.device)
        tokens = tokens.to(self.device).masked_fill(~moving, 0)
        self._append(
            checked_tokens(tokens, len(self.remaining), self.vocab_size), moving & (self.remaining > 0)
        )

    def _append(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        sr = self.semiring
        filtered, self._predicted = self._filter.append(self._predicted, tokens, moving)
        self._ended = where(sr, moving, dot(sr, filtered, self._last), self._ended)
        self._history.append(tokens.masked_fill(~moving, -1))
        self.remaining = self.remaining - moving.long()

    def select(self, indices: Tensor | Sequence[int]) -> None:
        indices = row_indices(indices, len(self.remaining)).to(self.device)
        self._history.select(indices)
        self._predicted, self._ended = (
            columns_of(self.semiring, x, indices) for x in (self._predicted, self._ended)
        )
        self.remaining = self.remaining[indices]

    def rollback(self, n: int) -> None:
        length = self._history.tokens.shape[1]
        n = checked_rollback(n, length)
        tokens, history = self._history.tokens[:, : length - n], copy(self._history)
        self.take_up(self._history.budgets)
        for column in tokens.T:
            self.advance_some(column, column >= 0)
        self._history = history
        self._history.rollback(n)

    # ------------------------------------------------------------ answers

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        if bool(self._totals.isnan().any()):
            return self._history.made("possible", self._in_boolean).feasible_lengths()
        return self._totals > -torch.inf

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        ahead = columns_of(self.semiring, self._ahead, self._left())
        weights = self.semiring.log(self._filter.open(self._predicted, ahead)).T
        weights = weights.masked_fill(self.remaining.eq(0)[:, None], -torch.inf)
        return self._within_range(weights, DenseQuery.log_weights)

    def _left(self) -> Int[Tensor, " batch"]:
        """Return how many tokens each row has left after the next one."""
        return torch.zeros_like(self.remaining) if self.horizon is None else (self.remaining - 1).clamp(min=0)

    def _within_range(self, found: Tensor, ask: Callable[[DenseQuery], Tensor]) -> Tensor:
        """Compute again the rows that are NaN, because scaled arithmetic lost something to underflow."""
        lost = found.isnan()
        if not bool(lost.any()) or not isinstance(self.semiring, Real):
            return found
        return torch.where(lost, ask(self._history.query("exact", self._more_exact)).to(found.dtype), found)

    def _more_exact(self) -> DenseQuery:
        """Return this query in float64, or in log space if its parameters are float64 already."""
        _, (chain, semiring), *_ = arithmetics(self.chain)
        return DenseQuery(cast(Chain, chain), self.horizon, semiring)

    def _in_boolean(self) -> DenseQuery:
        return DenseQuery(self.chain, self.horizon, Boolean())

    def ended(self) -> Float[Tensor, " batch"]:
        return self._within_range(self.semiring.log(self._ended), DenseQuery.ended)

    def scores(self) -> Float[Tensor, "batch vocab"]:
        return conditionals(self.log_weights(), self.remaining, self.semiring)
