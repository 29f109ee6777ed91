"""What a resampling scheme promises: it is unbiased, and no particle of weight zero is an ancestor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .comparison import promise, same, unbiased


def check_resampler(
    scheme: Callable[..., Any],
    *,
    counts: Sequence[int] = (1, 4, 5),
    draws: int = 400,
    error: float = 1e-5,
    seed: int = 0,
) -> None:
    """Check that a resampling scheme is unbiased: E[copies of i] = N · weight_i, or E[new weight of i] = weight_i.

    Parameters
    ----------
    scheme
        A function of weights that sum to one, a generator and the number N of ancestors. It returns the ancestors' indices in
        increasing order, each with weight 1/N, or the ancestors and their new weights.
    counts
        The numbers N that are asked for.
    draws
        How many times it is called for each vector of weights and each number.
    error
        The probability with which a right scheme is refused, at most.
    seed
        The seed of the draws.

    Raises
    ------
    AssertionError
        If a promise is broken; it says which.

    Examples
    --------
    >>> import torch
    >>> from tractile.inference.smc.resampling import systematic
    >>> from tractile.testing import check_resampler
    >>> check_resampler(systematic)
    >>> check_resampler(lambda weights, generator, count: torch.full((count,), int(weights.argmax())))
    Traceback (most recent call last):
        ...
    AssertionError: weights [0.0, 0.85, 0.0, 0.15, 0.0], N = 1: the mean new weight is the weight: at (1,) ...
    """
    cases = [
        [0.0, 0.85, 0.0, 0.15, 0.0],
        [0.1, 0.2, 0.3, 0.4],
        [1e-9, 0.5, 0.25, 0.25 - 1e-9],
        [1.0],
        [0.2] * 5,
    ]
    generator = torch.Generator().manual_seed(seed)
    for case in cases:
        weights = torch.tensor(case, dtype=torch.float64)
        for count in counts:
            said = f"weights {case}, N = {count}"
            found = torch.zeros(draws, len(weights), dtype=torch.float64)
            for row in found:
                drawn = scheme(weights, generator, count)
                ancestors, new = (
                    drawn
                    if isinstance(drawn, tuple)
                    else (drawn, torch.full((len(drawn),), 1 / count, dtype=weights.dtype))
                )
                promise(bool((ancestors.diff() >= 0).all()), f"{said}: the indices increase")
                promise(
                    bool((weights[ancestors] > 0).all()), f"{said}: no particle of weight zero is an ancestor"
                )
                if isinstance(drawn, tuple):
                    promise(len(ancestors) <= count, f"{said}: at most N ancestors")
                    same(new.sum(), torch.tensor(1.0), f"{said}: the new weights sum to one", 1e-9)
                else:
                    promise(len(ancestors) == count, f"{said}: there are N ancestors")
                row.index_add_(0, ancestors, new.double())
            unbiased(
                found,
                weights,
                f"{said}: the mean new weight is the weight",
                error / (len(cases) * len(counts)),
                1.0,
            )
