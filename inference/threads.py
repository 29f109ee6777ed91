"""One thread for small models: their operations take microseconds, less than waiting for a thread that has no core.

Beside other busy processes each parallel operation waits for its slowest thread. The embedded model with its HMM took 34 s with
two threads and 2 s with one, on two cores shared with eight processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from ..circuits.chain import Chain

_outside: ContextVar[int | None] = ContextVar("threads outside of one_thread", default=None)
SMALL = 5_000_000  # parameters of a language model, and of an HMM or another chain


@contextmanager
def one_thread(*parts: Any) -> Iterator[None]:
    """Let torch use one thread within the block if all parts, language models and HMMs (None: none), are small and on the CPU.

    The number of threads is that of the calling thread, and is restored after the block. It is never raised. Language models
    that are not neural networks of torch are left alone.
    """
    before = torch.get_num_threads()
    if before == 1 or not all(map(is_small, parts)):
        yield
        return
    outside = _outside.set(before)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _outside.reset(outside)


@contextmanager
def callers_threads() -> Iterator[None]:
    """Give functions of the caller, which run inside of :func:`one_thread`, the number of threads that there was outside."""
    number = _outside.get()
    if number is None:
        yield
        return
    within = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(within)


def is_small(part: Any) -> bool:
    """Return whether a language model or an HMM (None: none) is small and on the CPU."""
    if part is None:
        return True
    counted = part if isinstance(part, Chain) else getattr(part, "model", None)
    if not isinstance(counted, Chain | torch.nn.Module):
        return False
    parameters = list(counted.parameters())
    return sum(p.numel() for p in parameters) <= SMALL and all(p.device.type == "cpu" for p in parameters)
