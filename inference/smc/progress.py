"""The progress bar of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(shown: bool, steps: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yield a function to be called after each step with the number of growing particles."""
    if not shown:
        yield lambda growing: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("tokens, {task.fields[growing]} particles grow"))
    with Progress(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=steps, growing="all")
        yield lambda growing: bar.update(task, advance=1, growing=growing)
