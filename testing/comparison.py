"""Comparisons that say what was promised: of numbers, and of means of draws with their expectations."""

from __future__ import annotations

from statistics import NormalDist

from torch import Tensor


def promise(holds: bool, said: str) -> None:
    """Raise ``AssertionError`` with what was promised, unless it holds."""
    if not holds:
        raise AssertionError(said)


def same(found: Tensor, expected: Tensor, said: str, tolerance: float = 1e-6) -> None:
    """Compare two tensors entry by entry, relative to the larger of 1 and what is expected; NaN equals NaN."""
    promise(
        found.shape == expected.shape,
        f"{said}: the shape is {tuple(found.shape)}, not {tuple(expected.shape)}",
    )
    found, expected = found.detach().cpu().double(), expected.detach().cpu().double()
    near = (found - expected).abs() <= tolerance * expected.abs().clamp(min=1.0)
    wrong = ~(near | (found == expected) | (found.isnan() & expected.isnan()))
    for place in wrong.nonzero()[:1].tolist():
        at = tuple(place)
        raise AssertionError(f"{said}: at {at} it is {found[at].item():.6g}, not {expected[at].item():.6g}")


def unbiased(draws: Tensor, expected: Tensor, said: str, error: float) -> None:
    """Compare the mean of independent draws, (draws, *what), with its expectation by a normal test of each entry.

    All of them together fail by chance with probability ``error`` at most. An entry that never varies must be right.
    """
    limit = NormalDist().inv_cdf(1 - error / (2 * max(expected.numel(), 1)))
    mean, spread = draws.mean(0), draws.std(0) / len(draws) ** 0.5
    far = (mean - expected).abs() > limit * spread + 1e-9 * expected.abs().clamp(min=1.0)
    for place in far.nonzero()[:1].tolist():
        at = tuple(place)
        raise AssertionError(
            f"{said}: at {at} the mean of {len(draws)} draws is {mean[at].item():.6g} ± {spread[at].item():.2g}, "
            f"not {expected[at].item():.6g} (wrongly refused with probability {error:g} at most)"
        )
