"""Commands of other distributions, such as `tractile bench` of tractile-bench.

A distribution adds a command by an entry point in the group ``tractile.commands``: the command's name and a Typer app. The app
is imported when the command is run or the help is shown.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from typer.exceptions import TyperException
from typer.main import get_command

from .common import OneLineErrors

GROUP = "tractile.commands"
BENCH = EntryPoint("bench", "tractile_bench.cli:bench_app", GROUP)


class UnknownCommand(TyperException):
    """A command whose distribution is not installed."""

    exit_code = 2


def plugins() -> dict[str, EntryPoint]:
    """Return the plugged-in commands by name; `bench` also from a checkout that is on the path but not installed."""
    found = {BENCH.name: BENCH} if find_spec(BENCH.module.partition(".")[0]) else {}
    return found | {point.name: point for point in entry_points(group=GROUP)}


class CommandsWithPlugins(OneLineErrors):
    """The commands of Tractile and of :func:`plugins`. Raises :class:`UnknownCommand` for `bench` if it is not installed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*super().list_commands(ctx), *plugins()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, None if there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            return command
        if cmd_name in (found := plugins()):
            command = get_command(found[cmd_name].load())
            command.name = cmd_name
            return command
        if cmd_name == BENCH.name:
            raise UnknownCommand(
                "bench is a command of tractile-bench, which is not installed: in a clone, pip install -e bench"
            )
        return None
