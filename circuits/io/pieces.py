"""Safetensors files written piece by piece, for tensors that are never whole in memory.

8 bytes: length of the header · JSON: name → dtype, shape, offsets · the tensors, each in its order in memory
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ...storage import write_atomically

TYPES = {
    torch.float16: "F16", torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64",
    torch.int8: "I8", torch.int16: "I16", torch.int32: "I32", torch.int64: "I64", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""The format's names of types."""


class Pieces(NamedTuple):
    """A tensor of a shape and a type, by consecutive pieces in its order in memory."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    pieces: Iterable[Tensor]

    @classmethod
    def of(cls, tensor: Tensor, dtype: torch.dtype | None = None) -> Pieces:
        """Return a whole tensor as its only piece."""
        return cls(tuple(tensor.shape), dtype or tensor.dtype, [tensor])


def write_pieces(path: Path, tensors: Mapping[str, Pieces]) -> str:
    """Write tensors atomically, with one piece in memory at a time; return the SHA-256 of the file.

    Raises :class:`StorageError`.
    """
    end, header = 0, {}
    for name, (shape, dtype, _) in tensors.items():
        start, end = end, end + torch.Size(shape).numel() * dtype.itemsize
        header[name] = {"dtype": TYPES[dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    sha256 = hashlib.sha256()

    def content() -> Iterator[bytes | memoryview]:
        yield len(text).to_bytes(8, "little") + text
        for _, dtype, pieces in tensors.values():
            for piece in pieces:
                yield memory(piece.detach().to("cpu", dtype))

    def hashed() -> Iterator[bytes | memoryview]:
        for piece in content():
            sha256.update(piece)
            yield piece

    write_atomically(path, hashed())
    return sha256.hexdigest()


def memory(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor on the CPU, without a copy if it is contiguous."""
    tensor = tensor.contiguous()  # where it is a single number, of any stride
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy().data
