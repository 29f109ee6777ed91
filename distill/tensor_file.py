"""Named tensors in safetensors files: with a JSON header under one checksum, and a part of each tensor at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..circuits.io.pieces import memory
from ..errors import FormatError, ShapeError
from ..storage import write_atomically

ENTRY = "tractile"  # a single entry of metadata, since safetensors writes several in no fixed order


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write a file with a JSON header, atomically; equal content gives equal bytes. Raises :class:`StorageError`."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(dict(header), sort_keys=True)
    entry = json.dumps({"header": text, "sha256": digest(tensors, text)}, sort_keys=True)
    write_atomically(path, save(tensors, {ENTRY: entry}))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read (tensors, header). Raises :class:`FormatError` for a file that is damaged or not of this format."""
    try:
        with safe_open(path, "pt") as content:
            metadata = content.metadata() or {}
            tensors = {key: content.get_tensor(key) for key in content.keys()}  # noqa: SIM118
        entry = json.loads(metadata[ENTRY])
        whole = entry["sha256"] == digest(tensors, entry["header"])
        header = dict(json.loads(entry["header"])) if whole else {}
    except (OSError, SafetensorError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"{path} is damaged or cannot be read: {error!r}") from error
    if not whole:
        raise FormatError(f"{path} is damaged: its checksum is wrong")
    return tensors, header


def check_file(path: Path, sha256: str) -> None:
    """Raise :class:`FormatError` if a file is missing or has another SHA-256."""
    try:
        with path.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}") from error
    if found != sha256:
        raise FormatError(f"{path} is damaged: its checksum is wrong")


def read_range(files: Sequence[Path], name: str, dim: int, part: int, parts: int) -> Tensor:
    """Read part number ``part`` of ``parts`` equal ones of a tensor along a dimension, which the files divide equally, in order.

    Raises :class:`FormatError` if a file is damaged or lacks the tensor, :class:`ShapeError` if the parts cannot be equal.
    """
    found: list[Tensor] = []
    try:
        for i, file in enumerate(files):
            with safe_open(file, "pt") as content:
                tensor = content.get_slice(name)
                shape = tensor.get_shape()
                size, start = shape[dim] * len(files), shape[dim] * i
                if size % parts:
                    raise ShapeError(
                        f"{size} blocks of hidden states ({name}) cannot be dealt out to {parts} ranks evenly"
                    )
                low = max(size // parts * part - start, 0)
                high = min(size // parts * (part + 1) - start, shape[dim])
                if low < high:
                    index = [slice(None)] * len(shape)
                    index[dim % len(shape)] = slice(low, high)
                    found.append(tensor[tuple(index)])
    except (OSError, SafetensorError, KeyError, IndexError) as error:
        raise FormatError(f"{files[0].parent} cannot be read: {error}") from error
    return found[0].clone() if len(found) == 1 else torch.cat(found, dim)


def tensor_shapes(file: Path) -> dict[str, tuple[int, ...]]:
    """Read the names and shapes of the tensors in a file. Raises :class:`FormatError`."""
    try:
        with safe_open(file, "pt") as content:
            return {name: tuple(content.get_slice(name).get_shape()) for name in content.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise FormatError(f"{file} cannot be read: {error}") from error


def digest(tensors: Mapping[str, Tensor], more: str = "") -> str:
    """SHA-256 of names, types, shapes and bits of tensors, and of ``more``."""
    out = hashlib.sha256(more.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu()
        out.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        out.update(memory(tensor) if tensor.numel() else b"")
    return out.hexdigest()
