"""A disk cache of arrays, such as tries and compiled constraints, keyed by what they come from.

    <directory>/<kind>-<sha256 of what it was made from>.safetensors

``TRACTILE_CACHE`` names the directory (default ``~/.cache/tractile``, ``off`` for no cache), ``TRACTILE_CACHE_BYTES`` its
size
(default 1 GiB). Files are written under a temporary name and renamed, so that other processes read all of a file or none. A
file that cannot be read, or whose checksum is wrong, counts as missing. If nothing can be written, a warning is logged once.
"""

from __future__ import annotations

import hashlib
import logging
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
from ...storage import make_directory, write_atomically
from .eviction import LEAST_BYTES, evict

LOG = logging.getLogger("tractile.constraints")
VERSION = 4  # of the file format
MOST_BYTES = 1 << 30
SHARE = 16  # a process evicts whenever it has written 1/SHARE of the limit
_unchecked: dict[Path, int] = {}  # by directory: bytes that this process has written since its last eviction
_warned: set[str] = set()


def directory() -> Path | None:
    """Return the directory of the cache, None for no cache."""
    chosen = os.environ.get("TRACTILE_CACHE", "")
    if chosen.lower() in ("off", "0", "none"):
        return None
    if chosen:
        return Path(chosen)
    with suppress(RuntimeError):  # no home
        return Path.home() / ".cache" / "tractile"
    return None


def most_bytes() -> int:
    """Return the most bytes that all files of the cache may have together."""
    chosen = os.environ.get("TRACTILE_CACHE_BYTES", "")
    if chosen and not chosen.isdecimal():
        _warn(
            chosen,
            f"TRACTILE_CACHE_BYTES is {chosen!r}, not a whole number of bytes: {MOST_BYTES:,} is taken",
        )
    return int(chosen) if chosen.isdecimal() else MOST_BYTES


def digest(parts: Iterable[bytes | ndarray[Any, Any]]) -> str:
    """Return the SHA-256 of a sequence of parts as hexadecimal digits."""
    out = hashlib.sha256(b"tractile %d" % VERSION)
    for part in parts:
        data = part if isinstance(part, bytes) else np.ascontiguousarray(part).tobytes()
        kind = "" if isinstance(part, bytes) else f"{part.dtype.str}{part.shape}"
        out.update(f"{kind}:{len(data)}:".encode())
        out.update(data)
    return out.hexdigest()


@cache
def code() -> bytes:
    """Return a key of the code that makes constraints, the core too: the sizes and modification times of its files."""
    folder = Path(__file__).parent.parent
    paths = sorted([*folder.rglob("*.py"), *folder.parent.glob("_core.*")])
    files = [(p.relative_to(folder.parent).as_posix(), p.stat()) for p in paths]
    return repr([(name, s.st_size, s.st_mtime_ns) for name, s in files]).encode()


def checksum(kind: str, name: str, content: bytes) -> bytes:
    """Return the checksum of a file's content and name, so that a renamed file is not read."""
    return hashlib.sha256(f"{kind}-{name}:".encode() + content).digest()


def read(kind: str, name: str) -> dict[str, ndarray[Any, Any]] | None:
    """Return the arrays stored under a name, None if there are none or they cannot be read."""
    folder = directory()
    if folder is None:
        return None
    path = _file(folder, kind, name)
    try:
        data = path.read_bytes()
        check, content = data[:32], data[32:]
        arrays = load(content) if checksum(kind, name, content) == check else None
    except (OSError, SafetensorError, ValueError, KeyError):
        return None
    with suppress(OSError):
        os.utime(path)  # it was used now
    return arrays


def write(kind: str, name: str, arrays: Mapping[str, ndarray[Any, Any]]) -> None:
    """Store arrays under a name, and evict the least recently used files beyond the cache's size.

    Arrays larger than the cache are not stored. If the directory cannot be written, a warning is logged once.
    """
    folder, most = directory(), most_bytes()
    if folder is None:
        return
    content = save({key: np.ascontiguousarray(value) for key, value in arrays.items()})
    size = 32 + len(content)
    if size > most:
        return
    try:
        make_directory(folder)
        write_atomically(_file(folder, kind, name), checksum(kind, name, content) + content)
        _unchecked[folder] = _unchecked.get(folder, most) + max(size, LEAST_BYTES)
        if _unchecked[folder] >= most // SHARE:
            evict(folder, most)
            _unchecked[folder] = 0
    except (OSError, StorageError) as error:
        _warn(
            str(folder),
            f"nothing is kept in the cache of constraints, so each is compiled again: {error}. TRACTILE_CACHE names another "
            "folder, or is off",
        )


def _file(folder: Path, kind: str, name: str) -> Path:
    return folder / f"{kind}-{name}.safetensors"


def _warn(about: str, message: str) -> None:
    """Log a warning, once for each ``about``."""
    if about not in _warned:
        _warned.add(about)
        LOG.warning("%s", message)
