"""Checkpoints of a training: one file with the parameters to the bit, the step and the settings, under one checksum.

What a folder has of a training is found by :func:`resume`: the finished HMM, the last checkpoint, or nothing yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_tensors

from ..circuits.hmm import HMM
from ..errors import FormatError, ShapeError
from ..layers import Dense, Monarch, Operator
from ..storage import write_atomically
from .run_folder import RECORD, differences, digest, read_record

FILE = "checkpoint.safetensors"


def save(path: Path, hmm: HMM, settings: Mapping[str, Any], step: int) -> None:
    """Write a checkpoint into a folder, so that it is there whole or as it was before."""
    tensors = {"initial": hmm.initial_probs, "emission": hmm.emission_probs}
    tensors |= {f"transition.{i}": weight for i, weight in enumerate(hmm.transition.parameters())}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    axes = list(hmm.transition.axes) if isinstance(hmm.transition, Monarch) else None
    run = json.dumps({"settings": dict(settings), "step": step, "axes": axes}, sort_keys=True)
    header = json.dumps({"run": run, "checksum": digest(tensors, run.encode())}, sort_keys=True)
    write_atomically(path / FILE, save_tensors(tensors, {"training": header}))


def load(path: Path, settings: Mapping[str, Any]) -> tuple[HMM, int] | None:
    """The parameters and the step of the checkpoint in a folder, if there is one.

    Raises :class:`FormatError` if it is damaged, or of a run with other settings.
    """
    file = path / FILE
    if not file.exists():
        return None
    try:
        with safe_open(file, "pt") as content:
            header = json.loads(content.metadata()["training"])
            tensors = {key: content.get_tensor(key) for key in content.keys()}  # noqa: SIM118
        run = json.loads(header["run"])
        damaged = digest(tensors, header["run"].encode()) != header["checksum"]
        weights = [tensors[f"transition.{i}"] for i in range(len(tensors) - 2)]
        operator: Operator = Dense(weights[0]) if run["axes"] is None else Monarch(weights, run["axes"])
        if not damaged:
            hmm, step = HMM(tensors["initial"], operator, tensors["emission"]), int(run["step"])
    except (OSError, SafetensorError, KeyError, IndexError, ShapeError, TypeError, ValueError) as error:
        raise FormatError(
            f"{file} is no checkpoint of this run ({error}); remove it to begin again"
        ) from error
    if damaged:
        raise FormatError(f"{file} is damaged (its checksum is wrong); remove it to begin again")
    if run["settings"] != settings:
        raise FormatError(
            f"{file} belongs to a run with other settings: {differences(run['settings'], settings)}; choose another "
            "directory, or say overwrite=True (--overwrite)"
        )
    return hmm, step


def discard(path: Path) -> None:
    """Remove the checkpoint in a folder, if there is one."""
    (path / FILE).unlink(missing_ok=True)


def start_name(initial: HMM | Callable[[], HMM] | None, name: str) -> str:
    """What EM starts from, as the settings of a run have it."""
    if initial is None:
        return "random"
    if not isinstance(initial, HMM):
        return name
    weights = [initial.initial_probs, *initial.transition.parameters(), initial.emission_probs]
    return f"HMM {digest({str(i): weight for i, weight in enumerate(weights)})[:16]}"


def resume(path: Path, settings: Mapping[str, Any], overwrite: bool) -> tuple[HMM, int | None] | None:
    """The HMM that a folder has of a run, and its step, None if it is finished; None if there is nothing of it.

    Raises :class:`FormatError` if there is another run or an HMM from elsewhere, unless it may be overwritten.
    """
    record, there = read_record(path), (path / "config.json").exists()
    cure = "choose another directory, or say overwrite=True (--overwrite)"
    if record is not None and record.settings == settings:
        if not record.finished:
            return load(path, settings)
        if there and tensors_digest(path) == record.model:
            return HMM.from_pretrained(path), None
    if overwrite:
        discard(path)
        return None
    if record is not None and record.settings != settings:
        raise FormatError(
            f"{path} belongs to a run with other settings: {differences(record.settings, settings)}; {cure}"
        )
    if there:
        raise FormatError(f"{path} holds an HMM already that {RECORD} does not tell of; {cure}")
    return load(path, settings)


def tensors_digest(path: Path) -> str:
    """The checksum of the HMM in a folder, as its configuration has it; empty if there is none."""
    try:
        return str(json.loads((path / "config.json").read_bytes())["tensors_sha256"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""
