"""The named methods of controlled generation, each a setting of :func:`tractile.smc` (Loula et al. 2025, §3).

They differ in whether the constraint is used; whether the proposal's weights are used (without them the samples follow the
*local* product of experts); whether a potential is used; when particles are resampled, and how. Base LM, LCD and
sample-rerank are biased baselines. Change a setting with ``dataclasses.replace``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from tractile.circuits import HMM
from tractile.errors import EvidenceError
from tractile.inference.smc import Posterior, Potential, PrefixPotential, Proposal, Step, at_end, smc
from tractile.inference.smc.arguments import ConstraintLike, PotentialLike, a_potential, a_proposal
from tractile.inference.smc.boundaries import Boundary
from tractile.lm.base import LanguageModel, Prompt


@final
class Uncorrected(Proposal):
    """A proposal without its weights, biased on purpose: with LCD, the usual locally constrained decoding.

    Samples follow the local product of experts and are not properly weighted. A weight of zero stays zero.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> from tractile_bench.presets import Uncorrected
    >>> post = tt.smc(lm, [], second, Uncorrected(tt.inference.smc.GCDProposal()), particles=4, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 4)  # weights of one: no estimate of log 0.2
    0.0
    """

    def __init__(self, proposal: Proposal) -> None:
        self.proposal, self.needs = proposal, proposal.needs

    @property
    def potential(self) -> Potential:
        """The default potential of the proposal."""
        return self.proposal.potential

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        tokens, log_weight = self.proposal.draw_checked(step, generator)
        return tokens, torch.zeros_like(log_weight).masked_fill(log_weight.isneginf(), -torch.inf)


@dataclass(frozen=True)
class Preset:
    """Settings of the loop for one method.

    ``constrained``: whether the constraint is used. ``proposal``: a name or a :class:`Proposal`. ``corrected``: whether the
    proposal's weights count. ``potential``: whether the given potential is used; with an ``ess_threshold`` of 0 only at the end.
    ``ess_threshold``, ``resampling`` and ``beam_factor`` are as in :func:`tractile.smc`.

    Examples
    --------
    >>> preset = Preset(proposal="gcd", ess_threshold=0.5)
    >>> preset.proposal, preset.corrected, preset.resampling
    ('gcd', True, 'multinomial')
    """

    constrained: bool = True
    proposal: str | Proposal = "lcd"
    corrected: bool = True
    potential: bool = False
    ess_threshold: float = 0.0
    resampling: str = "multinomial"
    beam_factor: int = 1

    def run(
        self,
        lm: LanguageModel | Any,
        prompt: Prompt,
        fa: ConstraintLike | None,
        potential: PotentialLike | None = None,
        hmm: HMM | str | Path | None = None,
        particles: int = 10,
        max_new_tokens: int = 64,
        seed: int = 0,
        align: Boundary | None = None,
        *,
        tokenizer: Any = None,
    ) -> Posterior:
        """Run :func:`tractile.smc` with these settings, without the arguments that the preset does not use.

        ``align`` is used if particles are resampled and not split. Raises :class:`EvidenceError` if the preset uses a potential
        and none is given.
        """
        proposal = a_proposal(self.proposal)
        if not self.corrected:
            proposal = Uncorrected(proposal)
        if self.potential and potential is None:
            raise EvidenceError("this preset weighs sequences by a potential: give potential=…")
        used = a_potential(potential, "potential") if self.potential else None
        if self.ess_threshold == 0:  # values before the end would have no effect: skip them
            used = PrefixPotential() if used is None else PrefixPotential() * used.at(at_end)
        return smc(
            lm,
            prompt,
            fa if self.constrained else None,
            proposal,
            hmm,
            particles,
            max_new_tokens,
            seed,
            potential=used,
            tokenizer=tokenizer,
            resampling=self.resampling,
            ess_threshold=self.ess_threshold,
            beam_factor=self.beam_factor,
            align=align if self.ess_threshold and self.beam_factor == 1 else None,
        )


@final
class Presets(dict[str, Preset]):
    """The presets by name, such as "full-smc": ``tt.inference.smc.PRESETS``."""


PRESETS = Presets(
    {
        "base-lm": Preset(constrained=False, proposal="lm", corrected=False),
        "lcd": Preset(corrected=False),
        "grammar-only-is": Preset(),
        "grammar-only-smc": Preset(ess_threshold=0.9),
        "sample-rerank": Preset(corrected=False, potential=True),
        "full-is": Preset(potential=True),
        "full-smc": Preset(potential=True, ess_threshold=0.9),
        "rejection": Preset(proposal="lm"),
        "smc-steering": Preset(
            potential=True, ess_threshold=math.inf, resampling="without-replacement", beam_factor=3
        ),
    }
)
