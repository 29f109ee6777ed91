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

    A compiled pattern brings its own flags. Beyond ``re``, as the ``regex`` package reads them: properties ``\\p{…}``; set
    operations in classes that use properties or that ``re`` refuses (``[\\w--[\\d_]]``); ``(?<name>…)``; calls of groups that
    are recursive at their end only; ``(?(?=…)…|…)``, ``(?(DEFINE)…)``, ``(?|…)``. Also the escapes ``\\u{1F600}``,
    ``\\x{41}``, ``\\cJ`` and ``\\e``.

    Raises ``UnsupportedConstraint`` with the position for what is no pattern, and for

    - back-references to groups of more than 2,000 texts,
    - references within look-arounds and atomic groups to groups outside,
    - look-arounds within atomic groups, and repeats there of what may be empty.

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
