"""What a layer may ask of a semiring, without knowing which one it is.

A *value* is whatever the semiring computes with (a tensor, or a mantissa with its scale); an axis of a value is
named by position, and labels are small non-negative integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class Algebra(Protocol):
    """The operations of a semiring that layers use; implemented in :mod:`tractile.inference.semirings.base`."""

    additive: bool
    """Whether the value of a sum of weights is the ⊕ of their values."""

    def lift(self, weight: Tensor) -> Any:
        """Non-negative weights as a value."""

    def along(self, matrix: Tensor, x: Any, axis: int) -> Any:
        """A matrix of weights times x along ``axis``."""

    def einsum(
        self, a: Any, a_labels: Sequence[int], b: Any, b_labels: Sequence[int], out: Sequence[int]
    ) -> Any:
        """Σ a·b over the labels that are not in ``out``."""

    def gather(self, x: Any, index: Tensor, axis: int) -> Any:
        """The slices ``index`` of x along ``axis``."""

    def segment_sum(self, x: Any, index: Tensor, size: int, axis: int) -> Any:
        """The slices of x along ``axis`` added up by ``index`` into ``size`` segments."""

    def incidence(self, x: Any, matrix: Any, axis: int) -> Any:
        """An :class:`~tractile.layers.Incidence` applied along ``axis``."""

    def split(self, x: Any, axis: int, dims: Sequence[int]) -> Any:
        """One axis written as several."""

    def merge(self, x: Any, axis: int, count: int) -> Any:
        """``count`` axes from ``axis`` on written as one."""

    def ndim(self, x: Any) -> int:
        """The number of axes."""

    def device(self, x: Any) -> torch.device:
        """Where the value lives."""
