"""The Metropolis–Hastings move on complete sequences that leaves p_lm(x | C) · Ψ(x) invariant (Gonzalez et al. 2025).

Cut x of L tokens at a place i drawn with c(i | L), draw another suffix from the proposal, and keep the result y with

    probability  min(1,  c(i | L_y) Ψ(y) Π_{t≥i} W_t(y)  /  c(i | L_x) Ψ(x) Π_{t≥i} W_t(x))           (Metropolis–Hastings)

where W_t is the weight with which a token was drawn. For a tabular proposal that is p_lm / q. If the weight is random (AWRS,
characters), the state of the chain is the sequence *with its weights*: draws are properly weighted, so the sequences
follow the target (a pseudo-marginal chain: Andrieu & Roberts 2009). The weights of a kept prefix are not drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from ...errors import EvidenceError, NoParticleSurvived
from .calibration import settle
from .loop import run_together
from .particles import Particles
from .potentials import Potential
from .proposals import draw_tokens
from .request import Request
from .run import Run

Cut = Callable[[int], Sequence[float]]  # number of tokens → weight of each place at which to cut


@dataclass(frozen=True)
class Kernel:
    """The Metropolis–Hastings move; ``cut(L)`` returns the weights of the places 0 … L − 1 at which to cut L tokens."""

    request: Request
    factors: Sequence[Potential] = ()
    cut: Cut | None = None

    def start(self, count: int, generator: Generator, tries: int = 100) -> Particles:
        """Draw a sequence for each of ``count`` chains, by weight from max(``count``, 16) draws of the proposal.

        Raises :class:`NoParticleSurvived` if no draw satisfies the constraint in ``tries`` attempts.
        """
        budget, nothing = self.request.max_new_tokens, torch.zeros(max(count, 16), dtype=torch.long)
        for _ in range(tries):
            drawn = self.extend(Particles.start(len(nothing), budget), nothing, budget, generator)
            weight = drawn.log_value(nothing)
            if bool((weight > -torch.inf).any()):
                index, _ = draw_tokens(weight.softmax(0).expand(count, -1), generator)
                return drawn.take(index)
        raise NoParticleSurvived(
            f"none of {tries * len(nothing)} draws satisfies the constraint, so no chain can begin; use another "
            'proposal, such as "gcd" or "pgcd", or a larger max_new_tokens'
        )

    def move(
        self, particles: Particles, generator: Generator, limit: int | None = None
    ) -> tuple[Particles, Bool[Tensor, " particles"]]:
        """Move each particle once; return the particles and which moves were accepted.

        Sequences end after ``limit`` tokens (default: the budget).
        """
        limit = self.request.max_new_tokens if limit is None else limit
        place, _ = draw_tokens(self._cuts(particles.length).exp(), generator)
        proposed = self.extend(particles, place, limit, generator)
        chance = torch.rand(len(place), dtype=torch.float64, generator=generator).log()
        accepted = chance < self.log_acceptance(particles, proposed, place)
        return particles.where(accepted, proposed), accepted

    def log_acceptance(
        self, particles: Particles, proposed: Particles, place: Int[Tensor, " particles"]
    ) -> Float[Tensor, " particles"]:
        """Return the log of the acceptance ratio (may be positive); −∞ for proposed sequences of weight zero."""
        dead = proposed.log_value(place).isneginf()
        before, after = (
            path.log_value(place) + self._cuts(path.length).gather(1, place[:, None])[:, 0]
            for path in (particles, proposed)
        )
        return (after - before).masked_fill(dead, -torch.inf)

    def _cuts(self, length: Int[Tensor, " particles"]) -> Float[Tensor, "particles places"]:
        """Return log c(i | L) for each particle of length L and each place i; −∞ for i ≥ L."""
        lengths, row = length.unique(return_inverse=True)
        rows = torch.full((len(lengths), max(1, int(length.max()))), -torch.inf, dtype=torch.float64)
        for i, n in enumerate(lengths.tolist()):
            weights = torch.as_tensor([1.0] * n if self.cut is None else self.cut(n), dtype=torch.float64)
            if weights.shape != (n,) or not bool((weights > 0).all()) or not bool(weights.isfinite().all()):
                raise EvidenceError(f"cut({n}) must give {n} positive numbers, one for each place")
            rows[i, :n] = (weights / weights.sum()).log()
        return rows[row]

    def extend(
        self, particles: Particles, keep: Int[Tensor, " particles"], limit: int, generator: Generator
    ) -> Particles:
        """Keep the first ``keep`` tokens of each particle and draw the rest from the proposal, up to ``limit`` tokens."""
        run = Run(self.request, self.factors, len(particles), generator, (particles, keep), undisturbed=limit)
        run_together([run], limit=limit)
        return run.particles


def a_kernel(request: Request, cut: Cut | None, steered: bool = False) -> Kernel:
    """Make the kernel of a request, whose strength is found and whose queries are made.

    ``steered``: the proposal's default potential is multiplied with the given one, for samplers that resample prefixes.
    """
    settle([request])
    twist = request.proposal.potential if steered and not request.steers else None
    factors = [one for one in (twist, request.potential) if one is not None]
    return Kernel(request.prepare(*factors), factors, cut)
