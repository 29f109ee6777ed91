"""A progress bar on a terminal, nothing elsewhere; and files that are either whole or absent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress


@contextmanager
def progress(name: str, total: int) -> Iterator[Callable[[int, str], None]]:
    """Yields ``advance(amount, name)``; the bar vanishes at the end."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=total)
        yield lambda amount, text: bar.update(task, advance=amount, description=text)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that nobody sees a part of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_bytes(content)
    os.replace(part, path)
