"""The limits on which an answer depends: what exceeds them is refused, or approximated and said.

:data:`TABLE` has all of them, those of other modules too. Further bounds of this package size a cache, or choose between two
ways to the same answer; they stand beside their code, and tests scale them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

WORK = 1_350_000
"""Units of work to make one constraint, about a microsecond each.

Work is counted, not timed (`automata/work.py`).
"""

STATES = 500_000
"""States of a finite automaton.

It may have ten times as many transitions, so ``(a{1,1000}){1,1000}`` is refused before it fills the memory. A subset
construction may make a fifth as many subsets.
"""

PART_STATES = 30_000
"""States of the automaton of one part: a pattern, a set of strings, the multiples of a number, a group that is referred to."""

TRANSITIONS = 20_000_000
"""Transitions of an automaton over tokens, where all of them are made at once."""

ALTERNATIVES = 2_000
"""Alternatives at one place: shapes of a value, parses of an ambiguous prefix."""

LENGTH = 1_000_000
"""Bytes, characters or items of the shortest text of a constraint; values in a schema; bytes of an SQL database's schema."""

COUNT = 10**9
"""The largest whole number that an argument may be."""

DEPTH = 1_000
"""The largest ``max_depth`` and ``max_digits``."""


class Bounds(NamedTuple):
    """The size of the finite automaton of a schema: it accepts only values within these bounds.

    ``depth``: nested uses of a schema within itself, or levels of arrays and objects in values without a schema. ``length``:
    characters of strings with a ``maxLength``. ``room``: states of an object whose members come in any order; an object that
    needs more gets a fixed order.
    """

    depth: int
    length: int
    room: int

    def wanted(self, depth: int | None, length: int | None) -> Bounds:
        """Return these bounds with the user's depth and length; None keeps the present value."""
        depth, length = self.depth if depth is None else depth, self.length if length is None else length
        return Bounds(depth, length, self.room)

    @property
    def items(self) -> int:
        """The most items of arrays with a ``maxItems``."""
        return self.length // 10


LEAST, GREATEST = Bounds(0, 40, 0), Bounds(7, 32_768, 1_500)
BOUNDS = (
    ("depth", 1), ("length", 100), ("depth", 2), ("room", 300), ("depth", 3), ("length", 250), ("room", 1_500),
    ("length", 1_000), ("length", 32_768), ("depth", 5), ("depth", 7),
)  # fmt: skip
"""The order in which a schema's bounds are raised from `LEAST`, as far as the automaton fits.

If the automaton at `GREATEST` is small, it is used at once (`engine/regular.py`).
"""


class Limit(NamedTuple):
    """A constant that can change an answer.

    ``name``: the constant, by its module within ``constraints``. ``bounds``: what it bounds. ``beyond``: what the user gets.
    """

    name: str
    bounds: str
    beyond: str


