"""The answers of a run: weighted texts, their quality, and the line of results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tractile.inference.smc import Posterior
from tractile.inference.smc.resampling import effective_sample_size

from .methods import Method


@dataclass(frozen=True)
class Answers:
    """The weighted texts of a run. ``weights`` and ``cut_off``, the weight of unfinished texts, sum to one.

    ``texts`` is empty and ``cut_off`` zero if no particle survived. ``log_z``: the estimate of log Z in nats, None if the method
    makes none. ``ess``: effective sample size. ``alive``: the share of the particles that satisfy the constraint. ``quality``:
    an estimate of a lower bound on log Z − KL(method ‖ target) in nats (Loula et al. 2025, Appendix D.1). ``tokens``: their
    number over all particles. ``draws``: the number of draws of rejection sampling, whose ``texts`` are its accepted draws.
    """

    texts: Sequence[str]
    weights: Sequence[float]
    cut_off: float
    log_z: float | None
    ess: float
    alive: float
    quality: float | None
    tokens: int
    draws: int = 0

    @classmethod
    def none(cls) -> Answers:
        """Make the answers before the first draw of rejection sampling."""
        return cls([], [], 0.0, None, 0.0, 0.0, None, 0)

    @property
    def accepted(self) -> int:
        """The number of accepted draws of rejection sampling."""
        return len(self.texts)

    def with_draws(self, post: Posterior, wanted: int) -> Answers:
        """Add the draws of one more round of rejection sampling, up to the one that makes ``wanted`` accepted draws."""
        texts, draws = list(self.texts), self.draws
        for text, weight in zip(post.texts, post.log_weights.tolist(), strict=True):
            draws += 1
            if weight > -math.inf:
                texts.append(text)
                if len(texts) == wanted:
                    break
        n = len(texts)
        # If drawing stopped at a success, accepted / draws is biased; without that last draw the rate is unbiased.
        stopped = n == wanted and n > 1
        rate = (n - 1) / (draws - 1) if stopped else n / draws
        log_z = math.log(rate) if rate else None
        tokens = self.tokens + sum(map(len, post.token_ids))
        return replace(
            self,
            texts=texts,
            weights=[1 / n for _ in texts],
            log_z=log_z,
            ess=float(n),
            alive=n / draws,
            quality=log_z,
            tokens=tokens,
            draws=draws,
        )

    def line(self, judged: Sequence[tuple[Mapping[str, float], bool]]) -> dict[str, Any]:
        """Make the line of results: the answers, the scores of each text, and the expected scores of a text drawn by weight.

        ``judged``: for each text its scores, and whether it satisfies the constraint.
        """
        if not self.texts and not self.cut_off:
            return {
                "error": "NoParticleSurvived",
                "message": f"no particle of {self.draws or 'the run'} satisfies the constraint",
                **self._facts(),
            }
        names = list(judged[0][0]) if judged else []
        expected = {
            name: math.fsum(w * scores[name] for w, (scores, _) in zip(self.weights, judged, strict=True))
            for name in names
        }
        satisfied = math.fsum(w for w, (_, good) in zip(self.weights, judged, strict=True) if good)
        return {
            "satisfied": satisfied,
            "expected": expected,
            **self._facts(),
            "texts": list(self.texts),
            "weights": list(self.weights),
            "scores": [dict(scores) for scores, _ in judged],
        }

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"cut_off": self.cut_off, "log_z": self.log_z, "quality": self.quality}
        facts |= {"ess": self.ess, "alive": self.alive, "tokens": self.tokens}
        return facts | ({"draws": self.draws} if self.draws else {})


def answers_of(post: Posterior, method: Method) -> Answers:
    """Collect the answers of a run, the particles weighed by the rules of the method."""
    assert post.log_potentials is not None
    proper = post.log_weights
    alive = ~proper.isneginf()
    cut = post.cut_off[: None if method.cut_off else 0]
    weights = proper if method.corrected else _where(post.log_potentials, alive)
    if not method.corrected:
        cut = torch.zeros_like(cut)
    everything = torch.cat([weights, cut])
    facts: dict[str, Any] = {
        "ess": effective_sample_size(everything),
        "alive": float(alive.double().mean()),
        "tokens": sum(map(len, post.token_ids)),
        "log_z": post.log_evidence if method.corrected and not post.failed else None,
        "quality": _quality(proper, weights) if method.constrained and not post.failed else None,
    }
    if bool(everything.isneginf().all()):
        return Answers([], [], 0.0, **facts)
    shares = everything.softmax(0)
    texts: dict[str, float] = {}
    for text, share in zip(post.texts, shares[: len(weights)].tolist(), strict=True):
        if share:
            texts[text] = texts.get(text, 0.0) + share
    return Answers(list(texts), list(texts.values()), float(shares[len(weights) :].sum()), **facts)


def _where(values: Tensor, here: Tensor) -> Tensor:
    return torch.where(here, values, -torch.inf)


def _quality(proper: Tensor, weights: Tensor) -> float | None:
    """Estimate log Z − KL(method ‖ target) for a particle drawn with probability p_i ∝ exp(``weights[i]``):

    Σ_i p_i · (log proper_i − log weights_i) + log mean weights, which is log Ẑ if the weights are the proper ones. Both
    arguments are log-weights.
    """
    chosen = weights.softmax(0)
    here = chosen > 0
    log_mean = float(weights.logsumexp(0)) - math.log(len(weights))
    quality = float((chosen[here] * (proper[here] - weights[here])).sum()) + log_mean
    return quality if math.isfinite(quality) else None
