"""The constraint as a logits processor for ``model.generate``: greedy, sampling and beam search, in batches.

    logits(x) ← logits(x) + strength · (log p_hmm(C | x_<t, x) − log p_hmm(C | x_<t))     if x is allowed, else −∞

without an HMM the middle term is absent (globally constrained decoding). The difference telescopes, so a beam's score
ends as log p_lm(x) plus a constant, whatever the HMM believes. What comes out satisfies the constraint within the
budget, but is drawn from the locally renormalised model and not from p_lm(x | constraint): for that there is ``smc``.

``generate`` shows only the token ids of its rows. The prompt is what the first call shows; afterwards each row is
looked up among the rows of the call before, plus one token, so that beams may be reordered, copied and dropped.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...errors import EvidenceError, VocabularyMismatch
from ..guided import ProductQuery, pgcd
from ..masks import MaskQuery, gcd
from .step import Step


@final
class ConstraintLogitsProcessor:
    """Keeps ``model.generate`` inside a constraint; use one for each call of ``generate``, or :meth:`reset` it.

    ``max_new_tokens`` is the budget in tokens, the end-of-sequence token included. If ``generate`` goes on after it,
    only end-of-sequence is offered. ``fa`` must know that token: compile the constraint from a vocabulary.

    The first call raises :class:`BudgetTooSmall` if nothing fits, and :class:`VocabularyMismatch` if the model has
    fewer tokens than the automaton (tokens beyond the automaton's are never offered).
    """

    def __init__(
        self, fa: Automaton, hmm: HMM | None = None, max_new_tokens: int = 64, *, strength: float = 1.0
    ) -> None:
        if fa.eos_token_id is None:
            raise EvidenceError(
                "ConstraintLogitsProcessor: the automaton has no end-of-sequence token to stop generate with"
            )
        self._eos: int = fa.eos_token_id
        self._query: MaskQuery = gcd(fa, max_new_tokens) if hmm is None else pgcd(hmm, fa, max_new_tokens)
        self._strength = strength
        self._seen: Int[Tensor, "rows length"] | None = None
        self._prompt_length = 0
        # Of each row: the tokens allowed, and whether it has left the constraint (padding after its end, a lost beam).
        self._allowed: Bool[Tensor, "rows vocab"]
        self._left: Bool[Tensor, " rows"]

    def reset(self) -> None:
        """Take the rows of the next call as prompts."""
        self._seen = None

    def __call__(
        self, input_ids: Int[Tensor, "rows length"], scores: Float[Tensor, "rows vocab"]
    ) -> Float[Tensor, "rows vocab"]:
        """The scores with everything outside the constraint at −∞."""
        self._follow(input_ids.cpu())
        vocab = self._query.vocab_size
        if scores.shape[1] < vocab:
            raise VocabularyMismatch(f"the model has {scores.shape[1]} tokens and the automaton {vocab}")
        offered = scores[:, :vocab]
        if isinstance(self._query, ProductQuery):
            gain = Step(offered, self._query, input_ids).lookahead - self._query.log_lookahead()[:, None].to(
                scores.device
            )
            offered = offered + self._strength * gain.to(scores.dtype).masked_fill(
                self._over().to(scores.device)[:, None], 0.0
            )
        constrained = torch.full_like(scores, -torch.inf)
        constrained[:, :vocab] = offered.masked_fill(~self._allowed.to(scores.device), -torch.inf)
        return constrained

    def _follow(self, ids: Int[Tensor, "rows length"]) -> None:
        """Bring the query to the state of these rows."""
        seen = self._seen
        if seen is None or ids.shape[1] <= self._prompt_length:
            self._begin(ids)
        elif ids.shape[1] == seen.shape[1] + 1 and (parents := _parents(seen, ids[:, :-1])) is not None:
            self._query.select(parents)
            self._allowed, self._left = self._allowed[parents], self._left[parents]
            self._append(ids[:, -1])
        else:
            self._begin(ids[:, : self._prompt_length])
            for column in ids[:, self._prompt_length :].T:
                self._append(column)
        self._seen = ids

    def _begin(self, prompts: Int[Tensor, "rows length"]) -> None:
        self._prompt_length = prompts.shape[1]
        self._query.start(len(prompts))
        self._left = torch.zeros(len(prompts), dtype=torch.bool)
        self._allowed = self._query.mask().cpu()

    def _append(self, tokens: Int[Tensor, " rows"]) -> None:
        """One token more; rows that have left the constraint go anywhere, and are offered end-of-sequence alone."""
        self._left = self._left | ~self._allowed.gather(1, tokens[:, None])[:, 0]
        if bool(self._left.any()):
            tokens = torch.where(self._left, self._query.mask().cpu().int().argmax(dim=1), tokens)
        self._query.advance(tokens)
        self._allowed = self._query.mask().cpu()
        self._allowed[self._over()] = torch.arange(self._allowed.shape[1]) == self._eos

    def _over(self) -> Bool[Tensor, " rows"]:
        """Rows in which only end-of-sequence remains."""
        return self._left | (self._query.remaining.cpu() <= 0)


def _parents(seen: Int[Tensor, "rows length"], prefixes: Int[Tensor, "rows length"]) -> Tensor | None:
    """For each prefix the index of an equal row of ``seen``; None if some prefix has none."""
    if torch.equal(seen, prefixes):
        return torch.arange(len(seen))
    index = {tuple(row): i for i, row in enumerate(seen.tolist())}
    found = [index.get(tuple(row), -1) for row in prefixes.tolist()]
    return None if -1 in found else torch.tensor(found)
