"""Why a text satisfies a constraint or does not: where it stops, and what could stand there."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..errors import EmptyLanguage, TooManyStates
from .constraint import Constraint
from .engine.bytes import Bytes
from .engine.tokens import NO_STATE
from .json.place import place
from .output_type import output_type
from .validation import utf8

SHOWN = 12  # continuations in a printed explanation
LONGEST = 40  # bytes of a continuation that is shown


@dataclass(frozen=True)
class Explanation:
    """A text under a constraint, read byte by byte.

    ``accepted``: whether the text satisfies the constraint. ``at``: where it stops, as a number of bytes; no accepted text has
    the next character there, or the text ends too soon. ``before``: the text up to there; ``found``: the next character, empty
    at its end. ``could``: strings that may follow instead, each up to the next choice; a range as "a–z". ``may_end``:
    whether the text may end there. ``completion``: a shortest string that completes ``before``. ``path``: the place in JSON
    as a JSON pointer ("/pets/0/age"), None for other texts. ``wanted_by``: the parts of the constraint that decide what may
    follow: places in a JSON Schema as JSON pointers ("/properties/age"), or rules of a grammar ("rule value (line 3)"); empty for
    other constraints, and where finding them takes too much work.

    Examples
    --------
    >>> import tractile as tt
    >>> print(tt.explain(tt.constraints.regex("(cat|dog)s?"), "cap"))
    stops at byte 2: 'ca' goes on with 'p'
    could stand there: 't'
    a shortest end: 't'
    """

    accepted: bool
    at: int
    before: str
    found: str
    could: tuple[str, ...]
    may_end: bool
    completion: str
    path: str | None
    wanted_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.accepted:
            return "satisfies the constraint"
        where = "" if self.path is None else f" (in JSON at {self.path or '/'})"
        tail = self.before[-LONGEST:]
        shown = repr(tail if tail == self.before else f"…{tail}")
        met = f"goes on with {self.found!r}" if self.found else "ends too soon"
        lines = [f"stops at byte {self.at}{where}: {shown} {met}"]
        could = [*shown_of([repr(one) for one in self.could]), *["the end"] * self.may_end]
        lines.append(f"could stand there: {', '.join(could)}")
        if self.wanted_by:
            lines.append(f"as wanted by: {', '.join(shown_of([one or '/' for one in self.wanted_by]))}")
        if not self.may_end:
            lines.append(f"a shortest end: {self.completion!r}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        return {**vars(self), "could": list(self.could), "wanted_by": list(self.wanted_by)}


def shown_of(each: list[str]) -> list[str]:
    """Return the first of many texts, for a message."""
    return each[:SHOWN] + ["…"] * (len(each) > SHOWN)


def explain(constraint: Any, text: str | bytes) -> Explanation:
    """Explain where a text stops to satisfy a constraint, and what could stand there.

    ``constraint``: a constraint, or any output of :func:`tractile.generate`. Validators of Python are not asked. Raises
    :class:`EmptyLanguage` if nothing satisfies the constraint, and what :func:`.output_type` raises.

    Examples
    --------
    >>> import tractile as tt
    >>> why = tt.explain({"type": "object", "properties": {"age": {"type": "integer"}}}, '{"age": "3"}')
    >>> why.at, why.found, why.path
    (8, '"', '/age')
    >>> why.wanted_by
    ('/properties/age',)
    """
    wanted = output_type(constraint).constraint
    data, states = utf8(text), wanted.byte_states
    state, at = states.start, 0
    if state == NO_STATE:
        raise EmptyLanguage("explain: nothing satisfies the constraint")
    for byte in data:
        after = states.step(state, byte) if byte in states.allowed(state) else NO_STATE
        if after == NO_STATE:
            break
        state, at = after, at + 1
    while at and data[at : at + 1] and 0x80 <= data[at] < 0xC0:  # inside a character
        at -= 1
    if at < len(data):
        state = states.start
        for byte in data[:at]:
            state = states.step(state, byte)
    before = data[:at].decode(errors="replace")
    return Explanation(
        accepted=at == len(data) and states.accepting(state),
        at=at,
        before=before,
        found=data[at:].decode(errors="replace")[:1],
        could=continuations(states, state),
        may_end=states.accepting(state),
        completion=states.completion(state).decode(errors="replace"),
        path=None if (there := place(before)) is None else there.pointer,
        wanted_by=rules_of(wanted, before),
    )


def rules_of(constraint: Constraint, text: str) -> tuple[str, ...]:
    """Return which rules of a constraint say what may follow the beginning of an accepted text."""
    found: tuple[str, ...] = ()
    if constraint.wanted_by is not None:
        with suppress(TooManyStates):  # all else is said
            found = constraint.wanted_by(
                text,
                lambda more: (
                    constraint.byte_states.read((text + more).encode("utf-8", "surrogatepass")) != NO_STATE
                ),
            )
    return found


def continuations(states: Bytes, state: int) -> tuple[str, ...]:
    """Return what may follow in a state: texts as far as there is no choice, and ranges of characters."""
    found: list[str] = []
    for low, high, after in states.moves(state):
        if low >= 0x80:
            found += [] if "other characters" in found else ["other characters"]
        elif low == high:
            found.append(_forced(states, bytes([low]), after))
        else:
            found.append(f"{chr(low)}–{chr(high)}")
    return tuple(found)


def _forced(states: Bytes, text: bytes, state: int) -> str:
    """Go on with a text while one byte alone may follow."""
    while len(text) < LONGEST and not states.accepting(state):
        allowed = states.allowed(state)
        if len(allowed) != 1:
            break
        text += bytes(allowed)
        state = states.step(state, text[-1])
    return text.decode(errors="ignore")
