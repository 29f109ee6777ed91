"""Eviction from the disk cache: least recently used files, and temporary files of killed processes."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ...storage import is_abandoned

FILE = re.compile(r"(\.)?[a-z]+-[0-9a-f]{64}\.safetensors(?(1)\..*\.part)")  # other files are never removed
LEAST_BYTES = 4096  # the least disk space that a file takes


def evict(folder: Path, most: int) -> None:
    """Remove the least recently used files until at most ``most`` bytes are left.

    Raises ``OSError``.

    A file counts as at least :data:`LEAST_BYTES` bytes. A temporary file is removed if the process that wrote it has ended,
    or after a day. Other processes may evict at the same time.
    """
    files, total = [], 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if not FILE.fullmatch(entry.name):
                continue
            with suppress(OSError):  # removed by another process meanwhile
                status = entry.stat(follow_symlinks=False)
                if entry.name.startswith("."):
                    if is_abandoned(entry.name, status.st_mtime):
                        os.unlink(entry.path)
                else:
                    size = max(status.st_size, LEAST_BYTES)
                    files.append((status.st_mtime_ns, size, entry.path))
                    total += size
    for _, size, path in sorted(files):
        if total <= most:
            break
        with suppress(OSError):
            os.unlink(path)
        total -= size
