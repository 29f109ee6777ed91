"""Given texts as constraints."""

from __future__ import annotations

import operator
from functools import reduce

from ...errors import EmptyLanguage
from .. import validation
from ..automata import nfa
from ..constraint import Constraint
from ..contradictions import named
from ..narrowing import merged


@named
def literal(text: str) -> Constraint:
    """Accept exactly this text. Raise ``UnsupportedConstraint`` for a lone surrogate.

    Examples
    --------
    >>> import tractile as tt
    >>> tt.constraints.literal("a+b").accepts("a+b")
    True
    """
    return Constraint(nfa.literal(validation.check_text(text, "text").encode()))


@named
def any_of(*options: str | Constraint) -> Constraint:
    """Accept any one of the options, texts or constraints.

    Raises ``EmptyLanguage`` without options.

    Examples
    --------
    >>> import tractile as tt
    >>> c = tt.constraints.any_of("cat", "dog", tt.constraints.regex("[0-9]+ birds"))
    >>> c.accepts("dog"), c.accepts("12 birds"), c.accepts("cow")
    (True, True, False)
    """
    parts = [option if isinstance(option, Constraint) else literal(option) for option in options]
    if not parts:
        raise EmptyLanguage("any_of was given no options; give at least one text or constraint")
    if all(part.is_finite for part in parts):
        return Constraint(nfa.union([part.nfa for part in parts]), merged(*(part.narrowed for part in parts)))
    return reduce(operator.or_, parts)
