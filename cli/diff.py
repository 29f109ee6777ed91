"""`tractile diff`: the texts that only one of two constraints accepts."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..constraints import Constraint, difference
from .common import AsJson, console, print_facts
from .constraint_options import the_constraint

OPTIONS = ("regex", "json-schema", "keywords", "tools", "grammar", "sql")
Given = Annotated[str, typer.Argument(metavar="KIND:VALUE", show_default=False)]


def constraint_of(given: str) -> Constraint:
    """Build the constraint that KIND:VALUE names: that of the option --KIND with this value."""
    kind, colon, value = given.partition(":")
    if not colon or kind not in OPTIONS:
        kinds = ", ".join(f"{name}:…" for name in OPTIONS)
        raise typer.BadParameter(f"{given!r} names no constraint; write {kinds}")
    if kind in ("regex", "keywords"):
        option: str | Path = value
    elif Path(value).is_file():
        option = Path(value)
    else:
        raise typer.BadParameter(f"{given!r}: there is no file {value!r}")
    options: dict[str, Any] = {kind.replace("-", "_"): option}
    return the_constraint(**options)


def diff(
    first: Given,
    second: Given,
    max_bytes: Annotated[
        int | None, typer.Option(min=0, help="Count the texts of at most so many bytes.")
    ] = None,
    max_pairs: Annotated[int, typer.Option(min=1, help="Visit at most so many pairs of states.")] = 50_000,
    as_json: AsJson = False,
) -> None:
    """Print the shortest text that only the first of two constraints accepts, and the shortest that only the second does.

    A constraint is KIND:VALUE, with the names of the options of `compile`: regex:PATTERN, keywords:A,B, json-schema:FILE,
    tools:FILE, grammar:FILE, sql:FILE.
    """
    found = difference(constraint_of(first), constraint_of(second), max_bytes=max_bytes, max_pairs=max_pairs)
    if as_json:
        print_facts({"differ": found.found, **asdict(found)}, as_json)
    else:
        console.print(str(found), markup=False, highlight=False)
