"""The operations of a semiring that layers use, independent of which semiring it is.

A *value* is the semiring's data type (a tensor, or a mantissa with its scale). Axes of a value are given by position, and
labels of an einsum are small non-negative integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class Algebra(Protocol):
    """The operations of a semiring that layers use; implemented in :mod:`tractile.inference.semirings.base`."""

    additive: bool
    """Whether lifting a sum of weights equals the ⊕ of the lifted weights."""

    def lift(self, weight: Tensor) -> Any:
        """Convert non-negative weights to a value."""

    def along(self, matrix: Tensor, x: Any, axis: int) -> Any:
        """Multiply x by a matrix of weights along ``axis``."""

    def einsum(
        self, a: Any, a_labels: Sequence[int], b: Any, b_labels: Sequence[int], out: Sequence[int]
    ) -> Any:
        """Contract a·b: sum over the labels that are not in ``out``."""

    def gather(self, x: Any, index: Tensor, axis: int) -> Any:
        """Return the slices ``index`` of x along ``axis``."""

    def segment_sum(self, x: Any, index: Tensor, size: int, axis: int) -> Any:
        """Add up the slices of x along ``axis`` into ``size`` segments: slice i goes to segment ``index[i]``."""

    def incidence(self, x: Any, matrix: Any, axis: int) -> Any:
        """Apply an :class:`~tractile.layers.Incidence` along ``axis``."""

    def split(self, x: Any, axis: int, dims: Sequence[int]) -> Any:
        """Reshape one axis to several of sizes ``dims``."""

    def merge(self, x: Any, axis: int, count: int) -> Any:
        """Flatten ``count`` axes from ``axis`` on to one."""

    def ndim(self, x: Any) -> int:
        """Return the number of axes."""

    def device(self, x: Any) -> torch.device:
        """Return the device of the value."""
