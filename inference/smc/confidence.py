"""Confidence intervals for the estimates of weighted particles, from groups that are nearly independent of each other.

Particles depend on each other if they have a common ancestor before a resampling, or come from one run or from successive sweeps
of a chain; a group g holds such particles. The mean μ = Σ_i w_i f(x_i), with normalised weights w, has the variance

    V = G / (G − 1) · Σ_g ( Σ_{i ∈ g} w_i (f(x_i) − μ) )²                          (Chan & Lai 2013; Lee & Whiteley 2018)

Without resampling each particle is a group: the delta method. Groups by ancestor before the first resampling give a consistent
estimate, but V = 0 if all particles descend from one; groups by ancestor before a later resampling are more and miss some of the
variance (Olsson & Douc 2019). The largest V over all resamplings is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...errors import EvidenceError
from ..arguments import short


@dataclass(frozen=True)
class Estimate:
    """An estimate with its standard error and the interval [``low``, ``high``] of confidence ``level``.

    >>> import tractile as tt
    >>> str(tt.inference.smc.Estimate(0.25, 0.04, 0.18, 0.34, 0.95))
    '0.25 [0.18, 0.34]'
    """

    value: float
    error: float
    low: float
    high: float
    level: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


class Spread(NamedTuple):
    """The variance of a weighted mean, and the effective number of independent groups from which it was estimated."""

    variance: float
    groups: float


def spread(
    influence: Float[Tensor, " particles"],
    weights: Float[Tensor, " particles"],
    lineage: Int[Tensor, "particles generations"],
) -> Spread:
    """Return the largest variance of the sum of the influences, over the columns of ``lineage`` that group the particles.

    The influence of a particle on a weighted mean is w_i (f(x_i) − μ). If all variances are zero, ``groups`` is that of the
    first column.
    """
    found = []
    for column in lineage.T:
        _, group = column.unique(return_inverse=True)
        size = int(group.max()) + 1
        sums, mass = (
            torch.zeros(size, dtype=torch.float64).index_add_(0, group, v) for v in (influence, weights)
        )
        variance = float((sums - sums.mean()).square().sum()) * size / (size - 1) if size > 1 else 0.0
        groups = float(mass.sum() ** 2 / mass.square().sum()) if bool(mass.any()) else 1.0
        found.append(Spread(variance, groups))
    return max(found, key=lambda one: one.variance)


def interval_of_mean(value: float, of: Spread, level: float) -> Estimate:
    """Return the interval by Student's t, with one degree of freedom less than there are groups."""
    error = math.sqrt(of.variance)
    half = quantile(of, level) * error if error else 0.0
    return Estimate(value, error, value - half, value + half, level)


def interval_of_share(value: float, of: Spread, level: float) -> Estimate:
    """Return Wilson's interval of a probability, for the number of independent draws that would have this variance.

    Its quantile is the normal one, which Wilson's interval is made for; below two groups, which tell no variance, Student's.
    """
    value = min(max(value, 0.0), 1.0)
    noise = value * (1 - value)
    n = noise / of.variance if noise and of.variance else of.groups
    q = (quantile(of, level) if of.groups < 2 else NormalDist().inv_cdf((1 + level) / 2)) ** 2
    middle = (value + q / (2 * n)) / (1 + q / n)
    half = math.sqrt(q * (noise / n + q / (4 * n**2))) / (1 + q / n)
    return Estimate(value, math.sqrt(of.variance), max(middle - half, 0.0), min(middle + half, 1.0), level)


def quantile(of: Spread, level: float) -> float:
    """Return the two-sided quantile of Student's t."""
    from scipy.stats import t as student

    return float(student.ppf((1 + level) / 2, max(of.groups - 1, 1.0)))


def check_level(level: float, name: str) -> float:
    """Return the level as a float; raise :class:`EvidenceError` unless it is between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise EvidenceError(f"{name}: level must be between 0 and 1, such as 0.95, not {short(level)}")
    return float(level)
