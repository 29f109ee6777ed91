"""Checkpoints of a training run: the parameters to the bit, the step and the settings, in one file under one checksum.

:func:`resume` reads the state of a run from its folder: the finished HMM, the last checkpoint, or nothing yet.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from ..circuits.hmm import HMM
from ..errors import FormatError, ShapeError
from ..layers import Dense, Monarch, Operator
from .run_folder import RECORD, differences, read_record
from .tensor_file import digest, read_header, read_tensors, write_tensors

FILE = "checkpoint.safetensors"
try:
    VERSIONS = f"tractile {version('tractile')} with torch {torch.__version__}"
except PackageNotFoundError:  # a checkout that is not installed
    VERSIONS = f"tractile with torch {torch.__version__}"
_log = logging.getLogger(__name__)
CURE = "choose another directory, or say overwrite=True (--overwrite)"


def save(path: Path, hmm: HMM, settings: Mapping[str, Any], step: int) -> None:
    """Write a checkpoint into a folder, atomically. Raises :class:`StorageError`."""
    tensors = {"initial": hmm.initial_probs, "emission": hmm.emission_probs}
    tensors |= {f"transition.{i}": weight for i, weight in enumerate(hmm.transition.parameters())}
    axes = list(hmm.transition.axes) if isinstance(hmm.transition, Monarch) else None
    header = {"settings": dict(settings), "step": step, "axes": axes, "version": VERSIONS}
    write_tensors(path / FILE, tensors, header)


def load(path: Path, settings: Mapping[str, Any]) -> tuple[HMM, int] | None:
    """Read (HMM, step) from the checkpoint in a folder; None if there is none.

    Raises :class:`FormatError` if it is damaged or belongs to a run with other settings.
    """
    file = path / FILE
    if not file.exists():
        return None
    try:
        tensors, run = read_tensors(file)
        made_with, axes, step = dict(run["settings"]), run["axes"], int(run["step"])
        weights = [tensors[f"transition.{i}"] for i in range(len(tensors) - 2)]
        operator: Operator = Dense(weights[0]) if axes is None else Monarch(weights, axes)
        hmm = HMM(tensors["initial"], operator, tensors["emission"])
    except (FormatError, ShapeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise FormatError(
            f"{file} is no checkpoint of this run ({error}); remove it to begin again"
        ) from error
    if made_with != settings:
        raise FormatError(
            f"{file} belongs to a run with other settings: {differences(made_with, settings)}; {CURE}"
        )
    if run.get("version", VERSIONS) != VERSIONS:
        _log.warning(
            "%s was written by %s; this is %s: the run goes on, but may differ in the last bits from one of a single version",
            file,
            run["version"],
            VERSIONS,
        )
    return hmm, step


def last_step(path: Path) -> int:
    """Read the step of the checkpoint in a folder; 0 if there is none. Raises :class:`FormatError`."""
    return int(read_header(path / FILE)["step"]) if (path / FILE).exists() else 0


def discard(path: Path) -> None:
    """Remove the checkpoint in a folder, if there is one."""
    (path / FILE).unlink(missing_ok=True)


def start_name(initial: HMM | Callable[[], HMM] | None, name: str) -> str:
    """Return what a run's settings say of its initial HMM: "random", the digest of a given one, ``name`` of one that is made."""
    if not isinstance(initial, HMM):
        return "random" if initial is None else name
    weights = [initial.initial_probs, *initial.transition.parameters(), *initial.inputs.parameters()]
    return f"HMM {digest({str(i): weight for i, weight in enumerate(weights)})[:16]}"


def resume(path: Path, settings: Mapping[str, Any], overwrite: bool) -> tuple[HMM, int | None] | None:
    """Read (HMM, step) of the run in a folder, with step None if it is finished; None if there is nothing to resume.

    Raises :class:`FormatError` if the folder holds another run or an HMM from elsewhere, unless ``overwrite``.
    """
    record, has_hmm = read_record(path), (path / "config.json").exists()
    if record is not None and record.settings == settings:
        if not record.finished:
            return load(path, settings)
        if has_hmm and tensors_digest(path) == record.model:
            return HMM.from_pretrained(path), None
    if overwrite:
        discard(path)
        return None
    if record is not None and record.settings != settings:
        raise FormatError(
            f"{path} belongs to a run with other settings: {differences(record.settings, settings)}; {CURE}"
        )
    if has_hmm:
        raise FormatError(f"{path} holds an HMM already, which {RECORD} does not describe; {CURE}")
    return load(path, settings)


def tensors_digest(path: Path) -> str:
    """Read the checksum of the HMM in a folder from its ``config.json``; "" if there is none."""
    try:
        return str(json.loads((path / "config.json").read_bytes())["tensors_sha256"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""
