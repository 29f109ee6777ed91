"""The pictures of *Architecture*, drawn from the code: ``python docs/pictures/architecture.py``.

The first one counts the imports between the rooms. The others run a small program and record which functions of one room
call which of another.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import networkx as nx
import torch
from drawing import BLUE, GREY, INK, PALE, Picture

import tractile as tt
from tractile.embedded import load_hmm, load_lm

ROOT = Path(tt.__file__).resolve().parent
ROOMS = {
    "layers": (3.0, 0.0),
    "circuits": (3.0, 1.7),
    "inference": (5.0, 3.4),
    "constraints": (0.4, 3.4),
    "lm": (7.6, 5.1),
    "inference/smc": (5.4, 6.8),
    "embedded": (10.4, 3.4),
    "decoding": (2.4, 8.5),
    "distill": (7.8, 8.5),
    "cli": (7.8, 10.2),
}
"""The rooms and where they are drawn: what is imported lies below what imports it."""


def room(path: Path) -> str:
    """The room of a file; "" for the files beside the rooms."""
    parts = path.relative_to(ROOT).parts
    name = "/".join(parts[:2]) if parts[:2] == ("inference", "smc") else parts[0]
    return name if name in ROOMS else ""


def imports() -> set[tuple[str, str]]:
    """The pairs of rooms of which the first one imports the second."""
    pairs: set[tuple[str, str]] = set()
    for top in {name.partition("/")[0] for name in ROOMS}:
        for path in (ROOT / top).rglob("*.py"):
            package = path.relative_to(ROOT).parent.parts
            targets = set()
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.level:
                    base = package[: len(package) - node.level + 1]
                    module = (node.module or "").split(".") if node.module else []
                    targets |= {room(ROOT.joinpath(*base, *module, alias.name)) for alias in node.names}
            pairs |= {(room(path), target) for target in targets - {room(path), ""}}
    return pairs


def draw_rooms(picture: Picture) -> None:
    """Boxes, and an arrow wherever a room imports another one, but for those that follow from other arrows."""
    for name, (x, y) in ROOMS.items():
        files = [path for path in (ROOT / name).rglob("*.py") if room(path) == name]
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        picture.box(x, y, 2.2, 0.8, [f"{name}/", f"{len(files)} files, {lines:,} lines"], PALE)
    arrows = nx.DiGraph(list(imports()))
    for a, b in sorted(nx.transitive_reduction(arrows).edges):
        (ax, ay), (bx, by) = ROOMS[a], ROOMS[b]
        assert ay > by, f"{a} imports {b}, which lies above it"
        picture.arrow((ax + 1.1, ay), (bx + 1.1, by + 0.8), colour=GREY)


class Calls:
    """Calls from one room into another, each pair of caller's room and function once, in the order of the first call."""

    def __init__(self, lanes: Sequence[str]) -> None:
        self.lanes = lanes
        self.steps: dict[tuple[str, str, str], None] = {}
        self._known: dict[str, str | None] = {}

    def lane(self, file: str) -> str | None:
        """The lane of a file, ``None`` for files of other packages."""
        if file not in self._known:
            path = Path(file).resolve()
            inside = path.is_relative_to(ROOT) and room(path) != ""
            name = path.relative_to(ROOT).as_posix() if inside else ""
            fits = [lane for lane in self.lanes if name.startswith(lane)]
            self._known[file] = fits[0] if fits else None
        return self._known[file]

    def record(self, frame: FrameType, event: str, _: Any) -> None:
        """A profile function for :func:`sys.setprofile`."""
        if event != "call" or (callee := self.lane(frame.f_code.co_filename)) is None:
            return
        name = frame.f_code.co_qualname
        if frame.f_code.co_name.startswith(("_", "<")) or "<locals>" in name or is_attribute(frame):
            return
        back: FrameType | None = frame.f_back
        while back is not None and (caller := self.lane(back.f_code.co_filename)) is None:
            back = back.f_back
        caller = "your program" if back is None else caller
        if caller != callee:
            self.steps.setdefault((caller or "", callee, name))


def is_attribute(frame: FrameType) -> bool:
    """Whether the function of a frame computes an attribute of its object: a property, or a value that is kept."""
    member = inspect.getattr_static(frame.f_locals.get("self"), frame.f_code.co_name, None)
    return isinstance(member, property | cached_property)


def draw_calls(picture: Picture, program: Callable[[], Any], lanes: Sequence[str]) -> None:
    """A sequence diagram of a program: a line for each lane, an arrow for each function that another lane calls."""
    calls = Calls(lanes)
    sys.setprofile(calls.record)
    try:
        program()
    finally:
        sys.setprofile(None)
    used = {lane for caller, callee, _ in calls.steps for lane in (caller, callee)}
    names = ["your program", *(lane for lane in lanes if lane in used)]
    place = {name: 3.4 * i for i, name in enumerate(names)}
    for name in names:
        picture.text(place[name], 0.6, name, size=9, colour=BLUE, across="center")
        picture.line((place[name], 0.3), (place[name], -0.55 * len(calls.steps) - 0.4), GREY)
    for row, (caller, callee, name) in enumerate(calls.steps):
        y = -0.55 * row - 0.2
        picture.arrow((place[caller], y), (place[callee], y), colour=INK)
        picture.text((place[caller] + place[callee]) / 2, y + 0.18, name, size=7.5, across="center")


LANES = ("inference/smc", "lm", "inference/next_token", "constraints", "circuits")


def gcd_program() -> Callable[[], Any]:
    """Masks of a constraint within a budget."""
    _, tokenizer = load_lm()
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)

    def program() -> None:
        fa = tt.constraints.json_schema({"type": "object", "maxProperties": 2}).compile(vocab)
        query = tt.gcd(fa, 16).start()
        query.bitmask()
        query.advance(torch.tensor([int(query.mask()[0].nonzero()[0])]))
        query.bitmask()

    return program


def smc_program() -> Callable[[], Any]:
    """Weighted samples under a constraint, guided by an HMM."""
    model, tokenizer = load_lm()
    lm, hmm = tt.TransformersLM(model, tokenizer), load_hmm()
    fa = tt.constraints.regex(r" (cat|dog)s? [a-z]{1,8}\.").compile(tt.Vocabulary.from_tokenizer(tokenizer))
    return lambda: tt.smc(lm, "Once", fa, hmm=hmm, particles=4, max_new_tokens=12, seed=0)


def main(folder: Path) -> None:
    """Draw all of them."""
    for name, inches, draw in (
        ("architecture-rooms.png", 0.85, draw_rooms),
        ("architecture-gcd.png", 0.62, lambda picture: draw_calls(picture, gcd_program(), LANES)),
        ("architecture-smc.png", 0.62, lambda picture: draw_calls(picture, smc_program(), LANES)),
    ):
        picture = Picture(inches)
        draw(picture)
        picture.save(folder / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