UPPER_BOUND = "an upper bound of the fewest tokens: `query.exact` is False, and `BudgetTooSmall` says so"
TABLE = (
    Limit(
        "engine.cores.CORE:MOST_STATES",
        "steps of a search for an end, where items differ",
        "`TooManyStates`: whether a text has an end takes more steps to find",
    ),
    Limit(
        "engine.cores.CORE:MOST_TAKEN",
        "steps of a search for the fewest tokens",
        "`TooManyStates`: the fewest tokens to the end take more steps to find",
    ),
    Limit("engine.cores.MOST_STEPS", "steps of one call of the engine", "`TooManyStates`, the same"),
    Limit(
        "engine.cores.CORE:MOST_DEPTH",
        "frames of a text, one within another",
        "`TooManyStates`: texts are nested deeper",
    ),
    Limit(
        "engine.cores.CORE:MOST_OBSERVERS",
        "parts within each other whose texts are intersected, counted or differ",
        "`TooManyStates`: more parts are open within each other",
    ),
    Limit(
        "engine.cores.CORE:MOST_FOLLOWED",
        "readings of one text by an ambiguous grammar",
        "`TooManyStates`: one text has too many readings",
    ),
    Limit("engine.cores.CORE:EVERY_ORDER", "members of an object whose orders are all tried", UPPER_BOUND),
    Limit(
        "engine.cores.CORE:MOST_SOUGHT", "steps of a search for fewer tokens, where items differ", UPPER_BOUND
    ),
    Limit("engine.cores.CORE:MOST_SEARCHED", "steps of all such searches of one mask", UPPER_BOUND),
    Limit(
        "limits.WORK",
        "units of work of one constraint",
        "`TooManyStates`: the constraint takes too much work; a coarser "
        "finite automaton, which `finite.narrowed` says",
    ),
    Limit(
        "limits.STATES",
        "states of a finite automaton, and bytes of a literal text",
        "`TooManyStates`: the automaton would "
        "pass a fixed limit of 500,000 states or transitions; a coarser finite automaton, which `finite.narrowed` says",
    ),
    Limit(
        "limits.PART_STATES",
        "states of one pattern, terminal or number",
        "`TooManyStates` with the path of the part",
    ),
    Limit(
        "limits.TRANSITIONS",
        "transitions of an automaton over tokens that is written out",
        "`TooManyStates`; masks need none",
    ),
    Limit(
        "limits.ALTERNATIVES",
        "alternatives, positions or counts at one place",
        "`TooManyStates`: a schema combines too many "
        "alternatives, an array counts items in too many ways, positions of an array are too many, …",
    ),
    Limit(
        "limits.LENGTH",
        "characters or items that must be there; values in a schema; bytes of a description",
        "`TooManyStates`: strings of at least so many characters are too long; `FormatError` for a schema",
    ),
    Limit(
        "limits.COUNT",
        "a whole number given as an argument",
        "`UnsupportedConstraint` with the argument's name",
    ),
    Limit(
        "limits.DEPTH",
        "`max_depth` and `max_digits`",
        "`UnsupportedConstraint` with the argument's name",
    ),
    Limit(
        "limits.BOUNDS",
        "depth, length and orders in a schema's finite automaton",
        "an entry in `finite.narrowed`",
    ),
    Limit(
        "automata.request_limits.Limits:seconds",
        "seconds of one call of `Limits.run`, where limits are in force",
        "`ConstructionStopped`: the construction takes longer than so many seconds",
    ),
    Limit(
        "automata.work.SIMPLIFYING",
        "units of work to make an automaton deterministic",
        "`&` with it uses `finite`, and `narrowed` says what that lacks",
    ),
    Limit(
        "engine.cores.CORE:MOST_TIMES",
        "times the states that an automaton may have once it is deterministic",
        "as `SIMPLIFYING`",
    ),
    Limit(
        "compiled.GUIDE_STATES",
        "byte states of the automaton that guides P-GCD",
        "a guide that accepts more texts; masks are exact",
    ),
    Limit(
        "difference.MAX_PAIRS",
        "pairs of states compared by `difference`",
        "`compared` is the length up to which all texts were compared",
    ),
    Limit("report.MOST_EXACT", "texts that are counted exactly", "a float instead of an int"),
    Limit("report.MOST_TEXTS", "texts that are counted", "this number"),
    Limit("json.nodes.schema.MOST_DEPTH", "levels of nesting by `indent`", "an entry in `narrowed`: indent"),
    Limit(
        "engine.cores.CORE:MOST_NAMES",
        "states of the names of an object",
        "`TooManyStates`: the names of an object take too many states",
    ),
    Limit(
        "json.nodes.objects.MOST_TOGETHER",
        "undeclared members of which one must be there",
        "`TooManyStates`: members of which one must be there are too many",
    ),
    Limit(
        "json.nodes.objects.MOST_PLACES",
        "places of such members among those in declared order",
        "`TooManyStates`: … may stand in too many places; use order='any'",
    ),
    Limit(
        "json.nodes.arrays.MOST_LISTED",
        "width of a range of integers that are listed, for items that must be equal",
        "`UnsupportedConstraint`: uniqueItems that must not hold of items that are not listed",
    ),
    Limit(
        "json.nodes.arrays.MOST_APART",
        "positions that are compared to see that items of Python lists differ",
        "`UnsupportedConstraint`: uniqueItems of items that are not listed in Python syntax",
    ),
    Limit(
        "json.type_decimals.EXACT_DIGITS",
        "digits of a `Decimal` written as a number",
        "numbers of more digits are left out; further decimal places are not checked",
    ),
    Limit(
        "json.type_members.MOST_NAMES",
        "integers listed as names of members, where not all of a range are names",
        "an entry in `narrowed`",
    ),
    Limit(
        "json.type_members.MOST_DIGITS",
        "digits of an integer that is a name, where it has bounds",
        "an entry in `narrowed`",
    ),
    Limit(
        "json.type_members.MOST_LENGTH",
        "characters of a name that a pattern describes",
        "an entry in `narrowed`",
    ),
    Limit(
        "json.type_schemas.MOST_ITEMS",
        "items of the part of a tuple that may be repeated, where others follow",
        "an entry in `narrowed`",
    ),
    Limit(
        "grammar.copies.MOST_COUNTED",
        "a count in a grammar with look-ahead or indentation",
        "`UnsupportedConstraint`: a repeat with counts over 200 is not read beside look-ahead and indentation",
    ),
    Limit("grammar.columns.COLUMNS", "columns of an indentation, with `postlex`", "an entry in `narrowed`"),
    Limit(
        "json.text.MOST_INDENT",
        "characters of `indent`",
        "`UnsupportedConstraint` with the argument's name",
    ),
    Limit("json.text.MOST_BLANK", "`max_whitespace`", "`UnsupportedConstraint` with the argument's name"),
    Limit("sql.constraint.MOST_TABLES", "`max_tables`", "`UnsupportedConstraint` with the argument's name"),
    Limit(
        "sql.schema.PAGES",
        "pages of 4 KiB of a database that `CREATE TABLE` statements build",
        "`FormatError`",
    ),
)
"""Every constant that can change an answer."""


def table(value_of: Callable[[str], Any]) -> str:
    """Return :data:`TABLE` in Markdown, as the documentation has it. ``value_of``: the value of a constant by its name."""
    rows = ["| limit | value | bounds | beyond it |", "| --- | --- | --- | --- |"]
    for each in TABLE:
        value = value_of(each.name)
        shown = f"{value:,}" if isinstance(value, int | float) and value < 1e12 else str(value)
        shown = "see `limits.py`" if isinstance(value, tuple) else shown
        rows.append(f"| `{each.name.replace(':', '.')}` | {shown} | {each.bounds} | {each.beyond} |")
    return "\n".join(rows)
