"""The folder of a long run: it holds one run, and a lock lets one process at a time write in it.

    with locked(path):                  # FolderInUse, if another process has it
        record = read_record(path)      # the settings of the run that is there, None in a new folder
        write_record(path, settings)    # before anything else is written, and again with finished=True at the end

The lock ends with the process that holds it, so nothing needs to be cleaned up by hand.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FolderInUse, FormatError, StorageError
from ..storage import make_directory, write_atomically

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
RECORD = "training.json"
FORMAT = "tractile-training-1"
_log = logging.getLogger(__name__)


@contextmanager
def locked(directory: str | Path) -> Iterator[Path]:
    """Create a directory if needed and lock it against other processes; yield its path.

    Raises :class:`FolderInUse` if another process holds the lock, :class:`StorageError` if the directory cannot be written.
    On Windows, or on a file system without locks, logs a warning instead.
    """
    path = make_directory(directory)
    file = _locked_file(path)
    try:
        yield path
    finally:
        if file is not None:
            with suppress(OSError):  # removed while it is still locked: the next process makes a new file
                (path / LOCK).unlink()
            os.close(file)


def _locked_file(path: Path) -> int | None:
    if fcntl is None:
        _log.warning("%s cannot be locked on this system: let no other process write in it", path)
        return None
    while True:
        try:
            file = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StorageError(f"{path / LOCK} cannot be made: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 1000).decode(errors="replace").strip()
            os.close(file)
            raise FolderInUse(
                f"{path} is in use by {owner or 'another process'}, which holds {path / LOCK}: wait until it has ended, stop "
                "it, or choose another directory"
            ) from None
        except OSError as error:
            os.close(file)
            _log.warning("%s cannot be locked (%s): let no other process write in it", path, error.strerror)
            return None
        with suppress(OSError):  # the former owner may have removed the file: then try again
            if os.fstat(file).st_ino == (path / LOCK).stat().st_ino:
                os.ftruncate(file, 0)
                os.write(file, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return file
        os.close(file)


class RunRecord(NamedTuple):
    """The record of the run that a folder holds: its settings, and whether it is finished."""

    settings: dict[str, Any]
    finished: bool
    model: str  # checksum of the HMM of a finished run, "" before


def read_record(path: Path) -> RunRecord | None:
    """Read the record of a folder, None if there is none. Raises :class:`FormatError` if it cannot be read."""
    file = path / RECORD
    if not file.exists():
        return None
    try:
        fields = json.loads(file.read_bytes())
        if fields["format"] != FORMAT:
            raise ValueError(f"its format is {fields['format']!r}, not {FORMAT!r}")
        return RunRecord(dict(fields["settings"]), bool(fields["finished"]), str(fields["model"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{file} is no record of a run: {error!r}") from error


def write_record(path: Path, settings: Mapping[str, Any], finished: bool = False, model: str = "") -> None:
    """Write the record of a folder: the settings, whether the run is finished, and the checksum of its HMM."""
    fields = {"format": FORMAT, "finished": finished, "model": model, "settings": dict(settings)}
    write_atomically(path / RECORD, (json.dumps(fields, indent=1) + "\n").encode())


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
