"""Particle Gibbs: Markov chains that move by conditional SMC (Andrieu, Doucet & Holenstein 2010).

A sweep of a chain at the sequence x runs SMC with K particles, the first of which is x with its weights: it takes its own tokens
and is its own ancestor at every resampling. One of the K final particles, drawn by weight, is the chain's next sequence. The
sweep leaves p_lm(x | C) · Ψ(x) invariant for any K, with multinomial resampling of the others, at times that depend on the
weights. In this distribution E[Σ_k weight_k f(x_k)] = E[f(x)] over all K particles of a sweep, and E[1/Ẑ] = 1/Z, times the
probability that SMC keeps some particle alive (1 for proposals that keep to the budget).

Resampling leaves few ancestors of the first tokens, so a sweep alone changes them rarely. Ancestor sampling (Lindsten, Jordan &
Schön 2014) would help, but needs at every resampling a pass of the language model over the rest of x behind each of the K
prefixes. Instead, Metropolis–Hastings moves (:mod:`.kernel`) follow the sweep: each cuts the sequence at a random place and draws
a new rest, in one pass of one sequence. They also work with proposals of random weights, for which ancestor sampling is
undefined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from ...circuits.hmm import HMM
from ...errors import EvidenceError
from ...lm.base import LanguageModel, Prompt
from ..arguments import not_negative, whole
from .arguments import ConstraintLike, PotentialLike, check_seed
from .chains import Chains, Draw, draw_of
from .islands import pool
from .kernel import Cut, Kernel, a_kernel
from .loop import Run, run_together
from .particles import Particles
from .posterior import Posterior
from .proposals import Proposal, draw_tokens
from .settings import SamplerSettings


def particle_gibbs(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal | None = None,
    hmm: HMM | str | Path | None = None,
    particles: int = 16,
    max_new_tokens: int = 64,
    seed: int = 0,
    *,
    sweeps: int = 20,
    chains: int = 4,
    moves: int = 1,
    until: float | None = None,
    cut: Cut | None = None,
    potential: PotentialLike | None = None,
    tokenizer: Any = None,
    ess_threshold: float = 0.5,
) -> ParticleGibbs:
    """Run ``chains`` Markov chains of ``sweeps`` sweeps of conditional SMC; the result can be refined by more sweeps.

    Each sweep of a chain is :func:`.smc` with ``particles`` particles, one of which is the chain's sequence; ``moves``
    Metropolis–Hastings moves of this sequence follow. All chains are one batch of the language model. More sweeps bring the
    samples closer to the target, as more particles do, without a larger batch. With ``until`` the sweeps stop early, when
    split R̂ falls below it (:meth:`ParticleGibbs.refine`).

    ``cut`` is as in :func:`.mcmc`, other arguments and errors as in :func:`.smc`. Resampling is multinomial. Potentials must be
    functions of the prefix: not :class:`.RolloutPotential`, which draws its values.

    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM.random(3, 4, seed=0, dtype=torch.float64)
    >>> fa = tt.Automaton.from_edges([(0, [0, 1, 2], 0), (0, 3, 1), (1, [0, 1], 1)], 0, [1], 4)
    >>> gibbs = tt.inference.smc.particle_gibbs(tt.CircuitLM(hmm), [], fa, "gcd", particles=4, max_new_tokens=6, sweeps=10)
    >>> gibbs = gibbs.refine(30)  # thirty more
    >>> gibbs.sweeps, len(gibbs.posterior(burn_in=10).texts)
    (40, 480)
    """
    who = "particle_gibbs"
    particles, chains = whole(particles, f"{who}: particles", 2), whole(chains, f"{who}: chains")
    sweeps, moves = whole(sweeps, f"{who}: sweeps", 0), whole(moves, f"{who}: moves", 0)
    seed = check_seed(seed, f"{who}: seed")
    kernel = a_kernel(
        who,
        lm,
        tokenizer,
        prompt,
        fa,
        proposal,
        hmm,
        potential,
        max_new_tokens,
        cut,
        steered=True,
        ess_threshold=not_negative(ess_threshold, f"{who}: ess_threshold"),
    )
    return ParticleGibbs(kernel, particles, chains, moves, seed).refine(sweeps, until)


class ConditionalRun(Run):
    """Conditional SMC for several chains in one run: ``count`` particles for each, the first of which is the chain's sequence."""

    def __init__(
        self, settings: SamplerSettings, prompt: Prompt, states: Particles, count: int, generator: Generator
    ) -> None:
        self._shape = len(states), count
        known = states.take(torch.arange(len(states)).repeat_interleave(count))
        keep = torch.zeros_like(known.length)
        keep[::count] = states.length
        super().__init__(settings, prompt, len(known), generator, (known, keep))

    @property
    def log_weights(self) -> Float[Tensor, "chains particles"]:
        """The log-weights of each chain's particles in nats."""
        return self.particles.log_weight.view(self._shape)

    def resample(self) -> None:
        """Draw ancestors in the chains whose effective sample size is below the threshold."""
        particles, log_weight, count = self.particles, self.log_weights, self._shape[1]
        weights = log_weight.softmax(1)
        uneven = 1 / weights.square().sum(1) < self.settings.ess_threshold * count
        uneven &= particles.growing.view(self._shape).any(1)
        if bool(uneven.any()):
            ancestors = torch.where(uneven[:, None], self.ancestors(weights), torch.arange(count))
            first = count * torch.arange(len(ancestors))[:, None]
            mean = log_weight.logsumexp(1, keepdim=True) - math.log(count)
            self.particles = particles.take((first + ancestors).flatten())
            self.particles.log_weight = torch.where(uneven[:, None], mean, log_weight).flatten()

    def ancestors(self, weights: Float[Tensor, "chains particles"]) -> Int[Tensor, "chains particles"]:
        """Draw ancestors independently; the first particle of each chain is its own ancestor."""
        count = self._shape[1]
        drawn, _ = draw_tokens(weights.repeat_interleave(count, 0), self.generator)
        return drawn.view(self._shape).index_fill(1, torch.tensor(0), 0)

    def chosen(self) -> Particles:
        """Draw one particle of each chain by weight."""
        index, _ = draw_tokens(self.log_weights.softmax(1), self.generator)
        return self.particles.take(self._shape[1] * torch.arange(len(index)) + index)


