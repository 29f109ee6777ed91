"""The processes (ranks) of a ``torchrun`` job; a single process is a job of one rank.

Data-parallel EM: each rank counts part of a batch, an all-reduce sums the counts, and every rank takes the same step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import FormatError
from .run_folder import differences

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process's rank in a job of ``size`` processes, and collective operations."""

    rank: int = 0
    size: int = 1

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Sum tensors over all ranks, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        """Concatenate the tensors of all ranks along a dimension, on every rank."""
        if self.size == 1:
            return tensor
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor.contiguous())
        return torch.cat(found, dim)

    def join(self, tensor: Tensor, dim: int) -> Tensor:
        """Concatenate as :meth:`gather` does, on the CPU and one rank at a time, for tensors too large for a device."""
        if self.size == 1:
            return tensor
        found = []
        for rank in range(self.size):
            part = tensor.contiguous() if rank == self.rank else torch.empty_like(tensor).contiguous()
            dist.broadcast(part, rank)
            found.append(part.cpu())
        return torch.cat(found, dim)

    def share(self, make: Callable[[], T]) -> T:
        """Call ``make`` on rank 0 and broadcast the result."""
        made: list[Any] = [make() if self.rank == 0 else None]
        if self.size > 1:
            dist.broadcast_object_list(made, 0)
        found: T = made[0]
        return found

    def check_same(self, what: str, settings: Mapping[str, Any]) -> None:
        """Raise :class:`FormatError` on a rank whose settings are not those of rank 0."""
        first = self.share(lambda: dict(settings))
        if first != settings:
            raise FormatError(
                f"{what}: rank {self.rank} has other settings than rank 0: {differences(first, settings)}; start all ranks with "
                "the same arguments, corpus and version"
            )

    def wait(self) -> None:
        """Wait until all ranks have arrived."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def ranks(device: torch.device | None = None) -> Iterator[Ranks]:
    """Join the job that ``torchrun`` started, unless this process has joined it already; yield its :class:`Ranks`.

    Uses gloo on the CPU and nccl on a GPU. When a rank dies the others fail at once.
    """
    if dist.is_available() and dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size())
        return
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    backend = "nccl" if device is not None and device.type == "cuda" else "gloo"
    # Ranks may wait long for one that reads a large model or has the longest shard.
    dist.init_process_group(backend, timeout=timedelta(hours=12))
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
