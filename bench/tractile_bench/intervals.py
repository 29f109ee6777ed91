"""Means over examples with bootstrap intervals, correlations, and the total variation of two distributions over texts.

Intervals are percentiles over resampled examples, as in both papers. Questions are resampled, not particles, so an interval
shows how far the figure would move with other questions of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from tractile.errors import EvidenceError

RESAMPLES = 2000


class Interval(NamedTuple):
    """An estimate (``mean``) and the ends of its bootstrap interval at the level asked for."""

    mean: float
    low: float
    high: float


def bootstrap(
    values: Float[ndarray, " examples"] | Sequence[float],
    seed: int = 0,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """Estimate the mean of ``values``, one for each example, with its bootstrap interval.

    For a paired comparison of two methods give their differences. Raises :class:`EvidenceError` without an example.
    """
    values = np.asarray(values, dtype=float)
    if not len(values):
        raise EvidenceError("an interval needs an example or more")
    means = values[_draws(len(values), seed, resamples)].mean(axis=1)
    return Interval(float(values.mean()), *_percentiles(means, level))


def correlation(
    weights: Sequence[Sequence[float]],
    scores: Sequence[Sequence[float]],
    seed: int = 0,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Compute Pearson's correlation of weight and score over the answers of all examples (Loula et al. 2025, Table 3).

    Both arguments have one list for each example. Returns None if weights or scores do not vary."""
    moments = np.array(
        [
            [len(w), sum(w), sum(s), _dot(w, w), _dot(s, s), _dot(w, s)]
            for w, s in zip(weights, scores, strict=True)
        ]
    ).reshape(-1, 6)
    whole = _pearson(moments.sum(axis=0))
    if not np.isfinite(whole):
        return None
    draws = moments[_draws(len(moments), seed, resamples)].sum(axis=1)
    found = np.array([_pearson(row) for row in draws])
    return Interval(float(whole), *_percentiles(found[np.isfinite(found)], level))


def total_variation(p: Mapping[str, float], q: Mapping[str, float]) -> float:
    """Return the total variation ½ Σ |p(x) − q(x)|, between 0 and 1 if both sum to one."""
    return 0.5 * sum(abs(p.get(x, 0.0) - q.get(x, 0.0)) for x in {*p, *q})


def _draws(examples: int, seed: int, resamples: int) -> ndarray:
    return np.random.default_rng(seed).integers(examples, size=(resamples, examples))


def _percentiles(found: ndarray, level: float) -> tuple[float, float]:
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _pearson(moments: ndarray) -> float:
    n, w, s, ww, ss, ws = moments
    spread = (n * ww - w * w) * (n * ss - s * s)
    # A difference this small of two large numbers is rounding error, not variance.
    if n < 2 or n * ww - w * w <= 1e-12 * n * ww or n * ss - s * s <= 1e-12 * n * ss:
        return float("nan")
    return float((n * ws - w * s) / np.sqrt(spread))
