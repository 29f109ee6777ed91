"""How many lines of code has each room, and how many may it have?

    python .ci/lines.py            # the table; fails where a room has more than its ceiling, or code is in no room
    python .ci/lines.py --lower    # ceilings down to what the rooms have

A ceiling only goes down: who takes lines away lowers it; who needs more takes them away elsewhere in the room.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".pyi", ".h", ".cpp"}
NO_ROOMS = {"build", "dist", "docs", "examples"}  # made by tools, or for readers
CEILINGS = {
    ".": 1_276,
    ".ci": 1_071,
    "bench": 9_986,
    "benchmarks": 3_812,
    "circuits": 4_206,
    "cli": 1_583,
    "constraints": 2_235,
    "constraints/automata": 655,
    "constraints/cache": 183,
    "constraints/calls": 1_232,
    "constraints/canonical": 1_098,
    "constraints/engine": 912,
    "constraints/grammar": 3_751,
    "constraints/json": 6_924,
    "constraints/program": 1_247,
    "constraints/regex": 1_059,
    "constraints/sql": 515,
    "constraints/tags": 1_675,
    "constraints/vocabulary": 400,
    "constraints/words": 538,
    "core": 8_219,
    "decoding": 6_164,
    "distill": 3_706,
    "embedded": 88,
    "inference": 5_805,
    "inference/next_token": 3_430,
    "inference/smc": 5_833,
    "layers": 2_000,
    "lm": 1_875,
    "testing": 1_398,
    "tests": 102,
    "tests/bench": 4_310,
    "tests/cases": 427,
    "tests/circuits": 1_987,
    "tests/cli": 622,
    "tests/conformance": 2_517,
    "tests/constraints": 9_335,
    "tests/core": 1_037,
    "tests/decoding": 4_905,
    "tests/distill": 2_012,
    "tests/docs": 432,
    "tests/fuzz": 3_112,
    "tests/helpers": 4_261,
    "tests/in_others": 236,
    "tests/in_sglang": 115,
    "tests/in_vllm": 792,
    "tests/inference": 2_923,
    "tests/inference/next_token": 1_554,
    "tests/inference/smc": 3_624,
    "tests/layers": 333,
    "tests/lm": 1_049,
    "tests/oracle": 499,
    "tests/package": 2_879,
    "tests/protocols": 556,
}
"""The most lines of each room: the longest prefix of a file's path here is its room. ``.`` holds the files of the root."""


def room_of(path: str) -> str | None:
    """Return the room of a file, given by its path from the root; None if it is in none."""
    parts = path.split("/")[:-1]
    if not parts:
        return "."
    return next((room for n in range(len(parts), 0, -1) if (room := "/".join(parts[:n])) in CEILINGS), None)


def counted(root: Path = ROOT) -> tuple[dict[str, int], list[str]]:
    """Return the lines of each room, blank ones and comments among them, and the files of code in no room."""
    lines, homeless = dict.fromkeys(CEILINGS, 0), []
    for folder in sorted(each for each in root.iterdir() if each.is_dir()):
        if folder.name in NO_ROOMS or (folder.name.startswith(".") and folder.name != ".ci"):
            continue
        for path in sorted(each for each in folder.rglob("*") if each.suffix in SUFFIXES):
            name = path.relative_to(root).as_posix()
            room = room_of(name)
            if room is None:
                homeless.append(name)
            else:
                lines[room] += len(path.read_text(encoding="utf-8").splitlines())
    lines["."] = sum(
        len(path.read_text(encoding="utf-8").splitlines())
        for path in root.iterdir()
        if path.suffix in SUFFIXES
    )
    return lines, homeless


def faults(root: Path = ROOT) -> list[str]:
    """Return a sentence for each room above its ceiling, and for each file in no room."""
    lines, homeless = counted(root)
    above = [
        f"{room} has {count:,} lines, {count - CEILINGS[room]:,} more than its ceiling"
        for room, count in lines.items()
        if count > CEILINGS[room]
    ]
    return above + [f"{name} is in no room of .ci/lines.py" for name in homeless]


def lowered(source: str, root: Path = ROOT) -> str:
    """Return the source of this file with each ceiling no higher than the lines of its room."""
    for room, count in counted(root)[0].items():
        if count < CEILINGS[room]:
            source = source.replace(f'"{room}": {CEILINGS[room]:_},', f'"{room}": {count:_},')
    return source


if __name__ == "__main__":
    for room, count in counted()[0].items():
        print(f"{room:24} {count:7,} of {CEILINGS[room]:7,}")
    if found := faults():
        sys.exit("\n".join(found))
    if "--lower" in sys.argv:
        path = Path(__file__)
        path.write_text(lowered(path.read_text(encoding="utf-8")), encoding="utf-8")
