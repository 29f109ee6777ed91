"""Constrain rows of logits for engines that choose the tokens themselves: mask tokens, and weigh the others by an HMM.

    logits(x) ← logits(x) + strength · (log p_hmm(C | x_<t, x) − log p_hmm(C | x_<t))     if x is allowed, else −∞

Without an HMM the lookahead term is absent (globally constrained decoding). Where x ends the text, p_hmm(C | x_<t, x) is 1.
The lookahead terms of a sequence telescope: its total score is log p_lm(x) plus a constant, whatever the HMM. With a
``mixture`` weight w, instead,

    logits(x) ← w · log p_lm(x | x_<t) + (1 − w) · log p_hmm(x | x_<t, C)                 (Dang et al. 2026, §4.3)

What the mask keeps of the model at a step is log Σ_{x allowed} p_lm(x | x_<t), with or without an HMM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..circuits.automaton import UNREACHABLE, Automaton
from ..errors import BudgetTooSmall, EvidenceError, VocabularyMismatch
from ..fingerprints import FEWER_OUTPUTS
from ..inference.next_token.protocol import NextTokenQuery
from ..inference.next_token.shortest import with_shortest
from ..inference.smc.step import Step

NEVER = torch.iinfo(torch.long).max


@final
class ConstrainedRows:
    """A batch of texts under a constraint C, whose tokens the caller chooses.

    A row that is complete, out of budget or outside C is offered end-of-sequence alone. ``query``: a next-token query of an
    automaton with an end-of-sequence token, its horizon at least the largest budget. ``strength`` and ``mixture`` (w) are the
    weights above, for a query with an HMM.
    """

    def __init__(self, query: NextTokenQuery, *, strength: float = 1.0, mixture: float | None = None) -> None:
        automaton = query.automaton
        if automaton is None or (eos := automaton.eos_token_id) is None:
            raise EvidenceError("the automaton has no end-of-sequence token to stop at")
        check_weights(strength, mixture)
        self._query, self._automaton, self._eos = query, automaton, eos
        self._strength, self._mixture = strength, mixture
        # The allowed tokens of each row, and the lengths at which it left the constraint (padding after the end, a lost beam)
        # and at which its text ended.
        self._allowed: Bool[Tensor, "rows vocab"]
        self._left_at: Int[Tensor, " rows"]
        self._ended_at: Int[Tensor, " rows"]
        self._length = 0

    def begin(self, prefixes: Int[Tensor, "rows length"], budgets: Int[Tensor, " rows"]) -> None:
        """Start one row for each prefix (−1: padding), with its budget: tokens still to come, end-of-sequence included.

        Raises :class:`BudgetTooSmall`, with the row as its ``prompt``, if no text fits a budget, and :class:`EvidenceError` if no
        accepted text begins with a prefix.
        """
        there, row = prefixes >= 0, 0
        lengths = budgets + there.sum(1)
        try:
            for row in there.any(1).nonzero()[:, 0].tolist():
                check_prefix(self._automaton, prefixes[row, there[row]].tolist(), int(budgets[row]))
            row = int(lengths.argmin()) if len(lengths) else 0
            self._query.start(len(prefixes), lengths)
        except BudgetTooSmall as error:
            own = prefixes[row, there[row]].tolist() if len(prefixes) else []
            raise with_shortest(error, self._automaton, own).of_prompt(row) from None
        self._left_at, self._length = torch.full((len(prefixes),), NEVER), 0
        self._ended_at = self._left_at.clone()
        self._allowed = self._query.mask().cpu()
        for tokens in prefixes.T:
            self.append(tokens)

    def append(self, tokens: Int[Tensor, " rows"]) -> None:
        """Append one token to each row; −1 leaves a row as it is."""
        moving = tokens >= 0
        self._length += 1
        leaves = ~self.allows(tokens) & moving & ~self._left
        self._left_at[leaves] = self._length
        self._ended_at[(tokens == self._eos) & ~self.ended] = self._length
        if bool(self._left.any()):  # outside C the query only needs some token that it allows
            tokens = torch.where(self._left, self._query.mask().cpu().int().argmax(dim=1), tokens)
        if bool(moving.all()):
            self._query.advance(tokens)
        else:
            self._query.advance_some(tokens, moving)
        self._read()

    def allows(self, tokens: Int[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Return whether the token of each row is among those that it is offered."""
        known = (tokens >= 0) & (tokens < self._allowed.shape[1])
        return self._allowed.gather(1, tokens.where(known, 0)[:, None])[:, 0] & known

    def rollback(self, n: int) -> None:
        """Take back the last ``n`` calls of :meth:`append` in every row; a :meth:`select` since then is not undone.

        Raises :class:`ShapeError` if there were fewer than ``n`` calls since :meth:`begin`.
        """
        if not n:
            return
        self._query.rollback(n)
        self._length -= n
        for at in (self._left_at, self._ended_at):
            at[at > self._length] = NEVER
        self._read()

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep these rows, in this order, with repetitions."""
        self._query.select(indices)
        self._allowed, self._left_at = self._allowed[indices], self._left_at[indices]
        self._ended_at = self._ended_at[indices]

    def apply(self, scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        """Return the scores weighed by the HMM, if there is one, and −∞ for forbidden tokens and columns past the vocabulary.

        Raises :class:`VocabularyMismatch` if there are fewer columns than the automaton has tokens, and
        :class:`EvidenceError` if the HMM gives probability zero to a token that is possible.
        """
        vocab = self._query.vocab_size
        if scores.shape[1] < vocab:
            raise VocabularyMismatch(
                f"the automaton has {vocab:,} tokens, the model {scores.shape[1]:,}; compile the constraint with the model's "
                f"tokenizer; if that was done, {FEWER_OUTPUTS}"
            )
        offered = scores[:, :vocab]
        if self._query.has_lookahead:
            over = self._over().to(scores.device)[:, None]
            offered = torch.where(over, offered, self._steered(offered, self._query))
        constrained = torch.full_like(scores, -torch.inf)
        constrained[:, :vocab] = offered.masked_fill(~self._allowed.to(scores.device), -torch.inf)
        return constrained

    def log_kept(self, scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, " rows"]:
        """Return the log of the mass that softmax(scores) has on the allowed tokens, in nats; 0 for rows that have ended.

        The mass of columns past the vocabulary is lost. At least in float32.
        """
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        forbidden = ~self._allowed.to(scores.device)
        kept = scores[:, : forbidden.shape[1]].masked_fill(forbidden, -torch.inf).logsumexp(1)
        return (kept - scores.logsumexp(1)).clamp(max=0).masked_fill(self.ended.to(scores.device), 0)

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
        """Read the allowed tokens of each row from the query."""
        self._allowed = self._query.mask().cpu()
        self._allowed[self._over()] = torch.arange(self._allowed.shape[1]) == self._eos

    @property
    def ended(self) -> Bool[Tensor, " rows"]:
        """Rows whose text has ended with end-of-sequence."""
        return self._ended_at <= self._length

    @property
    def _left(self) -> Bool[Tensor, " rows"]:
        """Rows that have left the constraint."""
        return self._left_at <= self._length

    def _over(self) -> Bool[Tensor, " rows"]:
        """Return which rows may only end: outside the constraint, or out of budget."""
        return self._left | (self._query.remaining.cpu() <= 0)


@final
class GroupedRows:
    """Rows under several constraints: those of each have a :class:`ConstrainedRows` of their own, a part of ``parts``.

    Methods are those of a part. ``select`` keeps the part of every row.
    """

    def __init__(self, parts: Sequence[ConstrainedRows]) -> None:
        self._parts = parts
        self._members: list[Int[Tensor, " own"]]  # the rows of each part
        self._place: Int[Tensor, " rows"]  # the number of each row among those of its part

    def begin(
        self,
        prefixes: Int[Tensor, "rows length"],
        budgets: Int[Tensor, " rows"],
        part_of: Int[Tensor, " rows"],
    ) -> None:
        """Start one row for each prefix, under the constraint of its part. Raises what the parts raise, for a row of all."""
        self._members = [(part_of == part).nonzero()[:, 0] for part in range(len(self._parts))]
        self._place = torch.zeros_like(part_of)
        for part, rows in self._each():
            self._place[rows] = torch.arange(len(rows))
            try:
                part.begin(prefixes[rows], budgets[rows])
            except BudgetTooSmall as error:
                raise error.of_prompt(int(rows[error.prompt or 0])) from None

    def append(self, tokens: Int[Tensor, " rows"]) -> None:
        for part, rows in self._each():
            part.append(tokens[rows])

    def rollback(self, n: int) -> None:
        for part, _ in self._each():
            part.rollback(n)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        for part, rows in self._each():
            part.select(self._place[indices[rows]])

    def apply(self, scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, "rows vocab"]:
        if len(self._parts) == 1:
            return self._parts[0].apply(scores)
        constrained = torch.empty_like(scores)
        for part, rows in self._each():
            rows = rows.to(scores.device)
            constrained[rows] = part.apply(scores[rows])
        return constrained

    def log_kept(self, scores: Float[Tensor, "rows vocab"]) -> Float[Tensor, " rows"]:
        found = scores.new_empty(len(scores), dtype=torch.promote_types(scores.dtype, torch.float32))
        for part, rows in self._each():
            rows = rows.to(scores.device)
            found[rows] = part.log_kept(scores[rows])
        return found

    def _each(self) -> Iterator[tuple[ConstrainedRows, Int[Tensor, " own"]]]:
        return zip(self._parts, self._members, strict=True)


def check_weights(strength: float, mixture: float | None) -> None:
    """Raise :class:`EvidenceError` unless ``strength`` is finite and not negative and ``mixture`` in [0, 1] or None."""
    if not 0 <= strength < float("inf") or (mixture is not None and not 0 <= mixture <= 1):
        raise EvidenceError(
            f"the strength of the lookahead must not be negative and the mixture between 0 and 1, not {strength}, {mixture}"
        )


def check_prefix(fa: Automaton, tokens: list[int], budget: int) -> None:
    """Raise :class:`EvidenceError` if no accepted text begins with these tokens, :class:`BudgetTooSmall` if none ends within
    ``budget`` more tokens."""
    needed = fa.fewest_after(tokens)
    if needed >= UNREACHABLE:
        raise EvidenceError(
            f"no text of the constraint begins with the tokens {tokens}, which are there already"
        )
    if needed > budget:
        raise BudgetTooSmall(needed=needed, given=budget, exact=fa.distances_are_exact)
