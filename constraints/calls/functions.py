"""Function calls as constraints: texts that call one of a list of tools, or several.

    json      {"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}        parallel: [{…}, {…}]
    python    get_weather(city="Oslo", days=3)                                        parallel: [f(…), g(…)]

Arguments stand in the declared order, or in any order. Optional arguments may be left out; undeclared ones are not allowed.
In Python syntax a value is a literal (``python_syntax.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from ...errors import TooManyStates, UnsupportedConstraint
from .. import limits, validation
from ..automata.work import limited
from ..constraint import Constraint
from ..json.nodes import Reading
from ..json.place import place
from ..json.schema_places import schema_places
from ..json.text import Space, Style, json_space, style_of
from ..narrowing import OnNarrowed, check_choice, merged, report
from .arguments import arguments
from .nodes import call, calls, one_of
from .python_syntax import arguments as arguments_in
from .python_syntax import literals
from .tools import Tool, read_tools, with_references


def function_calls(
    tools: Any,
    *,
    syntax: Literal["json", "python"] = "json",
    parallel: bool | tuple[int, int | None] = False,
    order: Literal["declared", "any"] = "declared",
    whitespace: Literal["none", "space", "flexible"] = "space",
    max_whitespace: int | None = None,
    references: str | None = None,
    keys: tuple[str, str] = ("name", "arguments"),
    max_depth: int | None = None,
    on_narrowed: OnNarrowed = "warn",
) -> Constraint:
    """Accept a call of one of the tools, or with ``parallel`` a list of calls.

    ``tools`` are dicts, as the providers of models and MCP write them; Python functions and classes, by their signature (Pydantic
    reads them); JSON text, or the path of a JSON or JSON Lines file. ``parallel`` is True for a list of one or more calls, or
    (fewest, most) with None for no upper bound. ``order`` is the order of the arguments within a call. ``whitespace``:
    "space" writes a space after each comma and colon, "none" writes nothing, "flexible" allows any white space,
    ``max_whitespace`` characters in a row at most.
    ``references`` is a pattern for strings that may stand in place of every argument, item and property (not within ``oneOf``),
    such as ``r"\\$var\\d+\\$"`` for the results of earlier calls. ``keys`` name the two members of a call in JSON syntax.
    In Python syntax numbers are written as JSON writes them (no ``1.``, ``+1``, ``1_000``), integers without a point.

    Lengths, counts and nesting depth are unbounded unless ``max_depth`` is given.

    ``narrowed`` of the constraint names each argument of which fewer values are accepted than its schema allows. With
    ``on_narrowed="warn"`` a warning is logged for the constraint (but not for what a given ``max_depth`` cuts), "error"
    raises ``UnsupportedConstraint``, "ignore" does nothing.

    Raises ``FormatError`` for tools that cannot be read and for a key that may hold parameters and is not read,
    ``UnsupportedConstraint`` with the path of what is not supported (an unknown type, a name twice, a name that is not
    Python's), ``EmptyLanguage`` for no tools, ``TooManyStates``.

    Examples
    --------
    >>> import tractile as tt
    >>> def move(steps: int, back: bool = False) -> None: ...
    >>> calls = tt.constraints.function_calls([move], syntax="python")
    >>> calls.accepts("move(steps=3)"), calls.accepts("move(steps='3')")
    (True, False)
    """
    validation.choice(syntax, "syntax", ("json", "python"))
    validation.choice(order, "order", ("declared", "any"))
    check_choice(on_narrowed)
    space = json_space(whitespace, max_whitespace)
    chosen = [] if max_depth is None else ["max_depth"]
    max_depth = None if max_depth is None else validation.count(max_depth, "max_depth", 0, limits.DEPTH)
    if references is not None:
        validation.check_text(references, "references")
    if not isinstance(keys, tuple | list) or len(keys) != 2:
        raise UnsupportedConstraint(f"keys are two names, not {validation.short(keys)}", path="keys")
    keys = validation.check_text(keys[0], "keys[0]"), validation.check_text(keys[1], "keys[1]")
    number = counts(parallel)
    read = read_tools(tools, tuples=syntax == "python")
    if references is not None:
        read = [with_references(tool, references) for tool in read]
    constraint = written(read, number, order, syntax, space, keys)
    if max_depth is not None:
        constraint = constraint.within(depth=max_depth)
    report(constraint.narrowed, on_narrowed, chosen)
    return constraint


def counts(parallel: Any) -> tuple[int, int | None] | None:
    """Return the fewest and the most calls (None: unbounded); None for a single call outside a list."""
    if parallel is False:
        return None
    if parallel is not True and not (isinstance(parallel, tuple | list) and len(parallel) == 2):
        raise UnsupportedConstraint(
            f"parallel is True, False or (from, to), not {parallel!r}", path="parallel"
        )
    low, high = (1, None) if parallel is True else parallel
    low = validation.count(low, "parallel[0]")
    if low > limits.LENGTH:
        raise TooManyStates(f"lists of at least {low} calls are too long", limit=limits.LENGTH)
    return low, None if high is None else validation.count(high, "parallel[1]", max(low, 1))


def written(
    tools: list[Tool],
    number: tuple[int, int | None] | None,
    order: str,
    syntax: str,
    space: Space,
    keys: tuple[str, str],
) -> Constraint:
    """Return the constraint of the calls. ``number``: the fewest and the most calls in a list."""
    inner = literals(space) if syntax == "python" else style_of(space)
    style = arguments_in(space) if syntax == "python" else inner
    with limited((1 + len(tools) / 500) * limits.WORK):
        called, cuts = arguments(tools, style, inner, order)
    if syntax == "python":
        program = one_of({name.encode(): after for name, after in called.items()})
    else:
        program = call(called, keys, inner)
    if number is not None:
        program = calls(program, *number, inner)
    found = Constraint(program, merged(cuts))
    if syntax == "json":
        found.wanted_by = partial(argument_places, tools, keys, style_of(space), order)
    return found


def argument_places(
    tools: list[Tool],
    keys: tuple[str, str],
    style: Style,
    order: str,
    text: str,
    goes_on: Callable[[str], bool],
) -> tuple[str, ...]:
    """Return which schemas of arguments say what may stand where the JSON text of a call stops, or of a list of calls.

    Each is the path of the tool's parameters and a JSON pointer: ``tools[0].parameters/properties/city``. None outside arguments.
    """
    there = place(text)
    for level in () if there is None else there.levels[:2]:
        if level.step == keys[1] and level.start is not None:
            named = re.search(
                rf'{re.escape(json.dumps(keys[0]))}\s*:\s*("(?:[^"\\]|\\.)*")', text[level.at :]
            )
            for tool in tools:
                if named is not None and json.loads(named[1]) == tool.name:
                    found = schema_places(tool.schema(), Reading(order), style, text[level.start :], goes_on)
                    return tuple(tool.path + each for each in found)
    return ()
