"""The strength of the lookahead, p_hmm(C | x_≤t)^strength, found by a pilot instead of set."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import torch

STRENGTHS = (0.0, 0.2, 0.4, 0.7, 1.0)
"""The strengths that a pilot tries; 0 is GCD, without the HMM."""
logger = logging.getLogger("tractile.inference.smc")

LOST = 10.0  # nats below the worst run that lives: what a run in which all particles die counts


class Strength:
    """A strength that :func:`.smc` finds when it is first asked for, and keeps: one object for each class of requests.

    ``value`` is the strength, None until it is found. ``log_evidence`` has the pilot's mean log Ẑ in nats for each strength
    tried: the larger, the smaller the divergence of the samples from the target.

    >>> import tractile as tt
    >>> weather = tt.inference.smc.Strength()  # for all requests that a server calls "weather"
    >>> tt.inference.smc.LookaheadProposal(weather).strength is weather
    True
    """

    def __init__(self) -> None:
        self.value: float | None = None
        self.log_evidence: Mapping[float, float] = {}

    def __repr__(self) -> str:
        return "Strength()" if self.value is None else f"Strength(value={self.value})"

    def __str__(self) -> str:
        if self.value is None or not self.log_evidence:
            return repr(self)
        found = f"strength {self.value:g} of the HMM, mean log Ẑ of the pilot {self.log_evidence[self.value]:.1f} nats"
        if self.guide_hurts:
            highest = max(self.log_evidence)
            return f"the HMM is no guide here: {found}, {self.log_evidence[highest]:.1f} with strength {highest:g}"
        return f"{found}, {self.log_evidence[0.0]:.1f} without the HMM"

    @property
    def guide_hurts(self) -> bool:
        """Whether the pilot was best without the HMM: the strength found is 0."""
        return self.value == 0

    def settle(self, pilots: Sequence[Mapping[float, Sequence[float]]]) -> None:
        """Set the value by pilots, one for each prompt: log Ẑ of some runs for each strength.

        An Ẑ above the mean of the prompt's (an estimate of Z) is luck and counts as this mean; what is below counts against its
        strength. Runs are few, so each strength is judged together with its neighbours. Of equals the largest is chosen.
        """
        strengths = sorted(pilots[0])
        score, mean = [0.0] * len(strengths), dict.fromkeys(strengths, 0.0)
        for runs in pilots:
            values = torch.tensor([runs[strength] for strength in strengths], dtype=torch.float64)
            lived = values[values > -math.inf]
            values = values.clamp(min=float(lived.min()) - LOST if len(lived) else -LOST)
            log_z = values.flatten().logsumexp(0) - math.log(values.numel())
            for i, strength in enumerate(strengths):
                score[i] += float(values[i].clamp(max=log_z).mean())
                mean[strength] += float(values[i].mean()) / len(pilots)
        padded = [score[0], *score, score[-1]]
        smooth = [padded[i] + 2 * padded[i + 1] + padded[i + 2] for i in range(len(strengths))]
        self.value = strengths[max(range(len(strengths)), key=lambda i: (round(smooth[i], 9), i))]
        self.log_evidence = mean
        if self.guide_hurts:
            logger.warning(
                "the HMM is no guide here: the pilot's mean log Ẑ is %.1f nats without it and %.1f at strength %g; "
                'going on without it, as proposal="gcd" does',
                mean[0.0],
                mean[strengths[-1]],
                strengths[-1],
            )
