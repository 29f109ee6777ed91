"""The lock of a folder: one process, or the processes of one job, write in it at a time.

    with locked(path): …                # FolderInUse, if another process has it
    with locked(path, "3 of 8"): …      # beside other shares; FolderInUse, if a process has this share or the whole folder

The lock ends with the process that holds it, so nothing needs to be cleaned up by hand.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import FolderInUse, StorageError
from ..storage import make_directory

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
_log = logging.getLogger(__name__)


@contextmanager
def locked(directory: str | Path, share: str = "") -> Iterator[Path]:
    """Create a directory if needed and lock it against other processes; yield its path.

    With the name of a share, only the share is locked, and the whole against those who would lock it.

    Raises :class:`FolderInUse` if another process holds the lock, :class:`StorageError` if the directory cannot be written.
    On Windows, or on a file system without locks, logs a warning instead.
    """
    path = make_directory(directory)
    if fcntl is None:
        _log.warning("%s cannot be locked on this system: let no other process write in it", path)
        yield path
        return
    with ExitStack() as stack:
        if share:
            stack.enter_context(_lock(path / LOCK, fcntl.LOCK_SH))
        stack.enter_context(_lock(path / f"{LOCK}{share and '-' + share.replace(' ', '-')}", fcntl.LOCK_EX))
        yield path


@contextmanager
def _lock(path: Path, kind: int) -> Iterator[None]:
    """Hold the lock of a file, which is made, and removed by the last one that holds it."""
    file = _opened(path, kind)
    try:
        yield
    finally:
        if file is not None:
            with suppress(
                OSError
            ):  # removed while it is locked by this process alone: the next one makes a new file
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            os.close(file)


def _opened(path: Path, kind: int) -> int | None:
    """Return the locked file; None where the file system has no locks."""
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StorageError(f"{path} cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 1000).decode(errors="replace").strip()
            os.close(file)
            raise FolderInUse(
                f"{path.parent} is in use by {owner or 'another process'}, which holds {path}: wait until it has ended, stop "
                "it, or choose another directory"
            ) from None
        except OSError as error:
            os.close(file)
            _log.warning(
                "%s cannot be locked (%s): let no other process write in it", path.parent, error.strerror
            )
            return None
        with suppress(OSError):  # the former owner may have removed the file: then try again
            if os.fstat(file).st_ino == path.stat().st_ino:
                os.ftruncate(file, 0)
                os.write(file, here().encode())
                return file
        os.close(file)


def here() -> str:
    """Return a name of this process: "process 7 on host"."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe the settings that differ: "hidden was 6, is 8; seed was 0, is 1"."""
    missing = "not recorded"
    return "; ".join(
        f"{name} was {_shown(before.get(name, missing))}, is {_shown(now.get(name, missing))}"
        for name in dict.fromkeys([*now, *before])
        if before.get(name, missing) != now.get(name, missing)
    )


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
