"""Markov chains on complete sequences, and moves of particles on the way, by the move of :mod:`.kernel`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ...circuits.chain import Chain
from ...lm.base import LanguageModel, Prompt
from ..arguments import whole
from ..threads import one_thread
from .arguments import ConstraintLike, PotentialLike
from .chains import MarkovChains, draw_of
from .kernel import Cut, a_kernel
from .loop import run_together
from .particles import Particles
from .posterior import Posterior
from .proposals import Proposal
from .request import requests
from .resampling import Resampling
from .run import Run


def mcmc(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal | None = None,
    hmm: Chain | str | Path | None = None,
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
) -> MarkovChains:
    """Draw ``samples`` samples from p_lm(x | prompt, x satisfies ``fa`` within ``max_new_tokens`` tokens) · ``potential``.

    They are the states of ``chains`` Markov chains (one batch of the language model): every ``thin``-th after ``burn_in``
    moves. A move cuts a sequence at a place drawn by weight ``cut(length)[place]`` (default: uniform) and draws the rest from
    ``proposal``. Only the potential's final value counts. Samples of a chain depend on each other, and on its start until the
    chain has mixed: see ``trace`` and ``acceptance_rate`` of the result.

    Other arguments and errors are those of :func:`.smc`. Raises :class:`NoParticleSurvived` if no chain can begin.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> chains = tt.inference.smc.mcmc(lm, [], second, "gcd", samples=40, max_new_tokens=2, seed=0, chains=2)
    >>> len(chains.draws), {draw.token_ids[1] for draw in chains.draws[0]}, chains.acceptance_rate
    (2, {1}, 1.0)
    """
    samples, chains, thin = (
        whole(n, f"mcmc: {name}") for n, name in ((samples, "samples"), (chains, "chains"), (thin, "thin"))
    )
    burn_in = whole(burn_in, "mcmc: burn_in", 0)
    given = {"potential": potential, "tokenizer": tokenizer, "max_new_tokens": max_new_tokens, "seed": seed}
    (request,) = requests("mcmc", lm, prompt, None, fa, proposal, hmm, **given)
    moves = burn_in + thin * -(-samples // chains)
    with one_thread(request.lm, request.hmm):
        kernel, generator = a_kernel(request, cut), request.generator()
        particles = kernel.start(chains, generator)
        trace, kept, accepted = [particles.log_target], list[Particles](), 0
        for n in range(1, moves + 1):
            particles, moved = kernel.move(particles, generator)
            accepted += int(moved.sum())
            trace.append(particles.log_target)
            if n > burn_in and (n - burn_in) % thin == 0:
                kept.append(particles)
    found = [[draw_of(request.lm, particles, chain) for particles in kept] for chain in range(chains)]
    surplus = chains * len(kept) - samples
    for chain in found[chains - surplus :]:
        chain.pop()
    return MarkovChains(found, accepted / (moves * chains), torch.stack(trace, 1))


def resample_move(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    proposal: str | Proposal | None = None,
    hmm: Chain | str | Path | None = None,
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
    """Run :func:`.smc` with ``moves`` Metropolis–Hastings moves of every particle after 1, 2, 4, 8, … tokens and at the end.

    A move leaves the target of its step, p_lm(x_≤t) · 1[x_≤t can satisfy C] · Ψ(x_≤t), invariant, and copies of one ancestor
    become different (Gilks & Berzuini 2001). Particles are moved at these steps whether they were resampled or not, so E[Ẑ] = Z:
    moves that follow a low effective sample size would start from particles that do not have the target's distribution. A move
    after t tokens, and the first step after it, take t calls of the language model each.

    ``cut`` is as in :func:`.mcmc`, other arguments and errors as in :func:`.smc`. Potentials must be functions of the prefix, and
    a proposal must not learn from its draws.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> post = tt.inference.smc.resample_move(lm, [], second, "gcd", particles=4, max_new_tokens=2, seed=0, moves=2)
    >>> round(post.log_evidence, 4)  # log 0.2
    -1.6094
    """
    moves = whole(moves, "resample_move: moves", 0)
    (request,) = requests(
        "resample_move", lm, prompt, None, fa, proposal, hmm,
        potential=potential, tokenizer=tokenizer, particles=particles, max_new_tokens=max_new_tokens, seed=seed,
        resampling=resampling, ess_threshold=ess_threshold,
    )  # fmt: skip
    budget = request.max_new_tokens
    powers = [1 << i for i in range(budget.bit_length())] if moves else []
    with one_thread(request.lm, request.hmm):
        kernel, generator = a_kernel(request, cut, steered=True), request.generator()
        run = Run(request, kernel.factors, request.particles, generator)
        for length in sorted({*powers, budget}):
            run_together([run], limit=length)
            alive = (run.particles.log_weight > -torch.inf).nonzero()[:, 0]
            if len(alive) == 0:
                break
            moved = run.particles.take(alive)
            for _ in range(moves):
                moved, _ = kernel.move(moved, generator, length)
            moved.log_weight = run.particles.log_weight[alive]
            run.particles = run.particles.put(alive, moved)
            if length < budget:
                run = run.resumed(run.particles, length)
        return run.posterior()
