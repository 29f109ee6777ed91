"""Truncation of the next token's distribution: the most probable tokens among those that the constraint allows.

    kept(x_<t) = the top_k most probable allowed tokens; of these, in order, as few as have top_p of their probability

The target is then p_lm(x) · 1[x ∈ C] · Π_t 1[x_t ∈ kept(x_<t)]. Where the constraint allows a token, one is kept: a text can be
finished. With ``top_k=1`` one text is left, the greedy one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from ...errors import EvidenceError
from ..arguments import whole
from .potentials import Potential
from .proposals import Proposal
from .step import Step


@final
class Truncated(Proposal):
    """A proposal that draws among the ``top_k`` most probable allowed tokens, and of these among the nucleus of ``top_p``.

    Raises :class:`EvidenceError` unless ``top_k`` is a whole number, 1 or more, and 0 < ``top_p`` ≤ 1.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.inference.smc import GCDProposal, Truncated
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.5, 0.3, 0.2]).log()})
    >>> last = tt.Automaton.from_edges([(0, [1, 2], 0)], 0, [0], 3)  # never token 0
    >>> tt.smc(lm, [], last, Truncated(GCDProposal(), top_k=1), particles=2, max_new_tokens=3).best.token_ids
    (1, 1, 1)
    """

    def __init__(self, proposal: Proposal, top_k: int | None = None, top_p: float | None = None) -> None:
        self.proposal, self.needs = proposal, proposal.needs
        self.top_k = None if top_k is None else whole(top_k, "top_k")
        if top_p is not None and (isinstance(top_p, bool | str) or not 0 < top_p <= 1):
            raise EvidenceError(f"top_p must be a number above 0, at most 1, not {top_p!r}")
        self.top_p = top_p

    @property
    def potential(self) -> Potential:
        """The potential of the proposal."""
        return self.proposal.potential

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        step.check_log_probs()
        allowed = step.query.mask().to(step.table.device)
        table = self._truncated(step.table.masked_fill(~allowed, -torch.inf))
        return self.proposal.draw(replace(step, table=table), generator)

    def _truncated(self, table: Float[Tensor, "states vocab"]) -> Float[Tensor, "states vocab"]:
        """Return the table with −∞ for tokens that are not kept."""
        most = table.shape[1] if self.top_k is None else min(self.top_k, table.shape[1])
        values, tokens = table.topk(most)
        if self.top_p is not None:
            probs = values.softmax(1).nan_to_num()
            before = probs.cumsum(1) - probs
            values = values.masked_fill(
                (before >= self.top_p) & (torch.arange(most, device=table.device) > 0), -torch.inf
            )
        return torch.full_like(table, -torch.inf).scatter(1, tokens, values)
