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

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast, final

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
from .backward import size_of
from .row_query import MessageQuery, Messages
from .rows import check_horizon, no_hmm


class DenseRows(NamedTuple):
    """The rows: the predicted message, the root of each as a complete sequence, and the tokens left."""

    predicted: Any
    ended: Any
    left: Int[Tensor, " batch"]


@final
class DenseMessages(Messages):
    """The rows of a query on a chain: the methods of a next-token query that concern rows and weights."""

    _rows: DenseRows

    def __init__(self, chain: Chain, horizon: int | None, semiring: Semiring[Any]) -> None:
        self.chain, self.horizon, self.semiring, self.device = chain, horizon, semiring, chain.device
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
        self.totals = semiring.log(some)  # by the number of tokens

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

    @property
    def nbytes(self) -> int:
        """The size of the messages in bytes."""
        return size_of(self._rows.predicted)

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        left = budgets.to(self.device)
        ended = self.semiring.gather(self._empty, torch.zeros_like(left), 0)
        self._rows = DenseRows(self._filter.initial(len(left)), ended, left)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        sr, now, moving = self.semiring, self._rows, moving.to(self.device)
        tokens = tokens.to(self.device).masked_fill(~moving, 0)
        filtered, predicted = self._filter.append(now.predicted, tokens, moving)
        ended = where(sr, moving, dot(sr, filtered, self._last), now.ended)
        self._rows = DenseRows(predicted, ended, now.left - moving.long())

    def select(self, indices: Tensor | Sequence[int]) -> None:
        rows, now = torch.as_tensor(indices).to(self.device), self._rows
        predicted, ended = (columns_of(self.semiring, x, rows) for x in (now.predicted, now.ended))
        self._rows = DenseRows(predicted, ended, now.left[rows])

    def log_weights(self) -> tuple[Float[Tensor, "batch vocab"]]:
        """Return log m(v) of each row, −∞ where no token is left."""
        left = self._rows.left
        after = torch.zeros_like(left) if self.horizon is None else (left - 1).clamp(min=0)
        opened = self._filter.open(self._rows.predicted, columns_of(self.semiring, self._ahead, after))
        return (self.semiring.log(opened).T.masked_fill(left.eq(0)[:, None], -torch.inf),)

    def ended(self) -> tuple[Float[Tensor, " batch"]]:
        """Return the log of the root of each row as a complete sequence."""
        return (self.semiring.log(self._rows.ended),)


@final
class DenseQuery(MessageQuery):
    """The next-token query of a chain in a semiring: a :class:`~.protocol.NextTokenQuery`.

    ``horizon``: the largest budget in tokens, or None for no budget. Without a budget the Boolean query asks for acceptance at
    any length; in another semiring ``final`` must be its own backward message (an HMM's ones), else :class:`CircuitError`.

    In Real, rows that lost something to underflow are computed again in float64, then in log space (see
    :class:`~tractile.inference.semirings.scaled_real.Real`).

    Differentiable in the chain's parameters.
    """

    lookahead, log_lookahead = no_hmm, no_hmm

    def __init__(self, chain: Chain, horizon: int | None, semiring: Semiring[Any]) -> None:
        check_horizon(horizon, "NextToken")
        chain = at_least_single(chain)
        self.chain, self.horizon, self.semiring = chain, horizon, semiring
        self.automaton = chain if isinstance(chain, Automaton) else None
        self.device, self.vocab_size = chain.device, chain.vocab_size
        super().__init__(DenseMessages(chain, horizon, semiring))
        wider = arithmetics(chain)[1:] if isinstance(semiring, Real) else []
        self._wider = [partial(DenseMessages, cast(Chain, c), horizon, s) for c, s in wider]

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        found: Tensor = self._messages.totals
        if bool(found.isnan().any()):
            found = self._history.shared(
                "possible", lambda: DenseMessages(self.chain, self.horizon, Boolean())
            ).totals
        return found > -torch.inf

    def log_weights(self) -> Float[Tensor, "batch vocab"]:
        found = self._messages.log_weights()
        return self._history.recovered(found, self._wider, DenseMessages.log_weights)[0]

    def ended(self) -> Float[Tensor, " batch"]:
        return self._history.recovered(self._messages.ended(), self._wider, DenseMessages.ended)[0]
