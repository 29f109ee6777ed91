"""Named tensors with a JSON header in one safetensors file, under one checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, uint8

from ..errors import FormatError
from ..storage import write_atomically

ENTRY = "tractile"  # a single entry of metadata, since safetensors writes several in no fixed order


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write a file atomically; equal content gives equal bytes. Raises :class:`StorageError`."""
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
        if ENTRY not in metadata:  # written before there were checksums
            return tensors, metadata
        entry = json.loads(metadata[ENTRY])
        whole = entry["sha256"] == digest(tensors, entry["header"])
        header = dict(json.loads(entry["header"])) if whole else {}
    except (OSError, SafetensorError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {error!r}") from error
    if not whole:
        raise FormatError(f"{path} is damaged: its checksum is wrong")
    return tensors, header


def read_header(path: Path) -> dict[str, Any]:
    """Read the header alone, without a check of the tensors. Raises :class:`FormatError`."""
    try:
        with safe_open(path, "pt") as content:
            return dict(json.loads(json.loads(content.metadata()[ENTRY])["header"]))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path} cannot be read: {error!r}") from error


def digest(tensors: Mapping[str, Tensor], more: str = "") -> str:
    """SHA-256 of names, types, shapes and bits of tensors, and of ``more``."""
    out = hashlib.sha256(more.encode())
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        out.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        out.update(tensor.view(-1).view(uint8).numpy().data if tensor.numel() else b"")
    return out.hexdigest()
