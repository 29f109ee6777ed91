"""The `tractile` command: generate under a constraint, inspect what a constraint compiles to, compare constraints, distil an
HMM, and the commands of other distributions (:mod:`.plugins`).

Results go to standard output; with `--json`, one JSON object is its last line. Errors go to standard error as one
line, and the exit status is not zero: 1 when the input is refused (a `TractileError`, a file that isn't there or does
not load), 2 when the command line is wrong, 130 after Ctrl-C.
"""

from typing import Annotated

import typer

from .. import __version__
from .compile import compile_
from .diff import diff
from .distill import distill_app
from .generate import generate
from .playground.command import playground
from .plugins import CommandsWithPlugins

app = typer.Typer(
    cls=CommandsWithPlugins, add_completion=False, context_settings={"help_option_names": ["-h", "--help"]}
)


def print_version(asked: bool) -> None:
    """Print the version and exit, if ``--version`` is given."""
    if asked:
        print(f"tractile {__version__}")
        raise typer.Exit


@app.callback()
def tractile(
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Constrained generation with tractable circuits."""


app.command()(generate)
app.command(name="compile")(compile_)
app.command()(diff)
app.command()(playground)
app.add_typer(distill_app, name="distill")
