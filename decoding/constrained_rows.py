"""Rows of logits under a constraint, for engines that choose the tokens themselves: what may follow, and how it is weighed.

    logits(x) ← logits(x) + strength · (log p_hmm(C | x_<t, x) − log p_hmm(C | x_<t))     if x is allowed, else −∞

without an HMM the middle term is absent (globally constrained decoding); p_hmm(C | …) is 1 where x ends the text. The
difference telescopes, so a sequence's score ends as log p_lm(x) plus a constant, whatever the HMM believes. With a
``mixture`` weight w it is instead

    logits(x) ← w · log p_lm(x | x_<t) + (1 − w) · log p_hmm(x | x_<t, C)                 (Dang et al. 2026, §4.3)
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..circuits.automaton import UNREACHABLE, Automaton
from ..errors import BudgetTooSmall, EvidenceError, VocabularyMismatch
from ..inference.next_token.protocol import NextTokenQuery
from ..inference.smc.step import Step

NEVER = torch.iinfo(torch.long).max


@final
class ConstrainedRows:
    """Rows whose tokens are chosen elsewhere. One that is complete, out of budget or outside C is offered end-of-sequence alone.

    ``query`` is of the budgets' horizon at least, and of an automaton that knows an end-of-sequence token. ``strength`` and
    ``mixture`` are λ and w above, for a query with an HMM.
    """

    def __init__(self, query: NextTokenQuery, *, strength: float = 1.0, mixture: float | None = None) -> None:
        automaton = query.automaton
        if automaton is None or (eos := automaton.eos_token_id) is None:
            raise EvidenceError("the automaton has no end-of-sequence token to stop at")
        check_weights(strength, mixture)
        self._query, self._automaton, self._eos = query, automaton, eos
        self._strength, self._mixture = strength, mixture
        # Of each row: the tokens allowed, and the token with which it left the constraint (padding after its end, a lost beam).
        self._allowed: Bool[Tensor, "rows vocab"]
        self._left_at: Int[Tensor, " rows"]
        self._length = 0

    def begin(self, prefixes: Int[Tensor, "rows length"], budgets: Int[Tensor, " rows"]) -> None:
        """Start rows with the tokens they have (−1: none) and their budgets: tokens still to come, end-of-sequence included.

        Raises :class:`BudgetTooSmall` where nothing fits and :class:`EvidenceError` where a prefix begins no accepted text.
        """
        there = prefixes >= 0
        for row in range(len(prefixes)):
            if bool(there[row].any()):
                check_prefix(self._automaton, prefixes[row, there[row]].tolist(), int(budgets[row]))
        self._query.start(len(prefixes), budgets + there.sum(1))
        self._left_at, self._length = torch.full((len(prefixes),), NEVER), 0
        self._allowed = self._query.mask().cpu()
        for tokens in prefixes.T:
            self.append(tokens)

    def append(self, tokens: Int[Tensor, " rows"]) -> None:
        """One token more for each row; −1 for a row that waits."""
        moving = tokens >= 0
        self._length += 1
        leaves = ~self._allowed.gather(1, tokens.clamp(min=0)[:, None])[:, 0] & moving & ~self._left
        self._left_at[leaves] = self._length
        if bool(self._left.any()):  # they go anywhere
            tokens = torch.where(self._left, self._query.mask().cpu().int().argmax(dim=1), tokens)
        if bool(moving.all()):
            self._query.advance(tokens)
        else:
            self._query.advance_some(tokens, moving)
        self._read()

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` calls of :meth:`append` in every row; rows that were selected since stay selected.

        Raises :class:`ShapeError` for more than there were since :meth:`begin`.
        """
        if not n:
            return
        self._query.rollback(n)
        self._length -= n
        self._left_at[self._left_at > self._length] = NEVER
        self._read()

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep these rows, in this order, with repetitions."""
        self._query.select(indices)
        self._allowed, self._left_at = self._allowed[indices], self._left_at[indices]

    def apply(self, scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        """The scores with everything outside the constraint at −∞; columns past the automaton's tokens too.

        Raises :class:`VocabularyMismatch` where there are fewer columns than the automaton has tokens, and
        :class:`EvidenceError` if the HMM gives probability zero to a token that is possible.
        """
        vocab = self._query.vocab_size
        if scores.shape[1] < vocab:
            raise VocabularyMismatch(f"the model has {scores.shape[1]} tokens and the automaton {vocab}")
        offered = scores[:, :vocab]
        if self._query.has_lookahead:
            over = self._over().to(scores.device)[:, None]
            offered = torch.where(over, offered, self._steered(offered, self._query))
        constrained = torch.full_like(scores, -torch.inf)
        constrained[:, :vocab] = offered.masked_fill(~self._allowed.to(scores.device), -torch.inf)
        return constrained

    def _steered(
        self, offered: Float[Tensor, "rows vocab"], query: NextTokenQuery
    ) -> Float[Tensor, "rows vocab"]:
        step = Step(offered, query, torch.empty(len(offered), 0, dtype=torch.long))
        if self._mixture is None:
            lookahead = step.lookahead.clone()
            lookahead[:, self._eos] = 0  # the text is complete, even if the HMM thinks that it goes on
            gain = lookahead - query.log_lookahead()[:, None].to(offered.device)
            return offered + self._strength * gain.to(offered.dtype)
        own = offered.log_softmax(1)
        possible = self._allowed.to(offered.device) & ~own.isneginf()
        mixed = self._mixture * own + (1 - self._mixture) * step.conditional.to(offered.dtype)
        return mixed.masked_fill(~possible, -torch.inf)

    def _read(self) -> None:
        """Ask for the tokens allowed."""
        self._allowed = self._query.mask().cpu()
        self._allowed[self._over()] = torch.arange(self._allowed.shape[1]) == self._eos

    @property
    def _left(self) -> Bool[Tensor, " rows"]:
        """Rows that have left the constraint."""
        return self._left_at <= self._length

    def _over(self) -> Bool[Tensor, " rows"]:
        """Rows in which only end-of-sequence remains."""
        return self._left | (self._query.remaining.cpu() <= 0)


def check_weights(strength: float, mixture: float | None) -> None:
    """Raises :class:`EvidenceError` for weights that have no meaning."""
    if not 0 <= strength < float("inf") or (mixture is not None and not 0 <= mixture <= 1):
        raise EvidenceError(
            f"the strength of the lookahead must not be negative and the mixture between 0 and 1, not {strength}, {mixture}"
        )


def check_prefix(fa: Automaton, tokens: list[int], budget: int) -> None:
    """Raise as :meth:`begin` does unless an accepted text begins with these tokens and ends within ``budget`` more."""
    needed = fa.fewest_after(tokens)
    if needed >= UNREACHABLE:
        raise EvidenceError(
            f"no text of the constraint begins with the tokens {tokens}, which are there already"
        )
    if needed > budget:
        raise BudgetTooSmall(needed=needed, given=budget)
