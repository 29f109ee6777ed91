"""Arrays on disk, by what they were made from: the tries of vocabularies, compiled constraints.

    <directory>/<kind>-<sha256 of what it was made from>.safetensors

The directory is ``TRACTILE_CACHE``, by default ``~/.cache/tractile``; ``TRACTILE_CACHE=off`` keeps nothing. A file is written
under another name and renamed, so that other processes see all of it or none; one that cannot be read is as good as none.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ...errors import StorageError
from ...storage import write_atomically

VERSION = 4  # of the meaning of the arrays


def directory() -> Path | None:
    """Where arrays are kept, None for nowhere."""
    chosen = os.environ.get("TRACTILE_CACHE", "")
    if chosen.lower() in ("off", "0", "none"):
        return None
    if chosen:
        return Path(chosen)
    with suppress(RuntimeError):  # no home
        return Path.home() / ".cache" / "tractile"
    return None


def digest(parts: Iterable[bytes | ndarray[Any, Any]]) -> str:
    """A name for content: the same for the same parts in the same order."""
    out = hashlib.sha256(b"tractile %d" % VERSION)
    for part in parts:
        data = part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes()
        kind = "" if isinstance(part, bytes) else f"{part.dtype.str}{part.shape}"
        out.update(f"{kind}:{len(data)}:".encode())
        out.update(data)
    return out.hexdigest()


@cache
def code() -> bytes:
    """A name for the code that makes constraints: its files' sizes and times."""
    folder = Path(__file__).parent.parent
    files = [(p.relative_to(folder).as_posix(), p.stat()) for p in sorted(folder.rglob("*.py"))]
    return repr([(name, s.st_size, s.st_mtime_ns) for name, s in files]).encode()


def checksum(kind: str, name: str, content: bytes) -> bytes:
    """The checksum of a file: of its content, and of its name, so that a file under another's name is not read."""
    return hashlib.sha256(f"{kind}-{name}:".encode() + content).digest()


def read(kind: str, name: str) -> dict[str, ndarray[Any, Any]] | None:
    """The arrays kept under a name, if there are any that can be read."""
    path = directory()
    if path is None:
        return None
    try:
        data = (path / f"{kind}-{name}.safetensors").read_bytes()
        check, content = data[:32], data[32:]
        return load(content) if checksum(kind, name, content) == check else None
    except (OSError, SafetensorError, ValueError, KeyError):
        return None


def write(kind: str, name: str, arrays: Mapping[str, ndarray[Any, Any]]) -> None:
    """Keep arrays under a name; where the directory cannot be written they are not kept."""
    path = directory()
    if path is None:
        return
    content = save({key: np.ascontiguousarray(value) for key, value in arrays.items()})
    with suppress(OSError, StorageError):
        path.mkdir(parents=True, exist_ok=True)
        write_atomically(path / f"{kind}-{name}.safetensors", checksum(kind, name, content) + content)
