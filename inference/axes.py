"""Tensors by labelled axes: the few steps that every semiring is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Labels = Sequence[int]


def einsum(a: Tensor, a_labels: Labels, b: Tensor, b_labels: Labels, out: Labels) -> Tensor:
    """torch.einsum with dtype promotion, and a bare matmul where that is what it is."""
    if a.dtype != b.dtype:
        dtype = torch.promote_types(a.dtype, b.dtype)
        a, b = a.to(dtype), b.to(dtype)
    if (
        len(a_labels) == len(b_labels) == len(out) == 2
        and out[1] == b_labels[1]
        and a_labels[0] != a_labels[1]
    ):
        if a_labels == [out[0], b_labels[0]] and out[0] != out[1]:
            return (b.T @ a.T).T  # the batch's rows stay together in memory
        if a_labels == [b_labels[0], out[0]] and out[0] != out[1]:
            return (b.T @ a).T
    names = {label: i for i, label in enumerate(dict.fromkeys([*a_labels, *b_labels, *out]))}
    operands: list[Any] = [
        a,
        [names[i] for i in a_labels],
        b,
        [names[i] for i in b_labels],
        [names[i] for i in out],
    ]
    return torch.einsum(*operands)


def unflatten(x: Tensor, axis: int, dims: Sequence[int]) -> Tensor:
    """One axis written as several."""
    return x.reshape(*x.shape[:axis], *dims, *x.shape[axis + 1 :])


def align(x: Tensor, labels: Labels, order: Labels) -> Tensor:
    """x with its axes in ``order``, size one where it lacks a label."""
    present = [label for label in order if label in labels]
    x = x.permute([list(labels).index(label) for label in present])
    return x.reshape([x.shape[present.index(label)] if label in present else 1 for label in order])


def segments(index: Tensor, like: Tensor, axis: int) -> Tensor:
    """The index along ``axis``, repeated over the other axes of ``like``."""
    shape = [1] * like.ndim
    shape[axis] = -1
    return index.view(shape).expand_as(like)


def safe_log(x: Tensor) -> Tensor:
    """log x, −inf at zero with derivative zero instead of nan."""
    zero = x == 0
    return torch.where(zero, 1, x).log().masked_fill(zero, -torch.inf)


def top_along(x: Tensor, labels: Labels, summed: Labels) -> Tensor:
    """The largest value along the summed labels, of size one there; zero where it is infinite."""
    axes = [i for i, label in enumerate(labels) if label in summed]
    return finite(x.detach().amax(axes, keepdim=True)) if axes else x.new_zeros([1] * x.ndim)


def finite(x: Tensor) -> Tensor:
    """x with zero in place of what is infinite."""
    return torch.where(x.isfinite(), x, 0)


def kept(x: Tensor, labels: Labels, out: Labels) -> Tensor:
    """x, of size one along the labels that are summed, laid out as ``out``."""
    if len(labels) == len(out) == 2 and x.shape == (1, 1):
        return x
    summed = [i for i, label in enumerate(labels) if label not in out]
    return align(x.squeeze(summed), [label for label in labels if label in out], out)
