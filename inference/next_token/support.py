"""The Boolean query on HMM × automaton: which tokens have positive probability, exactly.

    possible(v) = ⋁_{s, e: s → s'} [v ∈ label(e)] ∧ ⋁_h [B[h, v] > 0] ∧ [α_s[h] > 0] ∧ [(A β_{r−1})[h, s'] > 0]

P-GCD uses it to tell tokens of probability zero from those whose score underflowed. Messages are reset to zeros and ones after
every step, and the positive parameters in each row of the HMM are made equal, so that no sum comes near the limits of the
precision. A step costs as much as one of P-GCD. The backward messages are computed at first use, in one sweep that ends once
they are constant.
"""

from __future__ import annotations

from typing import Self, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from .backward_table import BackwardMessage, BackwardRecursion
from .edge_labels import EdgeLabels
from .emission_table import EmissionTable
from .gcd import GCDQuery
from .pgcd_steps import ProductTables, SparseSteps
from .rows import Copied
from .underflow import Belief, Transition


@final
class SupportQuery(Copied):
    """The tokens to which an HMM and an automaton together give positive probability.

    ``masks`` is any mask query of the automaton, of which a fork is used, and ``betas`` its Boolean backward messages if
    distances do not suffice for its masks.
    """

    def __init__(
        self, hmm: HMM, automaton: Automaton, horizon: int, masks: GCDQuery, betas: Tensor | None = None
    ) -> None:
        hmm, labels = hmm.map(_even), EdgeLabels(automaton)
        self._dtype = hmm.emission_probs.dtype
        self._emission = EmissionTable(hmm.emission_probs, labels, self._dtype)
        move, backward = BooleanFilter(hmm), SupportMessages(hmm, automaton, horizon)
        tables = ProductTables(hmm, automaton, backward, self._emission, betas)
        self._steps = SparseSteps(tables, masks.fork(), move)

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._steps = self._steps.fork()
        return out

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin one empty prefix per budget."""
        self._steps.begin(budgets)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows where ``moving`` is True."""
        self._steps.advance(tokens.masked_fill(~moving, 0), moving)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep the rows ``indices``, in that order."""
        self._steps.select(indices)

    def hidden_states(self) -> Bool[Tensor, "batch hidden"]:
        """Return whether each hidden state is possible after the prefix, before the next token."""
        return self._steps.state.prior.alpha > 0

    def emitted(self, rows: Int[Tensor, " rows"]) -> Bool[Tensor, "rows vocab"]:
        """Return whether the HMM alone can emit each token after the prefix."""
        return self._emission.all_tokens(self.hidden_states()[rows].to(self._dtype)) > 0

    def possible(self, rows: Int[Tensor, " rows"]) -> Bool[Tensor, "rows vocab"]:
        """Return whether the HMM can emit each token and go on to an accepted sequence within the budget."""
        return self._steps.scores().product[rows] > -torch.inf

    def believes(self) -> Bool[Tensor, " batch"]:
        """Return whether the HMM gives the prefix positive probability."""
        return self.hidden_states().any(1)

    def ends(self) -> Bool[Tensor, " batch"]:
        """Return whether the prefix is an accepted sequence of positive probability."""
        return self._steps.log_ended()[0] > -torch.inf


@final
class BooleanFilter:
    """The transition of a Boolean belief: which hidden states are possible after it."""

    def __init__(self, hmm: HMM) -> None:
        self._transition = Transition(hmm.transition.T, hmm.emission_probs.dtype)

    def __call__(self, belief: Belief) -> Belief:
        moved = self._transition.reached(belief.alpha)
        scale = moved.any(1).double().log()
        return Belief(moved.double(), scale, torch.full_like(scale, -torch.inf))


@final
class SupportMessages:
    """[A β_r > 0] for r = 0, 1, … up to the horizon or until constant, computed at first use."""

    def __init__(self, hmm: HMM, automaton: Automaton, horizon: int) -> None:
        self._hmm, self._automaton, self._horizon = hmm, automaton, horizon
        self._table: Bool[Tensor, "lengths states hidden"] | None = None

    def columns(self, left: Int[Tensor, " queries"], state: Int[Tensor, " queries"]) -> BackwardMessage:
        """Return F_left[:, state] as zeros and ones for each pair of ``left`` and ``state``."""
        if self._table is None:
            self._table = self._swept()
        columns = self._table[left.clamp(max=len(self._table) - 1), state]
        return BackwardMessage.of_support(columns, self._hmm.emission_probs.dtype)

    def _swept(self) -> Bool[Tensor, "lengths states hidden"]:
        recursion = BackwardRecursion(self._hmm, self._automaton, boolean=True)
        found = recursion.first()
        tables = [found.columns > 0]
        while len(tables) < self._horizon:
            found = recursion.before(found)
            if torch.equal(tables[-1], more := found.columns > 0):
                break
            tables.append(more)
        return torch.stack(tables)


def _even(weight: Tensor) -> Tensor:
    """Make the positive weights of each row equal, with sum one."""
    positive = (weight > 0).float()
    return positive / positive.sum(-1, keepdim=True)
