"""Comparisons that say what was promised: of numbers, of means of draws with their expectations, and of errors."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from statistics import NormalDist
from typing import Any

from torch import Tensor


def promise(holds: bool, said: str) -> None:
    """Raise ``AssertionError`` with what was promised, unless it holds."""
    if not holds:
        raise AssertionError(said)


def refused(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    """Raise ``AssertionError`` unless a call raises this error."""
    try:
        call()
    except error:
        return
    except Exception as other:
        raise AssertionError(f"{said} is a {error.__name__}, not {type(other).__name__}: {other}") from other
    raise AssertionError(f"{said} is a {error.__name__}, and was taken")


def same(found: Tensor, expected: Tensor, said: str, tolerance: float = 1e-6) -> None:
    """Compare entry by entry, relative to the larger of 1 and what is expected; infinities and NaN equal themselves alone."""
    promise(
        found.shape == expected.shape,
        f"{said}: the shape is {tuple(found.shape)}, not {tuple(expected.shape)}",
    )
    found, expected = found.detach().cpu().double(), expected.detach().cpu().double()
    gap = (found - expected).abs()
    near = gap.isfinite() & (gap <= tolerance * expected.abs().clamp(min=1.0))
    wrong = ~(near | (found == expected) | (found.isnan() & expected.isnan()))
    for at in map(tuple, wrong.nonzero()[:1].tolist()):
        raise AssertionError(f"{said}: at {at} it is {found[at].item():.6g}, not {expected[at].item():.6g}")


def unbiased(draws: Tensor, expected: Tensor, said: str, error: float, largest: float | None = None) -> None:
    """Compare the mean of independent draws, (draws, *what), with its expectation, entry by entry.

    The distance allowed is that of a normal test and, for what is too rare to be drawn, that of Bernstein's inequality. All
    entries together fail by chance with probability ``error`` at most. ``largest``: the largest value of a draw, if it is known.
    """
    count, each = len(draws), error / (2 * max(expected.numel(), 1))
    bound = float(draws.abs().max()) if largest is None else largest
    mean, spread = draws.mean(0), draws.std(0) / count**0.5
    allowed = NormalDist().inv_cdf(1 - each) * spread + bound * log(1 / each) / (3 * count)
    for place in ((mean - expected).abs() > allowed).nonzero()[:1].tolist():
        at = tuple(place)
        raise AssertionError(
            f"{said}: at {at} the mean of {count} draws is {mean[at].item():.6g} ± {spread[at].item():.2g}, "
            f"not {expected[at].item():.6g} (wrongly refused with probability {error:g} at most)"
        )
