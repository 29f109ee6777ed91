"""The processes (ranks) of a ``torchrun`` job; a single process is a job of one rank.

Values and tensors go through ``torch.distributed``: gloo for those on the CPU, nccl for those on a GPU. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from .. import errors
from ..errors import FormatError, RankLost, ShapeError, TractileError
from .heartbeat import Heartbeat, store_of_job
from .run_folder import differences, here

T = TypeVar("T")
PATIENCE = timedelta(hours=12)
"""The longest wait for a rank that lives: one may read a large model or draw the longest shard while the others wait."""


@dataclass(frozen=True)
class Ranks:
    """This process's rank in a job of ``size`` processes, and collective operations: every rank calls the same ones in order."""

    rank: int = 0
    size: int = 1
    joined: bool = False  # whether there is a process group

    def sum(self, tensors: Sequence[Tensor]) -> None:
        """Sum tensors over all ranks, in place."""
        if self.joined:
            for tensor in tensors:
                dist.all_reduce(tensor)

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        """Concatenate the tensors of all ranks along a dimension, on every rank."""
        if not self.joined:
            return tensor
        found = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(found, tensor.contiguous())
        return torch.cat(found, dim)

    def broadcast(self, tensor: Tensor, source: int = 0) -> None:
        """Overwrite a tensor, on every rank, with that of one rank."""
        if self.joined:
            dist.broadcast(tensor, source)

    def first(self, make: Callable[[], T]) -> T:
        """Call ``make`` on rank 0 and return its result, a JSON value, on all ranks; if it raises a typed error, all do."""
        if not self.joined:
            return make()
        said: dict[str, Any] = {}
        if self.rank == 0:
            try:
                said["value"] = make()
            except TractileError as error:
                self._told({"error": type(error).__name__, "message": str(error)}, 0)
                raise
        said = self._told(said, 0)
        if "error" in said:
            raise getattr(errors, said["error"])(said["message"])
        value: T = said["value"]
        return value

    def every(self, value: T) -> list[T]:
        """Return the JSON values of all ranks, on every rank."""
        return [self._told(value, rank) for rank in range(self.size)]

    def check_same(self, what: str, settings: Mapping[str, Any]) -> None:
        """Raise :class:`FormatError` on every rank if one has other settings than rank 0."""
        mine = json.loads(json.dumps(settings))
        first, said = self.first(lambda: mine), ""
        if first != mine:
            said = f"rank {self.rank} has other settings than rank 0: {differences(first, mine)}"
        for found in filter(None, self.every(said)):
            raise FormatError(f"{what}: {found}; start all ranks with the same arguments, corpus and version")

    def wait(self) -> None:
        """Wait until all ranks have arrived."""
        self.every(None)

    def _told(self, value: T, source: int) -> T:
        """Return the value of one rank, sent as JSON."""
        if not self.joined:
            return value
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        text = json.dumps(value).encode() if self.rank == source else b""
        length = torch.tensor([len(text)], device=device)
        self.broadcast(length, source)
        content = torch.zeros(int(length), dtype=torch.uint8, device=device)
        if self.rank == source:
            content.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
        self.broadcast(content, source)
        found: T = json.loads(content.cpu().numpy().tobytes())
        return found


ALONE = Ranks()
"""A process that shares nothing."""


def own_device(device: torch.device | str) -> torch.device:
    """Return the device of this rank, and make it the current one: for "cuda" the GPU of its number on this machine.

    Raises :class:`ShapeError` if this machine has fewer GPUs than ranks.
    """
    device = torch.device(device)
    if device.type != "cuda":
        return device
    number = int(os.environ.get("LOCAL_RANK", "0")) if device.index is None else device.index
    if number >= torch.cuda.device_count():
        raise ShapeError(
            f"rank {os.environ.get('RANK', '0')} on {here()} is process {number} of its machine, which has "
            f"{torch.cuda.device_count()} GPUs: start as many processes a machine (--nproc-per-node)"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


@contextmanager
def ranks(device: torch.device | None = None) -> Iterator[Ranks]:
    """Join the job that ``torchrun`` started, unless this process has joined it already; yield its :class:`Ranks`.

    Raises :class:`RankLost`, which names the rank, if one dies, stops or does not answer for a minute.
    """
    if dist.is_available() and dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size(), joined=True)
        return
    rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    on_gpu = device is not None and own_device(device).type == "cuda"
    with Heartbeat(rank, size) as heart:
        try:
            backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
            dist.init_process_group(
                backend, store=store_of_job(heart.job), rank=rank, world_size=size, timeout=PATIENCE
            )
            yield Ranks(rank, size, joined=True)
        except TractileError:
            raise
        except RuntimeError as error:
            if said := heart.who_is_lost():
                raise RankLost(said) from error
            raise
        finally:
            if dist.is_initialized() and not (on_gpu and heart.is_lost):  # nccl would wait for the lost one
                dist.destroy_process_group()
