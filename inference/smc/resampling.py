"""Resampling: draw ancestors by normalised weights, unbiased: E[number of copies of i] = N · weight_i for each scheme.

Every function takes the weights of the particles (float64, summing to one), a generator, and the number N of ancestors to draw,
and returns the ancestors' indices in increasing order. Systematic and stratified resampling place N
spaced points on the unit interval, multinomial N independent ones, and take the particles in whose intervals they fall; residual
copies each particle ⌊N·weight⌋ times and draws only the rest (Chopin & Papaspiliopoulos 2020, chapter 9).
:func:`without_replacement` also returns weights, which are not all equal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from ...argument_checks import whole_numbers
from ...errors import EvidenceError

Weights = Float[Tensor, " particles"]
Ancestors = Int[Tensor, " n"]
Resampling = Callable[[Tensor, Generator, int], Tensor | tuple[Tensor, Tensor]]


def multinomial(weights: Weights, generator: Generator, n: int) -> Ancestors:
    """Draw N ancestors independently."""
    return _invert(weights, _uniform(n, generator).sort().values)


def stratified(weights: Weights, generator: Generator, n: int) -> Ancestors:
    """Draw ancestors at one uniform point in each of N equal intervals."""
    return _invert(weights, (torch.arange(n) + _uniform(n, generator)) / n)


def systematic(weights: Weights, generator: Generator, n: int) -> Ancestors:
    """Draw ancestors at N points at distance 1/N from one uniform point: ⌊N·weight⌋ copies or one more."""
    return _invert(weights, (torch.arange(n) + _uniform(1, generator)) / n)


def residual(weights: Weights, generator: Generator, n: int) -> Ancestors:
    """Copy each particle ⌊N·weight⌋ times, and draw the rest independently by the fractional parts."""
    copies = (n * weights).floor()
    rest = n - int(copies.sum())
    if rest:
        remainder = (n * weights - copies).clamp(min=0)
        drawn = _invert(remainder / remainder.sum(), _uniform(rest, generator))
        copies += torch.bincount(drawn, minlength=len(weights))
    return torch.arange(len(weights)).repeat_interleave(copies.long())


def without_replacement(
    weights: Weights, generator: Generator, n: int
) -> tuple[Ancestors, Float[Tensor, " n"]]:
    """Return N different particles and their new weights, which are unbiased and have the same total.

    Particles heavier than c keep their weight; a lighter one is kept with probability weight / c and then weighs c, with c
    such that N are kept: optimal resampling (Fearnhead & Clifford 2003; Lew et al. 2023). If at most N particles have positive
    weight, all of these are kept."""
    alive = int((weights > 0).sum())
    if alive <= n:
        ancestors = weights.nonzero()[:, 0]
        return ancestors, weights[ancestors]
    ordered, order = weights.sort(descending=True)
    rest = ordered.flip(0).cumsum(0).flip(0)  # the total weight of each particle and all lighter ones
    kept = torch.arange(n)
    threshold = rest[:n] / (n - kept)  # c if the `kept` heaviest particles are kept for certain
    heavy = int((ordered[:n] > threshold).long().cumprod(0).sum())
    c = threshold[heavy]
    light = order[heavy:]
    drawn = light[systematic(weights[light] / weights[light].sum(), generator, n - heavy)]
    ancestors, position = torch.cat([order[:heavy], drawn]).sort()
    return ancestors, torch.cat([ordered[:heavy], c.expand(n - heavy)])[position]


SCHEMES: dict[str, Resampling] = {
    "multinomial": multinomial,
    "stratified": stratified,
    "systematic": systematic,
    "residual": residual,
    "without-replacement": without_replacement,
}


def checked(
    drawn: object, weights: Float[Tensor, " particles"], count: int, scheme: Resampling
) -> tuple[Ancestors, Float[Tensor, " n"] | None]:
    """Return the ancestors that a scheme returned, and their weights if it gave any.

    Raises :class:`EvidenceError` unless they are ``count`` indices of particles of positive weight, or such indices, at least
    one, with a weight for each. Whether they are unbiased cannot be seen.
    """
    ancestors, new = drawn if isinstance(drawn, tuple) and len(drawn) == 2 else (drawn, None)
    name = getattr(scheme, "__name__", type(scheme).__name__)
    found = whole_numbers(ancestors, f"resampling: the ancestors that {name} returned")
    alive = weights > 0
    if found.ndim != 1 or not len(found) or (new is None and len(found) != count):
        wrong = f"a shape {tuple(found.shape)} for {count} particles"
    elif int(found.min()) < 0 or int(found.max()) >= len(weights):
        wrong = f"an index outside 0 … {len(weights) - 1}"
    elif not bool(alive[found].all()):
        wrong = "a particle of weight zero"
    elif new is not None and not (
        isinstance(new, Tensor) and new.shape == found.shape and bool(((new >= 0) & new.isfinite()).all())
    ):
        wrong = "weights that are not one finite number ≥ 0 for each index"
    else:
        return found, None if new is None else new.to(weights)
    raise EvidenceError(
        f"resampling: {name} returned {wrong}; return {count} indices of particles of positive weight, so that each has "
        f"{count} times its weight copies on average, or a pair of indices and their new weights"
    )


def effective_sample_size(log_weights: Float[Tensor, " n"]) -> float:
    """Return (Σw)² / Σw², between 1 and N particles, from log-weights; 0 if every weight is zero."""
    values = log_weights.detach().cpu().numpy()
    top = values.max()
    if top == -np.inf:
        return 0.0
    weights = np.exp(values - top)
    return float(weights.sum() ** 2 / (weights @ weights))


def _uniform(n: int, generator: Generator) -> Tensor:
    return torch.rand(n, dtype=torch.float64, generator=generator)


def _invert(weights: Tensor, points: Tensor) -> Tensor:
    """Return the particle in whose interval each point of [0, 1) falls; never one of weight zero."""
    cumulative = weights.cumsum(0)
    last = torch.nextafter(cumulative[-1], cumulative.new_zeros(()))
    return torch.searchsorted(cumulative, (points * cumulative[-1]).clamp(max=last), right=True)
