"""Requests to the sampler, each a prompt with its own settings, run together in one batch of the language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from ...circuits.automaton import Automaton
from ...circuits.hmm import HMM
from ...lm.base import LanguageModel, Prompt
from .boundaries import Boundary
from .islands import Population, pool_islands, stream
from .loop import Run, run_together
from .posterior import Posterior
from .potentials import Potential
from .prompted import prompted
from .resampling import Resampling
from .settings import SamplerSettings, combined
from .step import Knowledge
from .trace import Recorder


class Resampled(NamedTuple):
    """The resampling settings, which all requests share."""

    scheme: Resampling
    ess_threshold: float
    beam_factor: int = 1


@dataclass
class Request:
    """A prompt, its constraint, HMM, own potential (None: none), token budget, seed, boundary and populations."""

    prompt: Prompt
    fa: Automaton
    hmm: HMM | None
    potential: Potential | None
    max_new_tokens: int
    seed: int
    align: Boundary | None
    populations: Sequence[Population]

    @property
    def steers(self) -> bool:
        """Whether the request's own potential is a twist, which replaces the proposals' default potentials."""
        return self.potential is not None and self.potential.is_twist


def run_requests(
    lm: LanguageModel,
    requests: Sequence[Request],
    resampled: Resampled,
    trace: bool = False,
    progress: bool = False,
) -> list[Posterior]:
    """Run all requests and return a posterior for each.

    Requests with the same automaton object share queries, with their largest budget as the horizon.
    """
    horizons: dict[int, int] = {}
    for request in requests:
        name = id(request.fa)
        horizons[name] = max(request.max_new_tokens, horizons.get(name, 1))
    places = [(request, i, part) for request in requests for i, part in enumerate(request.populations)]
    own = {id(part.proposal): part.proposal.potential for _, _, part in places if part.potential is None}
    twists = [
        part.potential or (None if request.steers else own[id(part.proposal)]) for request, _, part in places
    ]
    target = combined(twists, [request.potential for request, _, _ in places])
    shared: dict[tuple[int, ...], SamplerSettings] = {}
    runs = []
    for (request, i, part), twist in zip(places, twists, strict=True):
        asked = (twist, request.potential)
        needs = max([part.proposal.needs, *(one.needs for one in asked if one is not None)])
        hmm = request.hmm
        if hmm is not None and needs is Knowledge.HMM:
            hmm = prompted(hmm, lm, request.prompt)
        fa, budget, align = request.fa, request.max_new_tokens, request.align
        key = (id(fa), budget, id(hmm), id(align), needs, id(part.proposal), id(request.potential))
        if key not in shared:
            shared[key] = SamplerSettings(
                lm,
                fa,
                hmm,
                part.proposal,
                target,
                resampled.scheme,
                resampled.ess_threshold,
                budget,
                resampled.beam_factor,
                align,
                horizons[id(fa)],
                needs,
            )
        generator = torch.Generator().manual_seed(stream(request.seed, i))
        run = Run(shared[key], request.prompt, part.particles, generator)
        if trace:
            text = request.prompt
            shown = text if isinstance(text, str) else lm.decode(text)
            run.recorder = Recorder(shown, lm, part.proposal)
        runs.append(run)
    if runs:
        run_together(runs, progress)
    found, posteriors = [], (run.posterior() for run in runs)
    for request in requests:
        parts = [
            replace(next(posteriors), strength=part.strength_used, calibration=part.strength)
            for part in request.populations
        ]
        found.append(pool_islands(parts, [part.particles for part in request.populations]))
    return found
