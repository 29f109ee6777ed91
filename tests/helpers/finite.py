"""Constraints by the finite automata of their builders, where the constraints themselves are lazy.

These automata leave out what finitely many states cannot hold, and say so: what is tested with them is what they leave out.
"""

from functools import partial

import tractile as tt
from tractile.constraints.narrowing import CHOICES, report


def finite(constraint):
    """The constraint itself where it is finite, else that of its builder."""
    return constraint if constraint.is_finite else constraint.within()


def built(build, *given, on_narrowed="warn", **options):
    """A constraint by its finite automaton, with one warning for what that leaves out."""
    found = build(*given, on_narrowed="ignore" if on_narrowed in CHOICES else on_narrowed, **options)
    if found.is_finite:
        return build(*given, on_narrowed=on_narrowed, **options)
    made = finite(found)
    report(made.narrowed, on_narrowed)
    return made


finite_json = partial(built, tt.constraints.json_schema)
finite_grammar = partial(built, tt.constraints.grammar)
finite_calls = partial(built, tt.constraints.function_calls)
