"""A folder of results: `runs.jsonl`, a head with the settings and one line for each run, and `times.jsonl`.

Lines are only appended. A last line that is incomplete, because a run was stopped, is removed when the folder is opened again,
and that run is repeated. The same command gives the same `runs.jsonl` to the byte, interrupted or not; times are kept apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tractile.errors import FormatError, StorageError
from tractile.inference.smc import Strength
from tractile.storage import write_atomically

FORMAT = 2


class Key(NamedTuple):
    """Identifies a run: example, method, number of particles, seed."""

    example: str
    method: str
    k: int
    seed: int


class Results:
    """The runs stored in ``folder``, whose head must equal ``head``; a new folder is created with this head.

    ``done``: the keys of the stored runs. Runs without an HMM (a head whose ``hmm`` is null) may share a folder with runs that
    use one. Raises :class:`FormatError` if the folder holds other results, and names what differs.
    """

    def __init__(self, folder: Path, head: Mapping[str, Any]) -> None:
        self.folder, self.done = folder, set[Key]()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{folder} cannot be made: {error.strerror}") from error
        asked: dict[str, Any] = json.loads(_line({"format": FORMAT, **head}))
        path = folder / "runs.jsonl"
        _cut(path)
        _cut(folder / "times.jsonl")
        if not path.exists() or not path.stat().st_size:
            _append(path, [asked])
            return
        former, lines = read(folder)
        if former.get("hmm") is None and asked.get("hmm") is not None:  # no method so far has used one
            former["hmm"] = asked["hmm"]
            write_atomically(path, "".join(map(_line, [former, *lines])).encode())
        elif asked.get("hmm") is None:
            asked["hmm"] = former.get("hmm")
        if changed := [name for name in {**asked, **former} if asked.get(name) != former.get(name)]:
            told = ", ".join(f"{name} {former.get(name)!r}, now {asked.get(name)!r}" for name in changed)
            raise FormatError(
                f"{folder} holds another run ({told}): choose another --out, or go on as before"
            )
        self.done = {key(line) for line in lines}

    def add(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Append the runs that are not stored yet."""
        new = [line for line in lines if key(line) not in self.done]
        _append(self.folder / "runs.jsonl", new)
        self.done.update(key(line) for line in new)

    def strength(self, single: bool) -> float | None:
        """Return the stored strength of the lookahead for runs of one particle, or of several; None if there is none."""
        found = self._strengths()
        if "strength" not in found:  # older folders have one strength for both
            found = found.get(_particles(single), {})
        return float(found["strength"]) if found else None

    def keep_strength(self, strength: Strength, single: bool) -> None:
        """Store the strength that a pilot found, with the pilot's mean log Ẑ."""
        found = {"strength": strength.value, "log_evidence": list(strength.log_evidence.items())}
        line = _line({**self._strengths(), _particles(single): found})
        write_atomically(self.folder / "strength.json", line.encode())

    def _strengths(self) -> dict[str, Any]:
        path = self.folder / "strength.json"
        return dict(json.loads(path.read_text())) if path.is_file() else {}

    def time(self, line: Mapping[str, Any]) -> None:
        """Append a line of times."""
        _append(self.folder / "times.jsonl", [line])


def key(line: Mapping[str, Any]) -> Key:
    """Return the key of the run that a line of results describes."""
    return Key(line["example"], line["method"], line["k"], line["seed"])


def read(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read (head, runs) of a folder; an incomplete last line is skipped.

    Raises :class:`FormatError` for a folder without results."""
    path = folder / "runs.jsonl"
    if not path.is_file():
        raise FormatError(f"{folder} holds no results: there is no runs.jsonl in it")
    lines = list(_lines(path))
    if not lines or lines[0].get("format") != FORMAT:
        raise FormatError(f"{path}, line 1: expected the head of results in format {FORMAT}")
    for number, line in enumerate(lines[1:], 2):
        if not {"example", "method", "k", "seed"} <= line.keys():
            raise FormatError(f"{path}, line {number}: not a run, it needs example, method, k and seed")
    return lines[0], lines[1:]


def read_times(folder: Path) -> list[dict[str, Any]]:
    """Read the times of each batch, the earliest first."""
    path = folder / "times.jsonl"
    return list(_lines(path)) if path.is_file() else []


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    data = path.read_bytes()
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise FormatError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(found, dict):
            raise FormatError(f"{path}, line {number}: expected an object")
        yield found


def _cut(path: Path) -> None:
    """Remove a truncated last line."""
    if not path.is_file():
        return
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)


def _append(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    text = "".join(map(_line, lines))
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error


def _particles(single: bool) -> str:
    return "one particle" if single else "several particles"


def _line(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, allow_nan=False) + "\n"
