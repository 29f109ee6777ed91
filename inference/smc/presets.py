"""The named methods of controlled generation, each a setting of the one loop in :mod:`.sampler` (Loula et al. 2025, §3).

They differ in whether the constraint is used; whether the proposal's weights are used (without them the samples follow the
*local* product of experts); whether a potential is used; when particles are resampled, and how. Base LM, LCD and
sample-rerank are biased baselines. Change a setting with ``dataclasses.replace``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from ...circuits.hmm import HMM
from ...errors import EvidenceError
from ...lm.base import LanguageModel, Prompt
from .arguments import ConstraintLike, PotentialLike, a_potential
from .boundaries import Boundary, at_end
from .composite import Uncorrected
from .posterior import Posterior
from .potentials import PrefixPotential
from .proposals import Proposal
from .sampler import smc
from .settings import a_proposal


@dataclass(frozen=True)
class Preset:
    """Settings of the loop for one method.

    ``constrained``: whether the constraint is used. ``proposal``: a name or a :class:`Proposal`. ``corrected``: whether the
    proposal's weights count. ``potential``: whether the given potential is used; with an ``ess_threshold`` of 0 only at the end.
    ``ess_threshold``, ``resampling`` and ``beam_factor`` are as in :func:`.sampler.smc`.

    Examples
    --------
    >>> import tractile as tt
    >>> preset = tt.inference.smc.Preset(proposal="gcd", ess_threshold=0.5)
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
        """Run :func:`.sampler.smc` with these settings, without the arguments that the preset does not use.

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
