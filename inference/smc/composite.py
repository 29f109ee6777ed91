"""Mixtures of proposals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from ...errors import EvidenceError
from .potentials import Potential
from .proposals import Proposal, Tabular, draw_tokens, is_table
from .step import Step


@final
class EitherProposal(Proposal):
    """A mixture of proposals: q(x) = Σ_i weight_i · q_i(x); ``weights`` need not sum to one (default: equal).

    Tokens of tabular parts are weighted by the density of their mixture, W = p_lm / Σ_i weight_i q_i. So one part that is the
    exact local product (GCD) bounds the weights, whatever the others do: W ≤ Σ_x p_lm(x) 1[x allowed] / weight_i (a defensive
    mixture: Hesterberg 1995). A part that is no table of probabilities (AWRS) is chosen with its weight,
    and its tokens have its own weights. The default potential is that of the first part with the largest ``needs``.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> both = tt.inference.smc.EitherProposal([tt.inference.smc.LMProposal(), tt.inference.smc.GCDProposal()], weights=[1, 3])
    >>> post = tt.smc(lm, [], second, both, particles=400, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 1)  # log 0.2 = -1.6
    -1.6
    """

    def __init__(self, proposals: Sequence[Proposal], weights: Sequence[float] | None = None) -> None:
        chosen = [1.0] * len(proposals) if weights is None else list(weights)
        if (
            not proposals
            or len(chosen) != len(proposals)
            or not min(chosen) >= 0
            or not 0 < sum(chosen) < torch.inf
        ):
            raise EvidenceError("EitherProposal: one weight for each proposal, not negative and not all zero")
        self.proposals, self.weights = list(proposals), torch.tensor(chosen, dtype=torch.float64)
        self.needs = max(proposal.needs for proposal in proposals)
        pairs = list(zip(self.proposals, chosen, strict=True))
        tables = [(part, weight) for part, weight in pairs if weight and is_table(part)]
        self._parts = [(part, weight) for part, weight in pairs if weight and not is_table(part)]
        if tables:
            blend = _Mixture(*zip(*tables, strict=True))
            self._parts.append((blend, sum(weight for _, weight in tables)))

    @property
    def potential(self) -> Potential:
        """The default potential of the first part with the largest ``needs``."""
        return max(self.proposals, key=lambda part: part.needs).potential

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        if len(self._parts) == 1:
            return self._parts[0][0].draw(step, generator)
        rows = len(step.rows)
        shares = torch.tensor([weight for _, weight in self._parts], dtype=torch.float64)
        choice, _ = draw_tokens(shares.expand(rows, -1), generator)
        tokens, log_weight = torch.zeros(rows, dtype=torch.long), torch.zeros(rows, dtype=torch.float64)
        for i, (proposal, _) in enumerate(self._parts):
            index = (choice == i).nonzero()[:, 0]
            if len(index):
                tokens[index], log_weight[index] = proposal.draw_checked(step.take(index), generator)
        return tokens, log_weight


@final
class _Mixture(Tabular):
    """The mixture Σ_i weight_i · q_i(x) of tabular proposals, each normalised; a part without mass in a row adds none."""

    def __init__(self, proposals: Sequence[Tabular], weights: Sequence[float]) -> None:
        self._proposals, self._weights = proposals, weights
        self.needs = max(proposal.needs for proposal in proposals)

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        terms = []
        for proposal, weight in zip(self._proposals, self._weights, strict=True):
            belief = proposal.checked(proposal.belief(step), step).double()
            total = belief.logsumexp(dim=1, keepdim=True)
            terms.append(math.log(weight) + belief - total.masked_fill(total.isneginf(), 0.0))
        return torch.stack(terms).logsumexp(dim=0)
