"""Rejection sampling: draw x ~ p_lm, keep it if x ∈ C. Exact, so it is the reference for other samplers if affordable.

Draws are those of :func:`~tractile.inference.smc.importance_sampling` with the language model or :class:`.CARS` as the
proposal; accepted samples have equal weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from tractile.errors import EvidenceError
from tractile.inference.arguments import short, whole
from tractile.inference.smc import Posterior, importance_sampling
from tractile.inference.smc.arguments import ConstraintLike, check_normalised
from tractile.inference.smc.request import requests
from tractile.lm.base import LanguageModel, Prompt

from .cars import CARS


@dataclass(frozen=True)
class Rejection:
    """Exact samples from p_lm(x | constraint), equally weighted, and their cost.

    ``tries`` counts draws. ``acceptance_rate`` is an unbiased estimate of Z = p_lm(C) (if one sample was requested: accepted /
    tries); with :class:`.CARS`, which accepts a larger share than Z, it is a consistent one. ``posterior.log_evidence``
    is its logarithm. Fewer samples than requested mean that the limit on tries was reached; with none, ``posterior.failed``.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> found = rejection_sampling(lm, [], second, samples=50, max_new_tokens=2, seed=0)
    >>> found.tries > 100, round(found.posterior.ess)
    (True, 50)
    """

    posterior: Posterior
    tries: int
    acceptance_rate: float

    @property
    def accepted(self) -> int:
        """The number of samples."""
        return len(self.posterior.token_ids)


def rejection_sampling(
    lm: LanguageModel | Any,
    prompt: Prompt,
    fa: ConstraintLike | None,
    samples: int = 100,
    max_new_tokens: int = 64,
    seed: int = 0,
    max_tries: int = 10_000,
    batch_size: int = 64,
    *,
    cars: CARS | None = None,
    tokenizer: Any = None,
) -> Rejection:
    """Draw from the language model until ``samples`` draws satisfy the constraint, or ``max_tries`` have been made.

    The samples are exact. A draw is abandoned at the first token after which the constraint cannot be satisfied within the
    budget; ``batch_size`` draws are made at a time. With ``cars=CARS()`` draws are made one at a time; the samples are exact
    too, and draws are rejected less often the more have been made. ``lm``, ``fa``, ``tokenizer`` and errors are those of
    :func:`tractile.smc`.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> found = rejection_sampling(lm, [], second, samples=50, max_new_tokens=2, seed=0)
    >>> len(found.posterior.texts), 0.1 < found.acceptance_rate < 0.35  # it is 0.2
    (50, True)
    """
    who = "rejection_sampling"
    samples, max_tries = whole(samples, f"{who}: samples"), whole(max_tries, f"{who}: max_tries")
    batch_size = whole(batch_size, f"{who}: batch_size")
    if cars is not None and not isinstance(cars, CARS):
        raise EvidenceError(f"{who}: cars must be None or a CARS, not {short(cars)}")
    wanted = "lm" if cars is None else cars.proposal
    (given,) = requests(
        who, lm, prompt, None, fa, wanted, tokenizer=tokenizer, max_new_tokens=max_new_tokens, seed=seed
    )
    check_normalised(given.lm, who)
    generator = given.generator()
    token_ids: list[tuple[int, ...]] = []
    texts: list[str] = []
    log_probs: list[float] = []
    tries, total, last = 0, 0.0, 0.0
    if cars is not None:  # one draw must be complete before the next: CARS learns from each
        batch_size = 1
    while tries < max_tries and len(texts) < samples:
        batch = importance_sampling(
            given.lm,
            given.prompt,
            given.fa,
            wanted,
            particles=min(batch_size, max_tries - tries),
            max_new_tokens=max_new_tokens,
            seed=int(torch.randint(1 << 62, (), generator=generator)),
        )
        for particle in batch.particles:
            tries += 1
            if particle.log_weight > -math.inf:
                last = 1.0 if cars is None else math.exp(particle.log_weight)
                total += last
                token_ids.append(particle.token_ids)
                texts.append(particle.text)
                log_probs.append(particle.log_prob)
            if len(texts) == samples:
                break
    # Stopping at an acceptance biases accepted / tries; leaving the last acceptance out removes the bias.
    stopped = len(texts) == samples and samples > 1
    rate = (total - last) / (tries - 1) if stopped else total / tries
    log_rate = math.log(rate) if rate else -math.inf
    log_weights = torch.full((len(texts),), log_rate, dtype=torch.float64)
    log_p = torch.tensor(log_probs, dtype=torch.float64)
    posterior = Posterior(
        token_ids, texts, log_weights, log_p, narrowed=() if given.fa is None else given.fa.narrowed
    )
    return Rejection(posterior, tries, rate)
