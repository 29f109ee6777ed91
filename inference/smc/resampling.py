"""Resampling: from normalised weights to ancestors, unbiased: E[number of copies of i] = N · weight_i for each scheme.

Every function takes the weights of N particles (float64, summing to one) and a generator, and returns N ancestors in
increasing order. Systematic and stratified lay N points on the unit interval and read off the particles they fall in,
multinomial N independent points; residual copies ⌊N·weight⌋ times and draws only the rest (Chopin & Papaspiliopoulos
2020, chapter 9).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

Resampling = Callable[[Tensor, Generator], Tensor]


def multinomial(weights: Float[Tensor, " n"], generator: Generator) -> Int[Tensor, " n"]:
    """N independent draws."""
    return _invert(weights, _uniform(len(weights), generator).sort().values)


def stratified(weights: Float[Tensor, " n"], generator: Generator) -> Int[Tensor, " n"]:
    """One uniform point in each of N equal intervals."""
    n = len(weights)
    return _invert(weights, (torch.arange(n) + _uniform(n, generator)) / n)


def systematic(weights: Float[Tensor, " n"], generator: Generator) -> Int[Tensor, " n"]:
    """One uniform point, repeated at distance 1/N: the number of copies is ⌊N·weight⌋ or one more."""
    n = len(weights)
    return _invert(weights, (torch.arange(n) + _uniform(1, generator)) / n)


def residual(weights: Float[Tensor, " n"], generator: Generator) -> Int[Tensor, " n"]:
    """⌊N·weight⌋ copies of each; the rest multinomial from what remains."""
    n = len(weights)
    copies = (n * weights).floor()
    rest = n - int(copies.sum())
    if rest:
        remainder = (n * weights - copies).clamp(min=0)
        drawn = _invert(remainder / remainder.sum(), _uniform(rest, generator))
        copies += torch.bincount(drawn, minlength=n)
    return torch.arange(n).repeat_interleave(copies.long())


SCHEMES: dict[str, Resampling] = {
    "multinomial": multinomial,
    "stratified": stratified,
    "systematic": systematic,
    "residual": residual,
}


def effective_sample_size(log_weights: Float[Tensor, " n"]) -> float:
    """(Σw)² / Σw²: between 1 and N particles; 0 if every weight is zero."""
    top = float(log_weights.max())
    if top == -torch.inf:
        return 0.0
    weights = (log_weights - top).exp()
    return float(weights.sum() ** 2 / weights.square().sum())


def _uniform(n: int, generator: Generator) -> Tensor:
    return torch.rand(n, dtype=torch.float64, generator=generator)


def _invert(weights: Tensor, points: Tensor) -> Tensor:
    """The particle in which each point of [0, 1) falls; never one of weight zero."""
    cumulative = weights.cumsum(0)
    last = torch.nextafter(cumulative[-1], cumulative.new_zeros(()))
    return torch.searchsorted(cumulative, (points * cumulative[-1]).clamp(max=last), right=True)
