"""Questions about a tensor: whether its values can be read, and whether it has been written to."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.autograd.forward_ad import unpack_dual
from torch.nn import Parameter

_PLAIN = Tensor, Parameter


def transformed(x: Tensor) -> bool:
    """Return whether x is under a ``torch.func`` transform (vmap, grad, jvp): it wraps another tensor and has no storage."""
    if (
        torch.compiler.is_compiling() or type(x) not in _PLAIN
    ):  # another kind of tensor, such as a stand-in without values
        return False
    try:
        x.data_ptr()
    except RuntimeError:
        return not shape_only(x)
    return False


def is_abstract(x: Tensor) -> bool:
    """Return whether the values of x cannot be read: in ``torch.compile`` or ``torch.func.vmap``, or on the meta device.

    In these cases nothing may depend on the values: evidence is not checked, and no row is computed a second time.
    """
    if torch.compiler.is_compiling() or x.is_meta:
        return True
    if type(x) in _PLAIN:
        try:
            x.data_ptr()
        except RuntimeError:
            return not _readable(x)
        return False
    return not _readable(x)


def shape_only(x: Tensor) -> bool:
    """Return whether x has a shape but no values: a tensor on the meta device, or a fake tensor."""
    return x.is_meta or (type(x) not in _PLAIN and not _readable(x))


def _readable(x: Tensor) -> bool:
    try:
        bool(x.any())
    except RuntimeError:  # what vmap, the meta device and fake tensors raise
        return False
    return True


def is_plain(tensors: Iterable[Tensor]) -> bool:
    """Return whether arithmetic on the tensors may be done in place: values can be read, and no derivative is asked for."""
    if torch.compiler.is_compiling():
        return False
    recorded = torch.is_grad_enabled()
    return not any(
        (recorded and x.requires_grad)
        or shape_only(x)
        or transformed(x)
        or unpack_dual(x).tangent is not None
        for x in tensors
    )


def any_if_concrete(condition: Tensor) -> bool:
    """Return True if any element is true; False if the values cannot be read (:func:`is_abstract`)."""
    return not is_abstract(condition) and bool(condition.any())


def version(x: Tensor) -> int | None:
    """Return the number of in-place writes to x; None for a tensor made in ``torch.inference_mode``, which has no count.

    Results derived from a tensor may be cached as long as this number stays the same.
    """
    return None if x.is_inference() else x._version


def finite(x: Tensor) -> Tensor:
    """Return x with zero in place of infinite values and NaN."""
    return torch.where(x.isfinite(), x, 0)
