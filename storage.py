"""Atomic file writes: write under a temporary name, flush, rename.

    .<name>.<machine>.<process>.<number>.part  →  <name>

Permissions are those of any new file (0666 less the umask). A write that fails, by a full disk for example, raises
:class:`StorageError` and leaves the former file unchanged.
"""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from .errors import StorageError

DAY = 24 * 3600  # seconds without a write after which a temporary file counts as abandoned
_numbers = itertools.count()  # so that threads of one process do not share a temporary file


def write_atomically(path: Path, content: bytes | Iterable[bytes | memoryview]) -> None:
    """Write a file atomically; ``content`` is given whole or in pieces. Raises :class:`StorageError`.

    Also removes abandoned temporary files of the same path (:func:`remove_abandoned`).
    """
    part = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}.part")
    try:
        remove_abandoned(path)
        with part.open("xb") as file:
            for piece in [content] if isinstance(content, bytes) else content:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _flush_directory(path.parent)
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}; what was there before is kept: make room and run the "
            "same again"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def make_directory(path: str | Path) -> Path:
    """Create a directory and its parents if needed. Raises :class:`StorageError`, also for what is no path."""
    try:
        (found := Path(path)).mkdir(parents=True, exist_ok=True)
    except (OSError, TypeError, ValueError) as error:
        raise StorageError(f"{path} cannot be made a directory: {error}") from error
    return found


def remove_abandoned(path: Path) -> None:
    """Remove the abandoned temporary files of a path."""
    begin = f".{path.name}."
    for old in path.parent.iterdir():
        if old.name.startswith(begin) and old.name.endswith(".part"):
            with suppress(FileNotFoundError):
                if is_abandoned(old.name, old.stat().st_mtime):
                    old.unlink()


def is_abandoned(name: str, changed: float) -> bool:
    """Return whether a temporary file is abandoned: its process ran on this machine and is gone, or it is a day old.

    ``changed``: time of the last write, seconds since the epoch; a time a day ahead (a wrong clock) counts as old too.
    """
    _, mark, after = name.rpartition(f".{socket.gethostname()}.")
    process = after.removesuffix(".part").partition(".")[0]
    return abs(time.time() - changed) > DAY or (
        bool(mark) and process.isdigit() and not is_running(int(process))
    )


def is_running(process: int) -> bool:
    """Return whether a process with this id runs on this machine; True if the system cannot tell."""
    if os.name == "nt":  # Windows would not treat signal 0 as a mere test
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process belongs to another user
        return True
    return True


def _flush_directory(path: Path) -> None:
    """Flush a directory, so that a rename in it survives a power failure; no effect if the system cannot."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
