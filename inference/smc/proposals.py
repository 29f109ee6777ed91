"""Proposals: each draws a token X and a weight W, *properly weighted* for language model and constraint,

    E[W · 1{X = x}] = p_lm(x | x_<t) · 1[x is allowed]        for every token x,

so the sampler that multiplies the weights is right whatever the proposal believes; belief only changes the variance.
A tabular proposal gives log q for the whole vocabulary, up to a constant; then X ~ q and W = p_lm(X) / q(X).

    lm          q ∝ p_lm                                      no guidance; W is 0 or 1
    lcd, gcd    q ∝ p_lm · 1[allowed]                         the exact local product (Dang et al. 2026, Eq. 1)
    lookahead   q ∝ p_lm · p_hmm(C | x_≤t)^strength           Bayes' rule with the HMM as the likelihood of C
    mixture     q ∝ p_lm^w · p_hmm(x_t | x_<t, C)^(1-w)       the paper's form (Dang et al. 2026, §4.3)

Rows are unfinished particles; all (rows, vocab) tensors are batch first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from functools import cached_property
from typing import ClassVar, cast, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from ...errors import EvidenceError
from ..guided import ProductQuery
from ..next_token import NextToken


class Knowledge(IntEnum):
    """What a proposal or potential must know of the constraint; the higher of the two is what both are told."""

    LOCAL = 0  # which tokens keep the constraint satisfiable with any number of tokens
    BUDGET = 1  # … within the tokens that are left
    HMM = 2  # … and how probably, by an HMM


class Step:
    """Rows about to be extended by one token: what language model and constraint say of every token.

    ``prefixes`` holds the tokens so far, shape (rows, t). Queries are made when first asked for, and once; ``lookahead``
    and ``conditional`` are for those who declared that they need an HMM.
    """

    def __init__(
        self, log_probs: Float[Tensor, "rows vocab"], query: NextToken, prefixes: Int[Tensor, "rows t"]
    ) -> None:
        self.log_probs, self.prefixes, self._query = log_probs, prefixes, query

    @cached_property
    def mask(self) -> Bool[Tensor, "rows vocab"]:
        """The tokens that the constraint allows."""
        return self._query.mask().to(self.log_probs.device)

    @cached_property
    def lookahead(self) -> Float[Tensor, "rows vocab"]:
        """log p_hmm(C | x_<t, x): -inf exactly where ``mask`` is False."""
        return self._supported(cast(ProductQuery, self._query).lookahead())

    @cached_property
    def conditional(self) -> Float[Tensor, "rows vocab"]:
        """log p_hmm(x | x_<t, C)."""
        return self._supported(self._query.scores())

    def _supported(self, belief: Tensor) -> Tensor:
        """Checks that the HMM rules out nothing that is possible: the samples would be biased without a sign of it."""
        belief = belief.to(self.log_probs.device)
        lost = self.mask & belief.isneginf() & ~self.log_probs.isneginf()
        if bool(lost.any()):
            token = int(lost.any(dim=0).nonzero()[0])
            raise EvidenceError(
                f"the HMM gives probability zero to token {token}, which language model and constraint allow; "
                "smooth the HMM's parameters so that every token keeps some probability"
            )
        return belief.masked_fill(~self.mask, -torch.inf)


class Proposal(ABC):
    """A way to draw the next token of every row."""

    needs: ClassVar[Knowledge]

    @abstractmethod
    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Tokens and log-weights (float64), properly weighted for p_lm · 1[allowed]; -inf if no token is."""


class Tabular(Proposal):
    """A proposal that gives its probabilities for the whole vocabulary."""

    @abstractmethod
    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        """log q up to a constant for each row."""

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        belief = self.belief(step)
        top = belief.amax(dim=1, keepdim=True).clamp(
            min=torch.finfo(belief.dtype).min
        )  # finite without any mass too
        tokens, total = draw_tokens((belief - top).exp_(), generator)
        log_q = belief.gather(1, tokens[:, None])[:, 0].double() - top[:, 0].double() - total.log()
        return tokens, self.log_weight(step, log_q, tokens)

    def log_weight(
        self, step: Step, log_q: Float[Tensor, " rows"], tokens: Int[Tensor, " rows"]
    ) -> Float[Tensor, " rows"]:
        """log p_lm(token) − log q(token), -inf if the constraint forbids the token."""
        p, allowed = (table.gather(1, tokens[:, None])[:, 0] for table in (step.log_probs, step.mask))
        return (p.double() - log_q.double()).masked_fill(~allowed | p.isneginf(), -torch.inf)


@final
class LMProposal(Tabular):
    """The language model itself; a token that leaves no way to satisfy the constraint kills its particle."""

    needs = Knowledge.BUDGET

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        return step.log_probs


@final
class LCDProposal(Tabular):
    """Locally constrained decoding: the tokens after which some continuation of any length would do."""

    needs = Knowledge.LOCAL

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        return step.log_probs.masked_fill(~step.mask, -torch.inf)


@final
class GCDProposal(Tabular):
    """Globally constrained decoding: the tokens after which a continuation within the budget would do."""

    needs = Knowledge.BUDGET

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        return step.log_probs.masked_fill(~step.mask, -torch.inf)


@final
class LookaheadProposal(Tabular):
    """The language model's next token times the HMM's view of the future, p_hmm(C | x_≤t) to the power ``strength``."""

    needs = Knowledge.HMM

    def __init__(self, strength: float = 1.0) -> None:
        if strength < 0:
            raise EvidenceError(f"LookaheadProposal: the strength must not be negative, it is {strength}")
        self.strength = strength

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        return (step.log_probs + self.strength * step.lookahead).masked_fill(~step.mask, -torch.inf)


@final
class MixtureProposal(Tabular):
    """p_lm to the power ``w`` times the HMM's constrained next-token probability to the power 1 − ``w``."""

    needs = Knowledge.HMM

    def __init__(self, w: float = 0.5) -> None:
        if not 0 <= w <= 1:
            raise EvidenceError(f"MixtureProposal: w must lie between 0 and 1, it is {w}")
        self.w = w

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        possible = step.mask & ~step.log_probs.isneginf()
        return (self.w * step.log_probs + (1 - self.w) * step.conditional).masked_fill(~possible, -torch.inf)


def draw_tokens(
    weights: Float[Tensor, "rows vocab"], generator: Generator
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """One token for each row with probability proportional to its weight, and the rows' total weights (float64).

    By inverting the distribution function at one uniform number: never a token of weight zero, unless all are. The
    numbers are drawn on the CPU, so one seed means one result on any device.
    """
    cumulative = weights.cumsum(dim=1, dtype=torch.float64)
    total = cumulative[:, -1:]
    uniform = torch.rand(len(weights), 1, dtype=torch.float64, generator=generator).to(weights.device)
    point = uniform * total  # below the total: uniform is at most 1 − 2⁻⁵³
    tokens = torch.searchsorted(cumulative, point, right=True)[:, 0].clamp(max=weights.shape[1] - 1)
    return tokens, total[:, 0]
