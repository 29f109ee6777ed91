"""Resample–move: sequential Monte Carlo whose copies are made different again (Gilks & Berzuini 2001).

After each resampling every particle makes some moves of :mod:`.mcmc`, which leave the target of its step,

    p_lm(x_≤t) · 1[x_≤t can satisfy C] · Ψ(x_≤t),

as it is; so weights and the estimate of Z stay right, and particles that were copies of one ancestor are no longer equal.
A move reads the particles' prefixes again, t calls of the language model after t tokens.
"""

from __future__ import annotations

import math
from copy import copy
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from ...circuits.hmm import HMM
from ...lm.base import LanguageModel, Prompt
from ..arguments import not_negative, whole
from .arguments import ConstraintLike, PotentialLike, check_seed, read
from .mcmc import Cut, Kernel, Paths, Walk
from .posterior import Posterior
from .prompted import prompted
from .proposals import Proposal
from .resampling import Resampling, effective_sample_size
from .sampler import Sampler, resolve_defaults, unconstrained


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

    ``cut`` is that of :func:`.mcmc`; all else, and the errors, those of :func:`.smc`. Potentials must be functions of the
    prefix: not :class:`.RolloutPotential`, which draws its values.
    """
    who = "resample_move"
    lm, [prompt], automaton, guide, worth = read(who, lm, tokenizer, prompt, None, fa, hmm, potential)
    particles, moves = whole(particles, f"{who}: particles"), whole(moves, f"{who}: moves", 0)
    seed = check_seed(seed, f"{who}: seed")
    ess_threshold = not_negative(ess_threshold, f"{who}: ess_threshold")
    proposal, scheme, worth = resolve_defaults(proposal, resampling, worth)
    guide = None if guide is None else prompted(guide, lm, prompt)
    automaton = automaton or unconstrained(lm)
    settings = Sampler(lm, automaton, guide, proposal, worth, scheme, ess_threshold, max_new_tokens)
    copy(settings.budget_query).start(1, max_new_tokens)  # raises BudgetTooSmall
    return _run(Kernel(settings, prompt, cut), particles, moves, torch.Generator().manual_seed(seed))


def _run(kernel: Kernel, count: int, moves: int, generator: Generator) -> Posterior:
    settings = kernel.settings
    walk = Walk(settings, kernel.prompt, Paths.empty(count, settings.max_new_tokens))
    nothing = torch.zeros(count, dtype=torch.long)
    # A particle's weight: what its path is worth over what it was when its weight was last set.
    before = torch.zeros(count, dtype=torch.float64)
    ess_trace, resampled = list[float](), list[int]()
    while walk.step(generator, walk.paths, nothing[: len(walk.paths.length)]):
        log_weight = walk.paths.log_value(nothing[: len(before)]) - before
        ess_trace.append(effective_sample_size(log_weight))
        if ess_trace[-1] >= settings.ess_threshold * count:
            continue
        resampled.append(walk.taken - 1)
        drawn = settings.resampling(log_weight.softmax(0), generator, count)
        ancestors, weights = drawn if isinstance(drawn, tuple) else (drawn, None)
        paths = walk.paths.take(ancestors)
        for _ in range(moves):
            paths, _ = kernel.move(paths, generator, walk.taken)
        share = log_weight.new_full((len(ancestors),), -math.log(count)) if weights is None else weights.log()
        before = paths.log_value(nothing[: len(ancestors)]) - share - log_weight.logsumexp(0)
        walk = kernel.walk(paths, paths.length, walk.taken, generator)  # takes the language model there
        if not bool(walk.growing.any()):
            break
    paths = walk.paths
    log_weight = paths.log_value(nothing[: len(before)]) - before
    ess_trace.append(effective_sample_size(log_weight))
    token_ids = [tuple(row[:n].tolist()) for row, n in zip(paths.tokens, paths.length, strict=True)]
    return Posterior(
        token_ids,
        [settings.lm.decode(row) for row in token_ids],
        log_weight + math.log(len(before) / count),
        paths.log_prob.sum(1),
        tuple(ess_trace),
        tuple(resampled),
        narrowed=settings.fa.narrowed,
    )
