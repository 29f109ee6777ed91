"""Whether the values of a tensor can be looked at: not within ``torch.compile`` or ``torch.func.vmap``."""

from __future__ import annotations

import torch
from torch import Tensor


def transformed(x: Tensor) -> bool:
    """Whether x is under a ``torch.func`` transform (vmap, grad, jvp)."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(x)


def hidden(x: Tensor) -> bool:
    """Whether the values of x cannot be looked at: within ``torch.compile`` or ``torch.func.vmap``.

    There nothing may depend on them: evidence is not checked, and no row is computed a second time.
    """
    if torch.compiler.is_compiling():
        return True
    while transformed(x):
        if torch._C._functorch.is_batchedtensor(x):
            return True
        x = torch._C._functorch.get_unwrapped(x)
    return False


def certain(condition: Tensor) -> bool:
    """Whether a condition is seen to hold somewhere; False where it cannot be looked at."""
    return not hidden(condition) and bool(condition.any())
