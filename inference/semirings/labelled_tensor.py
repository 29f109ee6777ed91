"""Operations on tensors with labelled axes, which the semirings are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...layers.functorch_utils import finite, transformed
from ...layers.semiring import Labels as Labels


def einsum(a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
    """Compute torch.einsum with dtype promotion; a matrix applied along one axis takes a matrix product instead."""
    for m, rows, x, labels in ((a, a_labels, b, b_labels), (b, b_labels, a, a_labels)):
        if (axis := applied(rows, labels, out)) is not None:
            return along(m if rows[1] == labels[axis] else m.T, x, axis)
    if a.dtype != b.dtype:
        dtype = torch.promote_types(a.dtype, b.dtype)
        a, b = a.to(dtype), b.to(dtype)
    names = {label: i for i, label in enumerate(dict.fromkeys([*a_labels, *b_labels, *out]))}
    operands: list[Any] = [
        a,
        [names[i] for i in a_labels],
        b,
        [names[i] for i in b_labels],
        [names[i] for i in out],
    ]
    return torch.einsum(*operands)


def applied(a: Labels, b: Labels, out: Labels) -> int | None:
    """Return the axis of b along which the contraction applies the matrix a; None for any other contraction."""
    if len(a) != 2 or len(b) != len(out) or a[0] == a[1]:
        return None
    for row, col in ((a[0], a[1]), (a[1], a[0])):
        if col in b and row not in b:
            axis = b.index(col)
            if out[axis] == row and all(
                x == y or i == axis for i, (x, y) in enumerate(zip(b, out, strict=True))
            ):
                return axis
    return None


def along(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """Multiply x by a matrix along ``axis``, or by a stack of matrices, one for each entry of x's first of three axes, along 1.

    Each batch row (last axis) of a batch of vectors stays contiguous in memory.
    """
    if matrix.dtype != x.dtype:
        dtype = torch.promote_types(matrix.dtype, x.dtype)
        matrix, x = matrix.to(dtype), x.to(dtype)
    if matrix.ndim == 3:
        return matrix @ x
    if x.ndim == 2:
        return x @ matrix.T if axis else (x.T @ matrix.T).T
    if x.shape[-1] == 1 and axis == 0:
        return (matrix @ x.reshape(x.shape[0], -1)).view(-1, *x.shape[1:])
    if x.shape[-1] == 1 and axis == x.ndim - 2:
        return (x.reshape(-1, x.shape[axis]) @ matrix.T).view(*x.shape[:axis], -1, 1)
    rows = x.movedim(axis, -1)
    product = rows.reshape(-1, rows.shape[-1]) @ matrix.T
    return product.view(*rows.shape[:-1], matrix.shape[0]).movedim(-1, axis)


def unflatten(x: Tensor, axis: int, dims: Sequence[int]) -> Tensor:
    """Reshape one axis to several, of sizes ``dims``."""
    return x.reshape(*x.shape[:axis], *dims, *x.shape[axis + 1 :])


def align(x: Tensor, labels: Labels, order: Labels) -> Tensor:
    """Return x with its axes in ``order``, and an axis of size one for each label that x lacks."""
    present = [label for label in order if label in labels]
    x = x.permute([list(labels).index(label) for label in present])
    return x.reshape([x.shape[present.index(label)] if label in present else 1 for label in order])


def segments(index: Tensor, like: Tensor, axis: int) -> Tensor:
    """Expand an index along ``axis`` to the shape of ``like``."""
    shape = [1] * like.ndim
    shape[axis] = -1
    return index.view(shape).expand_as(like)


def safe_log(x: Tensor) -> Tensor:
    """Return log x; −inf at zero, with derivative zero instead of nan."""
    if not (x.requires_grad or transformed(x)):
        return x.log()
    zero = x == 0
    return torch.where(zero, 1, x).log().masked_fill(zero, -torch.inf)


def top_along(x: Tensor, labels: Labels, summed: Labels) -> Tensor:
    """Return the maximum over the summed labels, which keep size one; zero where it is infinite."""
    axes = [i for i, label in enumerate(labels) if label in summed]
    return finite(x.detach().amax(axes, keepdim=True)) if axes else x.new_zeros([1] * x.ndim)


def squeezed(x: Tensor, labels: Labels, out: Labels) -> Tensor:
    """Return x, of size one along the labels that are not in ``out``, with its axes in the order of ``out``."""
    if len(labels) == len(out) == 2 and x.shape == (1, 1):
        return x
    summed = [i for i, label in enumerate(labels) if label not in out]
    return align(x.squeeze(summed), [label for label in labels if label in out], out)
