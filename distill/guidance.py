"""Measure how much an HMM reduces the variance of the particles' weights under P-GCD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..circuits.automaton import Automaton
from ..circuits.hmm import HMM
from ..inference.smc import LookaheadProposal, importance_sampling
from .distributed import ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..lm.base import LanguageModel, Prompt

    Guide = HMM | Callable[[Prompt], HMM] | None


@dataclass(frozen=True)
class Guidance:
    """Spread of the particles' importance weights without resampling, over all prompts.

    ``deviation``: standard deviation of the log weights around their mean for each prompt, in nats; infinite if a weight is
    zero. ``effective``: effective sample size as a share of the particles, averaged over prompts. Independent particles whose
    log weights have deviation σ estimate as well as about exp(−σ²) times as many particles with equal weights.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import guidance
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.9, 0.1]).log()})
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> found = guidance(lm, [[]], one, {"no HMM": None}, max_new_tokens=4, particles=100)["no HMM"]
    >>> round(found.deviation, 1), round(found.effective, 1)
    (0.9, 0.5)
    """

    deviation: float
    effective: float


def guidance(
    lm: LanguageModel,
    prompts: Sequence[Prompt],
    fa: Automaton,
    guides: Mapping[str, Guide],
    max_new_tokens: int,
    *,
    particles: int = 32,
    seed: int = 0,
) -> dict[str, Guidance]:
    """Compare guides: sample texts that ``fa`` accepts by P-GCD with each HMM, and by GCD for None.

    A guide may be a function of the prompt, such as an HMM that has read it. Ranks of ``torchrun`` share the prompts. Raises as
    :func:`tractile.smc` does.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import guidance
    >>> lm, exact = tt.lm.TableLM({(): torch.tensor([0.9, 0.1]).log()}), tt.HMM([1.0], [[1.0]], [[0.9, 0.1]])
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> found = guidance(lm, [[]], one, {"none": None, "exact": exact}, max_new_tokens=4, particles=100)
    >>> {name: round(spread.effective, 2) for name, spread in found.items()}  # with an exact HMM no weight varies
    {'none': 0.45, 'exact': 1.0}
    """
    found = {}
    with ranks() as team:
        for name, guide in guides.items():
            spread, effective = torch.zeros(2, len(prompts), dtype=torch.float64)
            for i in range(team.rank, len(prompts), team.size):
                hmm = guide if isinstance(guide, HMM) or guide is None else guide(prompts[i])
                proposal = "gcd" if hmm is None else LookaheadProposal()
                posterior = importance_sampling(
                    lm, prompts[i], fa, proposal, hmm, particles, max_new_tokens, seed=seed + i
                )
                weights = posterior.log_weights.double()
                spread[i] = weights.var() if bool(weights.isfinite().all()) else torch.inf
                effective[i] = 1 / (len(weights) * weights.softmax(0).square().sum())
            team.sum([spread, effective])
            found[name] = Guidance(float(spread.mean().sqrt()), float(effective.mean()))
    return found
