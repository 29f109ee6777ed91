"""Errors of empty languages: they name the parts that contradict each other."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from ..errors import EmptyLanguage, TooManyStates, UnsupportedConstraint
from . import limits
from .automata import dfa
from .automata.work import attempt
from .narrowing import Narrowing
from .program.node import Kind, Node
from .program.nodes import reachable
from .validation import short

if TYPE_CHECKING:
    from .constraint import Constraint

P = ParamSpec("P")
C = TypeVar("C", bound="Constraint")


def named(build: Callable[P, C]) -> Callable[P, C]:
    """Decorate a function that builds constraints: each remembers the call, for messages."""

    @functools.wraps(build)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> C:
        def written() -> str:
            given = [*map(short, args[:2]), *(f"{name}={short(value)}" for name, value in kwargs.items())]
            return f"{build.__name__}({', '.join(given)})"

        found = build(*args, **kwargs)
        found.written = written
        return found

    return wrapper


def empty_language(constraint: Constraint) -> EmptyLanguage:
    """Return the error of a constraint that accepts no text."""
    reason = constraint.why_empty() if constraint.why_empty is not None else ""
    return EmptyLanguage(f"no text satisfies the constraint{reason or contradicting(constraint.both)}")


def unwritten(program: Node) -> EmptyLanguage | UnsupportedConstraint:
    """Return the error of a program of which no text was found that can be written with a vocabulary."""
    found = [node for node in reachable(program) if node.kind is Kind.TOKENS]
    if found and any(node.kind is Kind.APART for node in reachable(program)):
        return UnsupportedConstraint(
            "items or undeclared names that must differ, beside budgets of parts: no text was found; list the values, or leave "
            "the budget out"
        )
    names = dict.fromkeys(
        f"tokens({f'at_least={node.low}, ' if node.low else ''}at_most={node.high})" for node in found
    )
    obeys = f", or none obeys {' and '.join(names)}" if names else ""
    return EmptyLanguage(f"no text of the constraint can be written with this vocabulary{obeys}")


def lacking(narrowed: tuple[Narrowing, ...]) -> UnsupportedConstraint:
    """Return the error of a finite automaton that has none of the constraint's texts."""
    cuts = "; ".join(map(str, narrowed))
    return UnsupportedConstraint(
        f"the finite automaton has no text of the constraint: {cuts}", path=narrowed[-1].path
    )


def contradicting(parts: tuple[Constraint, ...]) -> str:
    """Return the end of a message: the first part, or pair of parts, of an intersection that accepts no text."""
    names = [a.written() if a.written else f"part {i + 1} of {len(parts)}" for i, a in enumerate(parts)]
    with suppress(TooManyStates), attempt(limits.WORK / 4):
        for name, part in zip(names, parts, strict=True):
            if part.is_empty():
                return f": {name} accepts none"
        for (one, a), (other, b) in itertools.combinations(zip(names, parts, strict=True), 2):
            if dfa.intersect(a.finite.bytes_automaton, b.finite.bytes_automaton).is_empty:
                return f": {one} and {other} contradict each other"
    return f": {', '.join(names)} contradict each other" if parts else ""
