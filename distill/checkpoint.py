"""The record of a training run, and its checkpoints.

    training.json                          the settings of the run, how far it is, and the checksums of the files below
    checkpoint-<step>-<i>-of-<n>.safetensors    the parameters of rank i, to the bit

The record is replaced once all files of a step are there, so that it always names a whole checkpoint. Ranks in any number read
one, each its part.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from ..circuits.hmm import HMM
from ..errors import FormatError
from ..storage import write_atomically
from .distributed import Ranks
from .run_folder import differences
from .shard_files import read_part, write_part
from .sharding import ShardedHMM
from .tensor_file import check_file, digest

RECORD = "training.json"
FORMAT = "tractile-training-2"
try:
    VERSIONS = f"tractile {version('tractile')} with torch {torch.__version__}"
except PackageNotFoundError:  # a checkout that is not installed
    VERSIONS = f"tractile with torch {torch.__version__}"
_log = logging.getLogger(__name__)
CURE = "choose another directory, or say overwrite=True (--overwrite)"


@dataclass(frozen=True)
class Record:
    """A run in its folder: its settings, the step of its last checkpoint and the checksums of this one's files.

    ``model``: the checksum of the HMM of a finished run, "" before. ``axes``: those of a Monarch transition.
    ``vocabulary``: the fingerprint of the HMM's.
    """

    settings: dict[str, Any]
    step: int = 0
    files: list[str] = field(default_factory=list)
    axes: list[int] | None = None
    vocabulary: str | None = None
    model: str = ""
    version: str = VERSIONS


def read_record(path: Path) -> Record | None:
    """Read the record of a folder, None if there is none. Raises :class:`FormatError` if it cannot be read or is damaged."""
    file = path / RECORD
    if not file.exists():
        return None
    try:
        content = json.loads(file.read_bytes())
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}, not {FORMAT!r}")
        if content["sha256"] != _sha256(content["run"]):
            raise ValueError("its checksum is wrong")
        return Record(**content["run"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise FormatError(f"{file} is no record of a run: {error!r}; {CURE}") from error


def write_record(path: Path, record: Record) -> None:
    """Write the record of a folder, and remove all other checkpoints, also unfinished files. Raises :class:`StorageError`."""
    run = json.loads(json.dumps(asdict(record)))
    content = {"format": FORMAT, "sha256": _sha256(run), "run": run}
    write_atomically(path / RECORD, (json.dumps(content, indent=1) + "\n").encode())
    others = {*path.glob("checkpoint-*.safetensors"), *path.glob(".checkpoint-*.part")}
    for file in others - {*files_of(path, record)}:
        file.unlink(missing_ok=True)


def files_of(path: Path, record: Record) -> list[Path]:
    """Return the paths of a checkpoint's files, in the order of the ranks that wrote them."""
    return [_file(path, record.step, i, len(record.files)) for i in range(len(record.files))]


def save(path: Path, part: ShardedHMM, record: Record) -> None:
    """Write a checkpoint: each of the ranks that share the states its part, rank 0 the record. Raises :class:`StorageError`."""
    team = part.team
    files = team.every(write_part(_file(path, record.step, team.rank, team.size), part))
    if team.rank == 0:
        axes = None if part.axes is None else list(part.axes)
        write_record(path, replace(record, files=files, axes=axes))


def load(path: Path, record: Record, team: Ranks) -> ShardedHMM:
    """Read this rank's part of a checkpoint. Raises :class:`FormatError` if it is damaged."""
    files = files_of(path, record)
    try:
        for i, (file, sha256) in enumerate(zip(files, record.files, strict=True)):
            if i * team.size < (team.rank + 1) * len(files) and team.rank * len(files) < (i + 1) * team.size:
                check_file(file, sha256)  # it holds some of this rank's states
        return read_part(files, record.axes, team)
    except FormatError as error:
        raise FormatError(f"the checkpoint of step {record.step} is of no use ({error}); {CURE}") from error


def resume(path: Path, settings: Mapping[str, Any], overwrite: bool) -> Record:
    """Return the record of a run in its folder, of step 0 if there is nothing to resume.

    Raises :class:`FormatError` if the folder holds another run or an HMM from elsewhere, unless ``overwrite``.
    """
    fresh = Record(json.loads(json.dumps(dict(settings))))
    try:
        record = read_record(path)
    except FormatError:
        if not overwrite:
            raise
        return fresh
    has_hmm = (path / "config.json").exists()
    if record is not None and record.settings == fresh.settings:
        if record.version != VERSIONS:
            _log.warning(
                "%s was written by %s; this is %s: the run goes on, but may differ in the last bits from one of a single version",
                path / RECORD,
                record.version,
                VERSIONS,
            )
        if not record.model or (has_hmm and tensors_digest(path) == record.model):
            return replace(record, version=VERSIONS)
    if overwrite or (record is None and not has_hmm):
        return fresh
    if record is not None and record.settings != fresh.settings:
        raise FormatError(
            f"{path} belongs to a run with other settings: {differences(record.settings, fresh.settings)}; {CURE}"
        )
    raise FormatError(f"{path} holds an HMM already, which {RECORD} does not describe; {CURE}")


def last_step(path: Path) -> int:
    """Read the step of the checkpoint in a folder; 0 if there is none. Raises :class:`FormatError`."""
    record = read_record(path)
    return 0 if record is None else record.step


def start_name(initial: HMM | Callable[[], HMM] | Path | None, name: str) -> str:
    """Return what a run's settings say of its initial HMM: "random", the digest of a given one, ``name`` of one that is made."""
    if isinstance(initial, Path):
        return f"HMM {tensors_digest(initial)[:16]}"
    if not isinstance(initial, HMM):
        return "random" if initial is None else name
    weights = [initial.initial_probs, *initial.transition.parameters(), *initial.inputs.parameters()]
    return f"HMM {digest({str(i): weight for i, weight in enumerate(weights)})[:16]}"


def tensors_digest(path: Path) -> str:
    """Read the checksum of the HMM in a folder from its ``config.json``; "" if there is none."""
    try:
        return str(json.loads((path / "config.json").read_bytes())["tensors_sha256"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""


def _file(path: Path, step: int, part: int, parts: int) -> Path:
    return path / f"checkpoint-{step:07d}-{part + 1}-of-{parts}.safetensors"


def _sha256(run: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()
