"""Regular expressions as constraints."""

from __future__ import annotations

import re

from ...errors import UnsupportedConstraint
from .. import validation
from ..automata import utf8
from ..constraint import Constraint
from ..contradictions import named
from .pattern import compile_pattern

FLAGS = int(re.ASCII | re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE | re.VERBOSE)


@named
def regex(pattern: str | re.Pattern[str], flags: int = 0) -> Constraint:
    """Accept the texts that ``re.fullmatch(pattern, text, flags)`` matches.

    A compiled pattern brings its own flags. Beyond ``re``: properties ``\\p{…}`` and set operations in classes that use
    properties or that ``re`` refuses (``[\\w--[\\d_]]``), as the ``regex`` package reads them; ``(?<name>…)``, ``\\u{1F600}``,
    ``\\x{41}`` and ``\\z``.

    Raises ``UnsupportedConstraint`` with the position for what is no pattern, and for atomic groups, possessive repeats,
    back-references, conditional groups and calls of groups.
    Raises ``TooManyStates`` if the automaton would take too much work or too many states.

    Examples
    --------
    >>> import tractile as tt
    >>> c = tt.constraints.regex(r"[A-Z][a-z]+")
    >>> c.accepts("Anna"), c.accepts("anna")
    (True, False)
    """
    if isinstance(pattern, re.Pattern):
        flags |= pattern.flags
        pattern = pattern.pattern
    if not isinstance(pattern, str):
        raise UnsupportedConstraint(f"a pattern is a text, not {validation.short(pattern)}", path="pattern")
    flags = validation.count(flags, "flags")
    if flags & ~FLAGS:
        raise UnsupportedConstraint(
            f"flags are A, I, M, S, U and X of re, not {flags & ~FLAGS:#x}", path="flags"
        )
    return Constraint(compile_pattern(pattern, flags, utf8.utf8))
