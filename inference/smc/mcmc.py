"""Markov chains on complete sequences whose stationary distribution is p_lm(x | C) · Ψ(x) (Gonzalez et al. 2025).

One move: cut x of L tokens at a place i drawn with c(i | L), draw another suffix from the proposal, and keep the result y with

    probability  min(1,  c(i | L_y) Ψ(y) Π_{t≥i} W_t(y)  /  c(i | L_x) Ψ(x) Π_{t≥i} W_t(x))           (Metropolis–Hastings)

where W_t is the weight with which a token was drawn. For a tabular proposal that is p_lm / q. Where the weight is random
itself (AWRS, top-k, characters) the state of the chain is the sequence *with its weights*: they are properly weighted, so
the sequences are distributed as they should (a pseudo-marginal chain: Andrieu & Roberts 2009). A weight is never drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from ...circuits.hmm import HMM
from ...errors import EvidenceError, NoParticleSurvived
from ...lm.base import LanguageModel, Prompt
from ..arguments import not_negative, whole
from .arguments import ConstraintLike, PotentialLike, a_potential, check_seed, read
from .calibration import settled
from .loop import Run, run_together, sample_one
from .particles import Particles
from .posterior import Posterior
from .potentials import PrefixPotential
from .proposals import Proposal, draw_tokens
from .resampling import Resampling
from .settings import SamplerSettings, a_proposal, resolve_defaults, settings_of_one

K = TypeVar("K", bound=Hashable)
Cut = Callable[[int], Sequence[float]]


@dataclass(frozen=True)
class Kernel:
    """The Metropolis–Hastings move; ``cut(L)`` gives the weights of the places 0 … L − 1 at which to cut L tokens."""

    settings: SamplerSettings
    prompt: Prompt
    cut: Cut | None = None

    def start(self, count: int, generator: Generator, tries: int = 100) -> Particles:
        """A sequence of positive weight for each of ``count`` chains, each chosen by weight from as many draws as chains.

        Raises :class:`NoParticleSurvived` if ``tries`` times no draw satisfies the constraint.
        """
        width = self.settings.max_new_tokens
        nothing = torch.zeros(max(count, 16), dtype=torch.long)
        for _ in range(tries):
            drawn = self.extend(Particles.start(len(nothing), width), nothing, width, generator)
            weight = drawn.log_value(nothing)
            if bool((weight > -torch.inf).any()):
                index, _ = draw_tokens(weight.softmax(0).expand(count, -1), generator)
                return drawn.take(index)
        raise NoParticleSurvived(
            f"mcmc: none of {tries * len(nothing)} draws satisfies the constraint, so no chain can begin; use another "
            'proposal, such as "gcd" or "pgcd", or a larger max_new_tokens'
        )

    def move(
        self, particles: Particles, generator: Generator, limit: int | None = None
    ) -> tuple[Particles, Bool[Tensor, " particles"]]:
        """The particles after one move, and which were accepted; sequences end after ``limit`` tokens (default: the budget)."""
        limit = self.settings.max_new_tokens if limit is None else limit
        place, _ = draw_tokens(self._cuts(particles.length, limit).exp(), generator)
        proposed = self.extend(particles, place, limit, generator)
        chance = torch.rand(len(place), dtype=torch.float64, generator=generator).log()
        accepted = chance < self.log_acceptance(particles, proposed, place, limit)
        return particles.where(accepted, proposed), accepted

    def log_acceptance(
        self, particles: Particles, proposed: Particles, place: Int[Tensor, " particles"], limit: int
    ) -> Float[Tensor, " particles"]:
        """log of the acceptance ratio (may be positive); −inf for proposals that died."""
        dead = proposed.log_value(place).isneginf()
        before, after = (
            path.log_value(place) + self._cuts(path.length, limit).gather(1, place[:, None])[:, 0]
            for path in (particles, proposed)
        )
        return (after - before).masked_fill(dead, -torch.inf)

    def _cuts(self, length: Int[Tensor, " particles"], limit: int) -> Float[Tensor, "particles places"]:
        """log c(i | L), where L is each length."""
        rows = torch.full((limit + 1, limit), -torch.inf, dtype=torch.float64)
        for n in length.unique().tolist():
            weights = torch.as_tensor([1.0] * n if self.cut is None else self.cut(n), dtype=torch.float64)
            if weights.shape != (n,) or not bool((weights > 0).all()) or not bool(weights.isfinite().all()):
                raise EvidenceError(f"mcmc: cut({n}) must give {n} positive numbers, one for each place")
            rows[n, :n] = (weights / weights.sum()).log()
        return rows[length]

    def extend(
        self, particles: Particles, keep: Int[Tensor, " particles"], limit: int, generator: Generator
    ) -> Particles:
        """Keep the first ``keep`` tokens of each particle and draw the rest from the proposal, up to ``limit`` tokens."""
        run = Run(self.settings, self.prompt, len(particles), generator, (particles, keep))
        run_together([run], limit=limit)
        return run.particles


@dataclass(frozen=True)
class Draw:
    """One state of a chain: its tokens (end-of-sequence included), text, and log p_lm(tokens) in nats."""

    token_ids: tuple[int, ...]
    text: str
    log_prob: float


@dataclass(frozen=True)
class Chains:
    """Samples of several chains: ``draws[c]`` are those kept of chain c, one after another.

    ``trace`` has log p_lm(x) + log Ψ(x) of every chain's start and after each move, burn-in included, in nats.
    """

    draws: Sequence[Sequence[Draw]]
    acceptance_rate: float
    trace: Float[Tensor, "chains moves"]

    @property
    def samples(self) -> list[Draw]:
        """The samples of all chains, of equal weight."""
        return [draw for chain in self.draws for draw in chain]

    def expectation(self, f: Callable[[Draw], float]) -> float:
        """The mean of f over the samples: the estimate of E[f(x)] under p_lm(x | C) · Ψ(x)."""
        return sum(f(draw) for draw in self.samples) / len(self.samples)

    def group_by(self, key: Callable[[Draw], K]) -> dict[K, float]:
        """The share of each group of samples with equal ``key``, the largest first."""
        counts: dict[K, float] = {}
        for draw in self.samples:
            group = key(draw)
            counts[group] = counts.get(group, 0.0) + 1 / len(self.samples)
        return dict(sorted(counts.items(), key=lambda item: -item[1]))


def mcmc(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal = "pgcd",
    hmm: HMM | str | Path | None = None,
    samples: int = 100,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    chains: int = 4,
    burn_in: int = 20,
    thin: int = 1,
    potential: PotentialLike | None = None,
    tokenizer: Any = None,
    cut: Cut | None = None,
) -> Chains:
    """``samples`` samples from p_lm(x | prompt, x satisfies ``fa`` within ``max_new_tokens`` tokens) · ``potential``.

    They come from ``chains`` chains side by side (one batch of the language model), every ``thin``-th state after
    ``burn_in`` moves. A move cuts a sequence at a place of weight ``cut(length)[place]`` (default: each the same) and draws
    the rest from ``proposal``. Only the potential's final value counts. Samples of a chain depend on each other, and on its
    start until it has forgotten it: look at ``trace`` and ``acceptance_rate``.

    Errors are those of :func:`.smc`; :class:`NoParticleSurvived` if no chain can begin.
    """
    samples, chains, thin = (
        whole(n, f"mcmc: {name}") for n, name in ((samples, "samples"), (chains, "chains"), (thin, "thin"))
    )
    burn_in, seed = whole(burn_in, "mcmc: burn_in", 0), check_seed(seed, "mcmc: seed")
    worth = PrefixPotential() if potential is None else a_potential(potential, "mcmc: potential")
    given = read("mcmc", lm, tokenizer, prompt, None, fa, hmm)
    settings, prompt = settings_of_one(
        "mcmc",
        given.lm,
        given.prompts[0],
        given.fa,
        settled(a_proposal(proposal), given, max_new_tokens),
        given.hmm,
        worth,
        tokenizer=tokenizer,
        max_new_tokens=max_new_tokens,
    )
    generator, kernel = torch.Generator().manual_seed(seed), Kernel(settings, prompt, cut)
    particles = kernel.start(chains, generator)
    trace, kept, accepted = [_log_target(particles)], list[Particles](), 0
    moves = burn_in + thin * -(-samples // chains)
    for n in range(1, moves + 1):
        particles, moved = kernel.move(particles, generator)
        accepted += int(moved.sum())
        trace.append(_log_target(particles))
        if n > burn_in and (n - burn_in) % thin == 0:
            kept.append(particles)
    found = [[_draw(settings.lm, particles, chain) for particles in kept] for chain in range(chains)]
    surplus = chains * len(kept) - samples
    for chain in found[chains - surplus :]:
        chain.pop()
    return Chains(found, accepted / (moves * chains), torch.stack(trace, 1))


def resample_move(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal = "pgcd",
    hmm: HMM | str | Path | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    moves: int = 1,
    cut: Cut | None = None,
    potential: PotentialLike | None = None,
    tokenizer: Any = None,
    resampling: str | Resampling = "systematic",
    ess_threshold: float = 0.5,
) -> Posterior:
    """:func:`.smc` with ``moves`` Metropolis–Hastings moves of every particle after each resampling.

    A move leaves the target of its step, p_lm(x_≤t) · 1[x_≤t can satisfy C] · Ψ(x_≤t), as it is; so weights and the estimate of
    Z stay right, and particles that were copies of one ancestor are no longer equal (Gilks & Berzuini 2001). It reads the
    particles' prefixes again: t calls of the language model after t tokens.

    ``cut`` is that of :func:`.mcmc`; all else, and the errors, those of :func:`.smc`. Potentials must be functions of the
    prefix: not :class:`.RolloutPotential`, which draws its values.
    """
    who = "resample_move"
    particles, moves = whole(particles, f"{who}: particles"), whole(moves, f"{who}: moves", 0)
    generator = torch.Generator().manual_seed(check_seed(seed, f"{who}: seed"))
    worth = None if potential is None else a_potential(potential, f"{who}: potential")
    given = read(who, lm, tokenizer, prompt, None, fa, hmm)
    chosen = settled(a_proposal(proposal), given, max_new_tokens)
    chosen, scheme, worth = resolve_defaults(chosen, resampling, worth)
    settings, prompt = settings_of_one(
        who,
        given.lm,
        given.prompts[0],
        given.fa,
        chosen,
        given.hmm,
        worth,
        tokenizer=tokenizer,
        resampling=scheme,
        ess_threshold=not_negative(ess_threshold, f"{who}: ess_threshold"),
        max_new_tokens=max_new_tokens,
    )
    kernel = Kernel(settings, prompt, cut)

    def move(particles: Particles, steps: int, generator: Generator) -> Particles:
        for _ in range(moves):
            particles, _ = kernel.move(particles, generator, steps)
        return particles

    return sample_one(replace(settings, move=move if moves else None), prompt, particles, generator)


def _log_target(particles: Particles) -> Float[Tensor, " particles"]:
    return particles.log_prob + particles.log_psi


def _draw(lm: LanguageModel, particles: Particles, row: int) -> Draw:
    tokens = particles.token_ids(row)
    return Draw(tokens, lm.decode(tokens), float(particles.log_prob[row]))
