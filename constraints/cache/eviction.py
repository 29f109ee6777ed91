"""Which files of the cache are removed: those used least recently, and what was left by processes that were killed."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ...storage import is_abandoned

FILE = re.compile(r"(\.)?[a-z]+-[0-9a-f]{64}\.safetensors(?(1)\..*\.part)")  # the only names that are touched
LEAST_BYTES = 4096  # that a file takes of a disk


def evict(folder: Path, most: int) -> None:
    """Remove files until those left have at most ``most`` bytes, the least recently used first. Raises ``OSError``.

    A file counts as :data:`LEAST_BYTES` bytes if it has fewer. Temporary files go with the process that wrote them, or after a
    day. Other processes may evict at the same time.
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
