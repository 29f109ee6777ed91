"""Progress bar, log and learning curve of a long run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..errors import StorageError
from ..storage import write_atomically


@contextmanager
def progress(name: str, total: int, shown: bool = True) -> Iterator[Callable[[int, str], None]]:
    """Show a progress bar on a terminal until the end of the block; yield ``advance(amount, text)``.

    It has the rate in units of ``total`` a second, the time taken and the time left.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not (shown and console.is_terminal)
    ) as bar:
        task = bar.add_task(name, total=total)
        yield lambda amount, text: bar.update(task, advance=amount, description=text)


class Rate(ProgressColumn):
    """The rate of the last half minute, a second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.1f}/s")


class Log:
    """A log of JSON lines, one for each step of a run; without a path nothing is written.

    Lines of steps after ``done``, the step of the last checkpoint, are removed from an existing log.
    """

    def __init__(self, path: Path | None, done: int = 0) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        if path is not None:
            self.lines = [line for line in read_log(path) if line["step"] <= done]
            write_atomically(path, "".join(json.dumps(line) + "\n" for line in self.lines).encode())
        self._before = self.lines[-1]["seconds"] if self.lines else 0.0
        self._start = time.perf_counter()

    def add(self, **fields: Any) -> None:
        """Add a line, with the seconds since the start (interruptions not counted). Raises :class:`StorageError`."""
        line = {**fields, "seconds": round(self._before + time.perf_counter() - self._start, 3)}
        self.lines.append(line)
        if self.path is not None:
            try:
                with self.path.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            except OSError as error:
                raise StorageError(f"{self.path}: a line could not be added: {error.strerror}") from error


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a log up to the first incomplete one; [] if there is no file."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def draw_curve(lines: list[dict[str, Any]], path: Path) -> None:
    """Plot nats per token of the batches and of held-out text against EM steps."""
    from io import BytesIO

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="EM steps", ylabel="nats per token")
    axes.plot([i["step"] for i in lines], [i["nats_per_token"] for i in lines], lw=0.8, label="batches")
    tested = [i for i in lines if "held_out" in i]
    if tested:
        axes.plot([i["step"] for i in tested], [i["held_out"] for i in tested], "o-", label="held out")
    axes.legend()
    content = BytesIO()
    figure.savefig(content, format="png", dpi=120)
    write_atomically(path, content.getvalue())
