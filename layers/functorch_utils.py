"""What may be asked of a tensor: whether its values can be read, and whether they were written to since."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor  # `import torch` has loaded it


def transformed(x: Tensor) -> bool:
    """Whether x is under a ``torch.func`` transform (vmap, grad, jvp)."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(x)


def is_abstract(x: Tensor) -> bool:
    """Whether the values of x cannot be read: in ``torch.compile`` or ``torch.func.vmap``, or on the meta device.

    There nothing may depend on them: evidence is not checked, and no row is computed a second time.
    """
    if torch.compiler.is_compiling() or shape_only(x):
        return True
    while transformed(x):
        if torch._C._functorch.is_batchedtensor(x):
            return True
        x = torch._C._functorch.get_unwrapped(x)
    return False


def shape_only(x: Tensor) -> bool:
    """Whether x has a shape and no values: on the meta device, or a stand-in for a tensor on another device."""
    return x.is_meta or isinstance(x, FakeTensor)


def any_if_concrete(condition: Tensor) -> bool:
    """True if any element is true; False when values cannot be read (:func:`is_abstract`)."""
    return not is_abstract(condition) and bool(condition.any())


def version(x: Tensor) -> int | None:
    """How often x has been written to in place; None for a tensor made in ``torch.inference_mode``, which does not count.

    What is derived from a tensor may be kept as long as this number stays the same.
    """
    return None if x.is_inference() else x._version