class ParticleGibbs:
    """Markov chains of conditional SMC and all their particles, as :func:`particle_gibbs` returns them.

    Interrupting :meth:`refine` (by an exception, Ctrl-C included) loses only the sweep that was running.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> gibbs = tt.inference.smc.particle_gibbs(lm, [], second, "gcd", particles=4, max_new_tokens=2, sweeps=5, seed=0)
    >>> gibbs.sweeps, gibbs.refine(5).sweeps
    (5, 10)
    """

    def __init__(self, kernel: Kernel, particles: int, chains: int, moves: int, seed: int) -> None:
        self._kernel, self._count, self._moves = kernel, particles, moves
        self._generator = torch.Generator().manual_seed(seed)
        self._start = kernel.start(chains, self._generator)
        self._history: list[_Sweep] = []

    @property
    def sweeps(self) -> int:
        """The number of sweeps of each chain so far."""
        return len(self._history)

    def refine(
        self, sweeps: int = 20, until: float | None = None, of: Callable[[Draw], float] | None = None
    ) -> ParticleGibbs:
        """Run up to ``sweeps`` more sweeps and return ``self``; stop when :meth:`Chains.r_hat` of ``of`` is below ``until``."""
        for _ in range(whole(sweeps, "refine: sweeps", 0)):
            if (
                until is not None
                and self.sweeps - self._burn_in(None) >= 4
                and self.chains().r_hat(of) < until
            ):
                break
            self._sweep()
        return self

    def chains(self, burn_in: int | None = None) -> Chains:
        """Return the chains' sequences, one for each sweep after the first ``burn_in`` (default: a quarter of the sweeps).

        ``acceptance_rate`` is the share of sweeps that changed a chain's sequence.
        """
        first, history = self._burn_in(burn_in), self._history
        changed = [
            after.token_ids != before.token_ids
            for former, latter in pairwise(history)
            for before, after in zip(former.draws, latter.draws, strict=True)
        ]
        draws = [[sweep.draws[chain] for sweep in history[first:]] for chain in range(len(self._start))]
        trace = torch.stack([self._start.log_target, *(sweep.states.log_target for sweep in history)], 1)
        return Chains(draws, sum(changed) / max(len(changed), 1), trace)

    def posterior(self, burn_in: int | None = None) -> Posterior:
        """Return all particles of all sweeps after the first ``burn_in`` (default: a quarter); every sweep has equal weight.

        ``log_evidence`` is −log of the mean of 1/Ẑ. For proposals that keep to the budget ("gcd", "pgcd") this mean is unbiased
        for 1/Z once the chains have converged; for others ``log_evidence`` is too large. Intervals take chains, or batches of
        their sweeps, as independent. Raises :class:`EvidenceError` if no sweep is left.
        """
        first = self._burn_in(burn_in)
        kept = self._history[first:]
        if not kept:
            raise EvidenceError(
                f"particle_gibbs: no sweep is left of {self.sweeps} without the first {first}; call refine() first"
            )
        log_z = torch.stack([sweep.log_evidence for sweep in kept])
        total = math.log(log_z.numel()) - float((-log_z).flatten().logsumexp(0))
        even = [
            replace(
                sweep.posterior,
                log_weights=sweep.posterior.log_weights + (total - own).repeat_interleave(self._count),
            )
            for sweep, own in zip(kept, log_z, strict=True)
        ]
        length, chains = log_z.shape
        time, chain = torch.arange(length).repeat_interleave(chains), torch.arange(chains).repeat(length)
        sizes = [
            -(-length // 2**n) for n in range(length.bit_length())
        ]  # sweeps in a batch: all of a chain, then half of them, …
        batches = torch.stack([chain * length + time // size for size in sizes], 1)
        return replace(pool(even, [1] * length), lineage=batches.repeat_interleave(self._count, 0))

    def _burn_in(self, given: int | None) -> int:
        return self.sweeps // 4 if given is None else whole(given, "particle_gibbs: burn_in", 0)

    def _sweep(self) -> None:
        """Run one sweep of every chain, and record it when it is complete."""
        kernel = self._kernel
        states = self._history[-1].states if self._history else self._start
        run = ConditionalRun(kernel.settings, kernel.prompt, states, self._count, self._generator)
        run_together([run])
        states, posterior = run.chosen(), run.posterior()
        for _ in range(self._moves):
            states, _ = kernel.move(states, self._generator)
        draws = [draw_of(kernel.settings.lm, states, chain) for chain in range(len(states))]
        log_evidence = run.log_weights.logsumexp(1) - math.log(self._count)
        self._history.append(_Sweep(states, draws, posterior, log_evidence))


class _Sweep(NamedTuple):
    """The chains' sequences after a sweep, all its particles, and log Ẑ of each chain."""

    states: Particles
    draws: list[Draw]
    posterior: Posterior
    log_evidence: Float[Tensor, " chains"]
