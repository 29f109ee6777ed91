"""Questions about a tensor: whether its values can be read, and whether it has been written to."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor  # `import torch` has loaded it
from torch.autograd.forward_ad import unpack_dual


def transformed(x: Tensor) -> bool:
    """Return whether x is under a ``torch.func`` transform (vmap, grad, jvp)."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(x)


def is_abstract(x: Tensor) -> bool:
    """Return whether the values of x cannot be read: in ``torch.compile`` or ``torch.func.vmap``, or on the meta device.

    In these cases nothing may depend on the values: evidence is not checked, and no row is computed a second time.
    """
    if torch.compiler.is_compiling() or shape_only(x):
        return True
    while transformed(x):
        if torch._C._functorch.is_batchedtensor(x):
            return True
        x = torch._C._functorch.get_unwrapped(x)
    return False


def shape_only(x: Tensor) -> bool:
    """Return whether x has a shape but no values: a tensor on the meta device, or a fake tensor."""
    return x.is_meta or isinstance(x, FakeTensor)


def is_plain(tensors: Iterable[Tensor]) -> bool:
    """Return whether arithmetic on the tensors may be done in place: values can be read, and no derivative is asked for."""
    if torch.compiler.is_compiling():
        return False
    recorded = torch.is_grad_enabled()
    return not any(
        (recorded and x.requires_grad)
        or torch._C._functorch.is_functorch_wrapped_tensor(x)
        or shape_only(x)
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
