"""The progress bar of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    shown: bool, steps: int, unit: str = "tokens", said: str = "particles grow"
) -> Iterator[Callable[[object], None]]:
    """Show a progress bar; yield a function to be called after each step with what stands before ``said``.

    For the sampler that is the number of growing particles.
    """
    if not shown:
        yield lambda now: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(f"{unit}, {{task.fields[now]}} {said}"))
    with Progress(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=steps, now="all")
        yield lambda now: bar.update(task, advance=1, now=now)
