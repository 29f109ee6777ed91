"""Parts of `tractile distill`: what its options stand for, the line of a run that is stopped, and the voice of rank 0."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import typer

from .. import distill
from ..circuits.hmm import HMM
from ..errors import FormatError
from ..layers import Monarch
from .common import complain, console


class Transition(StrEnum):
    """The parametrisation of a transition matrix."""

    dense = "dense"
    monarch = "monarch"


@contextmanager
def told_when_stopped(out: Path, where: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, or SIGTERM, print one line with where the run stopped and how to resume it, and exit with status 130."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # torchrun and SLURM stop a rank so
    try:
        yield
    except KeyboardInterrupt:
        text = f"stopped {where()}; {out} keeps what was done, and the same command goes on from there"
        raise typer.Exit(complain(text, 130) if is_first() else 130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def parse_share(text: str) -> tuple[int, int] | None:
    """Parse I/N: share I of N, counted from 0; None for no share. Raises ``BadParameter``."""
    share, _, of = text.partition("/")
    if text and not (share.isdigit() and of.isdigit() and int(share) < int(of)):
        raise typer.BadParameter(f"--share is I/N with I from 0 to N - 1, such as 0/8, not {text!r}")
    return (int(share), int(of)) if text else None


def shards_drawn(out: Path) -> str:
    """Describe the number of shards in the folder of a corpus: "after 3 shards"."""
    number = len(list(out.glob("shard-*.safetensors")))
    return f"after {number} shard{'s' * (number != 1)}"


def print_once(text: str) -> None:
    """Print a line, on rank 0 only."""
    if is_first():
        console.print(text)


def is_first() -> bool:
    """Return whether this process is rank 0, which alone speaks."""
    return os.environ.get("RANK", "0") == "0"


def grown(smaller: list[HMM], hidden: int, transition: Transition, seed: int) -> HMM:
    """Split the states of one HMM, or build the Kronecker product of two."""
    hmm = distill.split(smaller[0], hidden, seed) if len(smaller) == 1 else distill.kronecker(*smaller)
    monarch = isinstance(hmm.transition, Monarch)
    if hmm.hidden != hidden or monarch != (transition is Transition.monarch):
        form = "monarch" if monarch else "dense"
        raise typer.BadParameter(
            f"--from gives {hmm.hidden} states, {form}: say so with --hidden and --transition"
        )
    return hmm


def read_prompts(path: Path) -> list[str | list[int]]:
    """Read one prompt a line: as text, or as JSON from a .jsonl file."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    if path.suffix != ".jsonl":
        return list(lines)
    found: list[str | list[int]] = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            found.append(
                str(fields["prompt"]) if "prompt" in fields else [int(token) for token in fields["tokens"]]
            )
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                f'{path}, line {number}: expected {{"prompt": text}} or {{"tokens": ids}}, not {line[:60]!r}'
            ) from error
    return found
