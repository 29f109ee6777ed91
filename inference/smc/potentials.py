"""Potentials: the targets between the first token and the last,

    target_t(x_≤t) = p_lm(x_≤t) · Ψ(x_≤t),        weight_t / weight_{t-1} = p_lm(x_t) / q(x_t) · Ψ(x_≤t) / Ψ(x_<t),

with Ψ(empty) = 1. They decide which unfinished particles survive resampling. Once a sequence is complete Ψ is 1 if it
satisfies the constraint and 0 if not, so the ratios telescope and the final target is p_lm(x) · 1[x ∈ C], whatever the
values in between. The proposal has already accounted for the support, so prefixes here are never outside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .proposals import Knowledge, Step


class Potential(ABC):
    """What an unfinished prefix promises."""

    needs: ClassVar[Knowledge]

    @abstractmethod
    def log_value(self, step: Step, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """log Ψ(prefix, token) of each row (float64), finite wherever the constraint can still be satisfied."""


@final
class PrefixPotential(Potential):
    """φ(x_≤t) = p_lm(x_≤t) · 1[the constraint can still be satisfied]: nothing is said of how probable that is."""

    needs = Knowledge.LOCAL

    def log_value(self, step: Step, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        return torch.zeros(len(tokens), dtype=torch.float64, device=tokens.device)


@final
class LookaheadPotential(Potential):
    """φ_pgcd(x_≤t) = p_lm(x_≤t) · p_hmm(C | x_≤t) (Dang et al. 2026, §4.3)."""

    needs = Knowledge.HMM

    def log_value(self, step: Step, tokens: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        return step.lookahead.gather(1, tokens[:, None])[:, 0].double()
