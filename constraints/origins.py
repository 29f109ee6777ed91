"""What of a combined constraint says what may follow a text: the rules of the parts that are being read there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from .engine.tokens import NO_STATE

if TYPE_CHECKING:
    from .constraint import Constraint

GoesOn = Callable[[str], bool]
"""Whether the beginning of an accepted text may go on with another text."""
WantedBy = Callable[[str, GoesOn], tuple[str, ...]]
"""From the beginning of an accepted text to the rules that say what may follow: places in a schema, or rules of a grammar."""


def of_either(one: Constraint, other: Constraint) -> WantedBy | None:
    """Return the rules of an intersection or a union; None if neither part has any."""
    return partial(_collected, _of_either, one, other) if one.wanted_by or other.wanted_by else None


def of_one_after_the_other(one: Constraint, other: Constraint) -> WantedBy | None:
    """Return the rules of a concatenation; None if neither part has any."""
    return partial(_collected, _of_sequence, one, other) if one.wanted_by or other.wanted_by else None


def _collected(
    rules: Callable[[Constraint, Constraint, str, GoesOn], Iterable[str]],
    one: Constraint,
    other: Constraint,
    text: str,
    goes_on: GoesOn,
) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rules(one, other, text, goes_on)))


def _of_part(part: Constraint, text: str, goes_on: GoesOn) -> tuple[str, ...]:
    """Return the rules of a part, if it can read the text."""
    if part.wanted_by is None or part.byte_states.read(text.encode()) == NO_STATE:
        return ()
    return part.wanted_by(text, goes_on)


def _of_either(one: Constraint, other: Constraint, text: str, goes_on: GoesOn) -> Iterator[str]:
    yield from _of_part(one, text, goes_on)
    yield from _of_part(other, text, goes_on)


def _of_sequence(one: Constraint, other: Constraint, text: str, goes_on: GoesOn) -> Iterator[str]:
    yield from _of_part(one, text, goes_on)
    if other.wanted_by is None:
        return
    states = one.byte_states
    state, at = states.start, 0
    while state != NO_STATE:
        if states.accepting(state):
            yield from _of_part(other, text[at:], goes_on)
        if at == len(text):
            break
        for byte in text[at].encode():
            state = NO_STATE if state == NO_STATE else states.step(state, byte)
        at += 1
