"""Constrained adaptive rejection sampling (Parys et al. 2025, "CARS"): exact samples at a cost that falls with every draw.

The tree of :mod:`.adaptive` keeps an upper bound c̃(x_≤t) ≥ p_lm(C | x_≤t): one minus the mass of continuations known to violate
the constraint. A draw follows q(v) ∝ p_lm(v | x_<t) c̃(x_<t v), so it never enters a prefix known to fail. At a prefix drawn for
the first time the bound falls from b to c̃, and the draw is rejected with probability 1 − c̃ / b. A draw that reaches its end is
accepted: with M = c̃(empty prefix) before the draw,

    P(accepted, x) = Π q(v) · Π c̃ / b = p_lm(x) 1[x ∈ C] / M,

so accepted draws follow p_lm(x | C), whatever was drawn before.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from .adaptive import AdaptiveProposal
from .proposals import GCDProposal, Proposal
from .step import Knowledge, Step


@final
class CARSProposal(Proposal):
    """A proposal for :func:`.rejection_sampling` that avoids every prefix known to fail and learns new ones from its draws.

    Keep the object: later draws are rejected less often. One object is for one language model, prompt, constraint and budget;
    it raises :class:`EvidenceError` if it is used with another. After ``max_prefixes`` prefixes it adds no new ones.

    >>> import math, torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})
    >>> rare = tt.Automaton.from_edges([(0, 1, 1), (1, 1, 2)], 0, [2], 2)  # token 1 twice: p = 0.04
    >>> cars = tt.inference.smc.CARSProposal()
    >>> found = tt.inference.smc.rejection_sampling(lm, [], rare, samples=50, max_new_tokens=2, proposal=cars)
    >>> found.accepted, found.tries < 100, round(math.exp(cars.log_bound), 6)
    (50, True, 0.04)
    """

    needs = Knowledge.BUDGET

    def __init__(self, *, max_prefixes: int = 1 << 20) -> None:
        self._known = AdaptiveProposal(GCDProposal(), max_prefixes=max_prefixes)

    @property
    def log_bound(self) -> float:
        """log M, an upper bound of log p_lm(C) in nats, which never rises; 0 before any draw."""
        return self._known.log_evidence

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        bound = torch.tensor(
            [self._known.future(tuple(prefix.tolist())) for prefix in step.prefixes]
        ).double()
        kept = (self._known.belief(step).logsumexp(1).exp().cpu() / bound).clamp(max=1)
        rejected = torch.rand(len(bound), dtype=torch.float64, generator=generator) >= kept
        tokens, log_weight = self._known.draw(step, generator)
        return tokens, (log_weight.cpu() - kept.log()).masked_fill(rejected, -torch.inf)
