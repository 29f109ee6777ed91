"""The processes of a ``torchrun`` job, which are called ranks; one process is a job of one rank.

Counts of EM are sums over sequences, so data-parallel EM is each rank counting a part of a batch and one all-reduce of
the sums: every rank then takes the same step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among the others."""

    rank: int = 0
    size: int = 1

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Add up the tensors of all ranks, in place."""
        if self.size > 1:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        """The tensors of all ranks one after the other along a dimension."""
        if self.size == 1:
            return tensor
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor.contiguous())
        return torch.cat(found, dim)

    def join(self, tensor: Tensor, dim: int) -> Tensor:
        """As :meth:`gather`, on the CPU, one rank's at a time, for what is too large for a device."""
        if self.size == 1:
            return tensor
        found = []
        for rank in range(self.size):
            part = tensor.contiguous() if rank == self.rank else torch.empty_like(tensor).contiguous()
            dist.broadcast(part, rank)
            found.append(part.cpu())
        return torch.cat(found, dim)

    def share(self, make: Callable[[], T]) -> T:
        """What rank 0 makes, on all ranks."""
        made: list[Any] = [make() if self.rank == 0 else None]
        if self.size > 1:
            dist.broadcast_object_list(made, 0)
        found: T = made[0]
        return found

    def wait(self) -> None:
        """Go on when all ranks have come here."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def ranks(device: torch.device | None = None) -> Iterator[Ranks]:
    """The ranks of the job that this process belongs to, as ``torchrun`` says; joined here if it was not done before.

    Ranks on the CPU talk by gloo, ranks on a GPU by nccl. A rank that dies makes the others fail at once.
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
