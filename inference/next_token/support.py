"""The Boolean query on HMM × automaton, with work for what is live: which tokens have positive probability, exactly.

    possible(v) = ⋁_{s, e: s → s'} [v ∈ label(e)] ∧ ⋁_h [B[h, v] > 0] ∧ [α_s[h] > 0] ∧ [(A β_{r−1})[h, s'] > 0]

In P-GCD it tells tokens of probability zero from those whose score fell below the range of the precision. Messages are
zeros and ones, set anew after every step, and the positive parameters of the HMM are made equal row by row, so that no sum
of them is near the limits of any precision. A step costs what a step of P-GCD costs; the backward messages, one sweep that
ends where it is constant, are computed when they are first asked for.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from .backward_table import Backward, BackwardMessage, BackwardRecursion
from .emission_table import Scores
from .pgcd import PGCDQuery
from .range import Belief


class SupportQuery(PGCDQuery):
    """Which tokens an HMM and an automaton together give positive probability: P-GCD in Boolean arithmetic."""

    def __init__(self, hmm: HMM, automaton: Automaton, horizon: int) -> None:
        super().__init__(hmm.map(_even), automaton, horizon)

    def _backward(self) -> Backward:
        return SupportMessages(self.hmm, self.automaton, self._span)

    def emitted(self, rows: Int[Tensor, " rows"]) -> Bool[Tensor, "rows vocab"]:
        """Whether the HMM alone can emit each token after the prefix."""
        return self._table.all_tokens((self._prior.alpha[rows] > 0).to(self._dtype)) > 0

    def possible(self, rows: Int[Tensor, " rows"]) -> Bool[Tensor, "rows vocab"]:
        """Whether the HMM can emit each token and go on to an accepted sequence within the budget."""
        return self._score().product[rows] > -torch.inf

    def believes(self) -> Bool[Tensor, " batch"]:
        """Whether the HMM gives the prefix positive probability."""
        return (self._prior.alpha > 0).any(1)

    def ends(self) -> Bool[Tensor, " batch"]:
        """Whether the prefix has positive probability and is accepted as it is."""
        ending = ((self._alpha.alpha > 0).any(1) & (self._final[self._live] > 0)).long()
        counts = torch.zeros(len(self._prior.scale), dtype=torch.long, device=self.device)
        return counts.index_add(0, self._row, ending) > 0

    def _score(self) -> Scores:
        if self._scored is None:
            self._scored = self._product()
        return self._scored

    def _transition(self, belief: Belief) -> Belief:
        moved = self._move.reached(belief.alpha)
        scale = _log_any(moved)
        return Belief(moved.double(), scale, torch.full_like(scale, -torch.inf))


class SupportMessages:
    """[A β_r > 0] for r = 0, 1, … up to the horizon, computed at the first question and kept as far as they differ."""

    def __init__(self, hmm: HMM, automaton: Automaton, horizon: int) -> None:
        self._hmm, self._automaton, self._horizon = hmm, automaton, horizon
        self._table: Bool[Tensor, "lengths states hidden"] | None = None

    def columns(self, left: Int[Tensor, " queries"], state: Int[Tensor, " queries"]) -> BackwardMessage:
        """The columns for so many tokens left, as zeros and ones, and the logarithms of their largest entries."""
        if self._table is None:
            self._table = self._swept()
        columns = self._table[left.clamp(max=len(self._table) - 1), state]
        return _exact(columns, self._hmm.emission_probs.dtype)

    def _swept(self) -> Bool[Tensor, "lengths states hidden"]:
        sweep = SupportRecursion(self._hmm, self._automaton)
        found = sweep.first()
        tables = [found.columns > 0]
        while len(tables) < self._horizon:
            found = sweep.before(found)
            if torch.equal(tables[-1], more := found.columns > 0):
                break
            tables.append(more)
        return torch.stack(tables)


class SupportRecursion(BackwardRecursion):
    """The recursion of the backward messages with zeros and ones."""

    def _transit(self, beta: Tensor, scale: Tensor, doubt: Tensor, low: Tensor) -> BackwardMessage:
        return _exact(self._move.reached(beta), self.dtype)


def _even(weight: Tensor) -> Tensor:
    """Rows in which every positive weight is the same."""
    positive = (weight > 0).float()
    return positive / positive.sum(-1, keepdim=True)


def _exact(columns: Bool[Tensor, "columns hidden"], dtype: torch.dtype) -> BackwardMessage:
    scale = _log_any(columns)
    return BackwardMessage(columns.to(dtype), scale, torch.full_like(scale, -torch.inf))


def _log_any(rows: Bool[Tensor, "rows hidden"]) -> Float[Tensor, " rows"]:
    """0 for a row with a true entry, −inf for one without."""
    return rows.any(1).double().log()
