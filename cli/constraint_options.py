"""The constraint options, which all commands that take a constraint share."""

import functools
import inspect
import json
import operator
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .. import constraints
from ..constraints import Constraint, Narrowing
from ..constraints.narrowing import report
from ..errors import FormatError

Regex = Annotated[str | None, typer.Option("--regex", help="The text matches this regular expression.")]
JsonSchema = Annotated[
    Path | None,
    typer.Option("--json-schema", exists=True, dir_okay=False, help="The text is JSON of this schema."),
]
Keywords = Annotated[
    str | None,
    typer.Option("--keywords", metavar="A,B,…", help="The text contains these words, in any order."),
]
Forbid = Annotated[
    str | None,
    typer.Option("--forbid", metavar="A,B,…", help="The text contains none of these words, as written."),
]
Tools = Annotated[
    Path | None,
    typer.Option(
        "--tools", "--functions", exists=True, dir_okay=False, help="The text calls a tool of this JSON file."
    ),
]
Grammar = Annotated[
    Path | None,
    typer.Option(
        "--grammar",
        exists=True,
        dir_okay=False,
        help="The text follows this grammar: FILE.lark, .gbnf, .ebnf or .abnf.",
    ),
]
Sql = Annotated[
    Path | None,
    typer.Option(
        "--sql", exists=True, dir_okay=False, help="A query on this SQLite file, or on these CREATE TABLEs."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse keywords and formats of --json-schema that no draft defines.")
]
Canonical = Annotated[
    bool, typer.Option("--canonical", help="Only token sequences that the tokenizer itself writes.")
]


class Choice(StrEnum):
    """What to do if a constraint accepts less than was asked."""

    warn = "warn"
    error = "error"
    ignore = "ignore"


OnNarrowed = Annotated[
    Choice,
    typer.Option(help="Where the constraint accepts less than was asked: say so, refuse it, or neither."),
]


def narrowings(constraint: Constraint, on_narrowed: Choice) -> list[Narrowing]:
    """Return the narrowings to print. Raises ``UnsupportedConstraint`` if there are any and ``--on-narrowed`` is error."""
    report(constraint.narrowed, "error" if on_narrowed is Choice.error else "ignore")
    return [] if on_narrowed is Choice.ignore else [*constraint.narrowed]


class CallSyntax(StrEnum):
    """The syntax of a function call."""

    json = "json"
    python = "python"


def the_constraint(
    regex: Regex = None,
    json_schema: JsonSchema = None,
    keywords: Keywords = None,
    forbid: Forbid = None,
    tools: Tools = None,
    call_syntax: Annotated[CallSyntax, typer.Option(help="How --tools are called.")] = CallSyntax.json,
    grammar: Grammar = None,
    sql: Sql = None,
    strict: Strict = False,
) -> Constraint:
    """Build the conjunction of the constraints that the options name. Narrowings are left to the command to report."""
    parts: list[Constraint] = []
    if regex is not None:
        parts.append(constraints.regex(regex))
    if json_schema is not None:
        parts.append(_schema(json_schema, strict))
    if keywords is not None:
        parts.append(constraints.keywords(_words(keywords)))
    if forbid is not None:
        parts.append(constraints.forbidden_words(_words(forbid), inflections=False))
    if tools is not None:
        parts.append(constraints.function_calls(tools, syntax=call_syntax.value, on_narrowed="ignore"))
    if grammar is not None:
        parts.append(_grammar(grammar))
    if sql is not None:
        statements = sql.read_text(encoding="utf-8-sig") if sql.suffix == ".sql" else sql
        parts.append(constraints.sql(statements, on_narrowed="ignore"))
    if not parts:
        raise typer.BadParameter("give a constraint, such as --regex, --json-schema or --keywords")
    return functools.reduce(operator.and_, parts)


def _words(given: str) -> list[str]:
    return [word.strip() for word in given.split(",")]


def _schema(path: Path, strict: bool) -> Constraint:
    try:
        schema = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON: {error}") from error
    return constraints.json_schema(schema, strict=strict, on_narrowed="ignore")


def _grammar(path: Path) -> Constraint:
    syntaxes: dict[str, Literal["lark", "gbnf", "ebnf", "abnf"]]
    syntaxes = {".lark": "lark", ".gbnf": "gbnf", ".ebnf": "ebnf", ".abnf": "abnf"}
    if path.suffix not in syntaxes:
        raise typer.BadParameter(f"--grammar reads {', '.join(syntaxes)}, not {path.name!r}")
    return constraints.grammar(path, syntax=syntaxes[path.suffix], on_narrowed="ignore")


def takes_constraint(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: replace its parameter ``constraint`` by the constraint options, from which it is built."""
    options = inspect.signature(the_constraint).parameters
    own = [p for name, p in inspect.signature(command).parameters.items() if name != "constraint"]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in options}
        command(constraint=the_constraint(**chosen), **given)

    every = sorted([*own, *options.values()], key=lambda p: p.default is not p.empty)  # required ones first
    wrapper.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in every}
    return wrapper
