"""The strength of the lookahead, p_hmm(C | x_≤t)^strength, found by a pilot instead of set."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

STRENGTHS = (0.0, 0.2, 0.4, 0.7, 1.0)
"""The strengths that a pilot compares; 0 is GCD, without the HMM."""
logger = logging.getLogger("tractile.inference.smc")

LOST = 10.0  # nats below the worst run that lives: what a run in which all particles die counts
SHARE = 0.125  # of the variance of log-weights: half of it by four particles is what log Ẑ loses
TRUST = 1.0  # nats
EQUAL = 0.05  # nats: scores that differ by less are as good as each other

PilotRuns = Mapping[float, Sequence[Tensor]]
"""By strength, the log-weights (nats) of the particles of each run."""


class Strength:
    """A strength of the lookahead that :func:`.smc` finds by a pilot when it is first needed; then it stays the same.

    Use one object for all requests of a kind. ``value`` is the strength, None until it is found. ``log_evidence`` has the
    pilot's mean log Ẑ in nats for each strength tried: the larger, the smaller the divergence of the samples from the target.

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
        """Whether the pilot's best strength was 0: samples without the HMM are closer to the target."""
        return self.value == 0

    def settle(self, pilots: Sequence[PilotRuns], among: Sequence[float] | None = None) -> None:
        """Set the value from pilots, one for each prompt: by strength, the log-weights of the particles of some runs.

        With ``among`` the best of these strengths is taken, each judged by itself; otherwise runs are few, and each strength is
        judged together with its neighbours. Of those as good as the best, the largest is chosen.
        """
        score, mean = scores(pilots)
        strengths = sorted(score)
        if among is None:
            padded = [score[strengths[0]], *(score[s] for s in strengths), score[strengths[-1]]]
            score = {s: (padded[i] + 2 * padded[i + 1] + padded[i + 2]) / 4 for i, s in enumerate(strengths)}
        (self.value,) = best(score, strengths if among is None else among, 1)
        self.log_evidence = mean
        if self.guide_hurts:
            logger.warning(
                "the HMM is no guide here: the pilot's mean log Ẑ is %.1f nats without it and %.1f at strength %g; "
                'going on without it, as proposal="gcd" does',
                mean[0.0],
                mean[strengths[-1]],
                strengths[-1],
            )


def scores(pilots: Sequence[PilotRuns]) -> tuple[dict[float, float], dict[float, float]]:
    """Return the score of each strength, in nats added up over the prompts, and the mean of log Ẑ over prompts and runs.

    The score of a strength on a prompt is the mean over runs of min(log Ẑ, log Z), less ``SHARE`` of the variance of the runs'
    log-weights, which is zero for a perfect guide. Z is estimated from the runs at all strengths: an Ẑ above it is luck.
    """
    strengths = sorted(pilots[0])
    score, mean = dict.fromkeys(strengths, 0.0), dict.fromkeys(strengths, 0.0)
    for runs in pilots:
        log_z = {
            s: torch.stack([w.logsumexp(0) - math.log(len(w)) for w in runs[s]]).double() for s in strengths
        }
        spread = {s: _variance(torch.cat(list(runs[s]))) for s in strengths}
        every = torch.cat(list(log_z.values()))
        lived = every[every > -math.inf]
        low = float(lived.min()) - LOST if len(lived) else -LOST
        estimate = _estimate(log_z, spread, low)
        for s, found in log_z.items():
            found = found.clamp(min=low)
            score[s] += float(found.clamp(max=estimate).mean()) - SHARE * min(spread[s], LOST)
            mean[s] += float(found.mean()) / len(pilots)
    return score, mean


def _variance(log_weights: Tensor) -> float:
    """Return the variance of log-weights; infinite if it is not known, or a particle died."""
    return (
        float(log_weights.var()) if len(log_weights) > 1 and bool(log_weights.isfinite().all()) else math.inf
    )


def _estimate(log_z: Mapping[float, Tensor], spread: Mapping[float, float], low: float) -> float:
    """Return log Z estimated from all runs: the mean of Ẑ in which a strength counts by the inverse variance of its log-weights.

    That is the plain mean where it is more than :data:`TRUST` nats above: runs may all miss the same part of the target.
    """
    every = torch.cat(list(log_z.values())).clamp(min=low)
    plain = float(every.logsumexp(0)) - math.log(len(every))
    weight = {s: 1 / (spread[s] + 1e-9) for s in log_z if spread[s] < math.inf}
    if not weight:
        return plain
    means = [log_z[s].logsumexp(0) - math.log(len(log_z[s])) + math.log(w) for s, w in weight.items()]
    precise = float(torch.stack(means).logsumexp(0)) - math.log(sum(weight.values()))
    return precise if plain - precise <= TRUST else plain


def best(score: Mapping[float, float], among: Sequence[float], count: int) -> list[float]:
    """Return the strengths of the highest scores, the best first; of those as good as another the larger one."""
    left, found = sorted(among, reverse=True), list[float]()
    for _ in range(count):
        top = max(score[s] for s in left)
        found.append(next(s for s in left if score[s] >= top - EQUAL))
        left.remove(found[-1])
    return found
