"""Annealed sequential Monte Carlo over whole texts (Neal 2001; Del Moral, Doucet & Jasra 2006).

    π_λ(x) ∝ q(x) · (W(x) Ψ(x))^λ,      W(x) = Π_t W_t(x) = p_lm(x) 1[x ∈ C] / q(x),      λ: 0 → 1

interpolates between the distribution q of the proposal's sequences and p_lm(x | C) · Ψ(x). From one rung λ' of the ladder to the
next, λ, weights are multiplied by (W Ψ)^(λ − λ'); particles are resampled if their weights are uneven, and moved by
Metropolis–Hastings moves that leave π_λ invariant (:mod:`.kernel`). If only the potential is annealed,
π_λ(x) ∝ p_lm(x) 1[x ∈ C] Ψ(x)^λ.

Sequences of weight zero are dropped at the start. With a given ladder E[Ẑ] = Z. A ladder found by the conditional effective
sample size (Zhou, Johansen & Aston 2016) depends on the particles: Ẑ is consistent, with a bias of order 1 / particles (Beskos
et al. 2016).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from ...circuits.hmm import HMM
from ...errors import EvidenceError
from ...lm.base import LanguageModel, Prompt
from ..arguments import not_negative, short, whole
from .arguments import ConstraintLike, PotentialLike, check_seed
from .kernel import Cut, Kernel, Powers, a_kernel
from .loop import Run
from .particles import Particles
from .posterior import Posterior
from .proposals import Proposal
from .resampling import Resampling, effective_sample_size
from .settings import a_scheme

BISECTIONS = 50  # to find a rung


def annealed(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal | None = None,
    hmm: HMM | str | Path | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    ladder: float | Sequence[float] = 0.5,
    potential_only: bool = False,
    moves: int = 1,
    cut: Cut | None = None,
    potential: PotentialLike | None = None,
    tokenizer: Any = None,
    resampling: str | Resampling = "systematic",
    ess_threshold: float = 0.5,
) -> Posterior:
    """Draw weighted samples like :func:`.smc`, by annealing: the weights of complete texts are raised to powers from 0 to 1.

    All particles are drawn from ``proposal`` to their end, without resampling. Then the power λ of their weights climbs a ladder
    from 0 to 1. At each rung particles are reweighted, resampled if the effective sample size is below ``ess_threshold`` ·
    ``particles``, and moved ``moves`` times. This helps if a text can only be judged as a whole, so that nothing can steer it
    while it grows. Each move at each rung is a pass of the model over all texts.

    ``ladder`` is a share, or the rungs themselves, rising and ending with 1. With a share each rung is found by bisection, so
    that the conditional effective sample size is this share of the particles. Rungs that were found depend on the particles, so
    Ẑ has a bias that vanishes as their number grows; with given rungs E[Ẑ] = Z. The posterior's ``ladder`` has the rungs of a
    run, to be given to another run with another seed.

    With ``potential_only`` the weights of tokens count in full from the start: the rungs are p_lm(x | C) · Ψ(x)^λ. Only the
    potential's final value counts. ``cut`` is as in :func:`.mcmc`, other arguments and errors as in :func:`.smc`.

    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM.random(3, 4, seed=0, dtype=torch.float64)
    >>> lm, few = tt.CircuitLM(hmm), tt.inference.smc.FunctionPotential(lambda text: 0.01 ** text.count("3"))
    >>> settings = dict(particles=64, max_new_tokens=8, potential=few)
    >>> pilot = tt.inference.smc.annealed(lm, [], None, "lm", seed=0, **settings)
    >>> post = tt.inference.smc.annealed(lm, [], None, "lm", seed=1, ladder=pilot.ladder, **settings)
    >>> post.ladder == pilot.ladder
    True
    """
    who = "annealed"
    particles, moves = whole(particles, f"{who}: particles"), whole(moves, f"{who}: moves", 0)
    generator = torch.Generator().manual_seed(check_seed(seed, f"{who}: seed"))
    rungs = _rungs(ladder, f"{who}: ladder")
    threshold = not_negative(ess_threshold, f"{who}: ess_threshold")
    scheme = a_scheme(resampling)
    kernel = a_kernel(who, lm, tokenizer, prompt, fa, proposal, hmm, potential, max_new_tokens, cut)
    climb = _Climb(kernel, potential_only, moves, scheme, threshold)
    return climb.run(particles, rungs, generator)


def _rungs(ladder: Any, name: str) -> float | list[float]:
    """Return the ladder, a share between 0 and 1 or rising powers that end with 1; raise :class:`EvidenceError` otherwise."""
    if isinstance(ladder, Real) and not isinstance(ladder, bool):
        if 0 < float(ladder) < 1:
            return float(ladder)
        raise EvidenceError(
            f"{name} must be a share between 0 and 1, or a list of powers, not {short(ladder)}"
        )
    try:
        rungs = [float(power) for power in ladder]
    except (TypeError, ValueError):
        rungs = []
    rising = all(a < b for a, b in zip([0.0, *rungs], rungs, strict=False))
    if not rungs or not rising or rungs[-1] != 1:
        raise EvidenceError(
            f"{name} must rise from above 0 to 1, as [0.25, 0.5, 1.0] does, not {short(ladder)}"
        )
    return rungs


class _Climb:
    """One run up the ladder."""

    def __init__(
        self, kernel: Kernel, potential_only: bool, moves: int, scheme: Resampling, threshold: float
    ) -> None:
        self.kernel, self.potential_only, self.moves = kernel, potential_only, moves
        self.scheme, self.threshold = scheme, threshold
        self.ess_trace: list[float] = []
        self.resampled: list[int] = []
        self.ladder: list[float] = []

    def run(self, count: int, rungs: float | list[float], generator: Generator) -> Posterior:
        """Draw ``count`` particles, climb the ladder, and return their posterior."""
        run = Run(self.kernel.settings, self.kernel.prompt, count, generator)
        drawn = self.kernel.draw(count, generator)
        drawn.log_weight = self._log_gain(drawn, self._powers(0.0), Powers(0.0, 0.0))
        particles, power = self._settle(drawn, 0.0, generator), 0.0
        while power < 1 and bool((particles.log_weight > -torch.inf).any()):
            after = (
                self._next(particles, power, rungs) if isinstance(rungs, float) else rungs[len(self.ladder)]
            )
            gain = self._log_gain(particles, self._powers(after), self._powers(power))
            particles.log_weight = particles.log_weight + gain
            self.ladder.append(after)
            particles, power = self._settle(particles, after, generator), after
        run.particles, run.ess_trace, run.resampled = particles, self.ess_trace, self.resampled
        return replace(run.posterior(), ladder=tuple(self.ladder))

    def _powers(self, power: float) -> Powers:
        return Powers(1.0 if self.potential_only else power, power)

    def _log_gain(self, particles: Particles, after: Powers, before: Powers) -> Float[Tensor, " particles"]:
        """Return log π_after(x) − log π_before(x), up to a constant; −∞ for sequences of weight zero."""
        gain = Powers(after.weights - before.weights, after.potential - before.potential)
        return particles.log_value(torch.zeros_like(particles.length), *gain)

    def _settle(self, particles: Particles, power: float, generator: Generator) -> Particles:
        """Resample if weights are uneven, and move the particles; at power 0 they are moved only after resampling."""
        count, ess = len(particles), effective_sample_size(particles.log_weight)
        self.ess_trace.append(ess)
        uneven = 0 < ess < self.threshold * count
        if uneven:
            self.resampled.append(len(self.ess_trace) - 1)
            particles = particles.numbered().descendants(self.scheme, count, generator)
        if uneven or power:
            kernel, log_weight = replace(self.kernel, powers=self._powers(power)), particles.log_weight
            for _ in range(self.moves):
                particles, _ = kernel.move(particles, generator)
            particles.log_weight = log_weight
        return particles

    def _next(self, particles: Particles, power: float, share: float) -> float:
        """Return the power at which the conditional effective sample size falls to ``share``, or 1 if that is beyond 1."""
        weights = particles.log_weight.softmax(0)
        low, high = power, 1.0
        for n in range(BISECTIONS):
            tried = (low + high) / 2 if n else 1.0
            gain = self._log_gain(particles, self._powers(tried), self._powers(power))
            if conditional_ess(weights, gain) >= share:
                low = tried
            else:
                high = tried
            if low == 1.0:
                return 1.0
        return high


def conditional_ess(weights: Float[Tensor, " n"], log_gain: Float[Tensor, " n"]) -> float:
    """Return (Σ W w)² / Σ W w² for normalised weights W and gains w = exp(log_gain): a share of particles, from 0 to 1."""
    alive = weights > 0
    top = log_gain[alive].max()
    gain = (log_gain[alive] - top).exp()
    return float((weights[alive] @ gain) ** 2 / (weights[alive] @ gain**2))
