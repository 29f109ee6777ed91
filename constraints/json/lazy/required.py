"""Objects with no more members than they must have, in one order: what upper bounds of distances are sought in first.

Objects with members in any order have a state for each set of members seen. The shortest texts have only members that must
be there, and cost nearly the same in all orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...automata.stack import Local, LocalBody
from .blanks import with_blanks
from .members import bits
from .objects import AFTER, BEFORE, COLON, COMMA, END, KEY, OPEN, START, VALUE, ObjectMachine


class RequiredMembers(ObjectMachine):
    """Some texts of an object machine, with its local states: where a name begins, the first of the members that must come
    is next; where none must, the object ends."""

    def __init__(self, whole: ObjectMachine) -> None:
        whole.keys, whole.first  # noqa: B018  worked out once for both
        self.__dict__.update(whole.__dict__)
        self.whole = whole
        self._moves, self._allowed = {}, {}

    def allowed(self, hub: int) -> int:
        found = self._allowed.get(hub)
        if found is None:
            allowed, required = self.whole.allowed(hub), 0
            for run in self.hubs[hub]:
                required |= self.forms[run.form].required & ~run.seen
            required &= allowed
            found = required & -required if required else 0 if self.done(hub) else allowed
            self._allowed[hub] = found
        return found

    def in_name(self, hub: int, state: Any, text: bytes | None) -> Sequence[tuple[int, int, Local]]:
        return super().in_name(hub, state, text) or self.whole.in_name(hub, state, text)

    def body(self, local: Local) -> LocalBody | None:
        if local[0] != KEY or super().in_name(*local[1:]):
            return super().body(local)
        return self.whole.body(local)  # in the midst of another name


class OneMember(ObjectMachine):
    """One member of an object, from what precedes it to the byte after it: its name, its value, and a comma or the end.

    The texts of an object are ``{`` and then such texts, one after another: so the tokens that end in each add up.
    """

    begins_after = b"{,"

    def __init__(self, whole: ObjectMachine, mark: int) -> None:
        whole.keys, whole.first  # noqa: B018  worked out once for all
        self.__dict__.update(whole.__dict__)
        self.whole, self.mark = whole, mark
        self._moves = {}
        self.ends_with = b",}"

    def allowed(self, hub: int) -> int:
        return 1 << self.mark

    def work_out(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        comma = self.style.comma
        if local[0] == START:
            starts = [(OPEN, self.first), self.onward(COMMA, BEFORE, self.first, 1, comma)]
            found = {
                low: (low, high, to)
                for start in starts
                for low, high, to in ObjectMachine.work_out(self, start)
            }
            found.pop(125, None)
            return [found[low] for low in sorted(found)]
        if local[0] == AFTER:
            ends: list[tuple[int, int, Local]] = [(comma[0], comma[0], (END,)), (125, 125, (END,))]
            return with_blanks(ends, local) if self.style.blank else ends
        return super().work_out(local)


def required_members(whole: ObjectMachine, local: Local) -> list[list[tuple[int, bool]]]:
    """By reading of what precedes: the members that must still come, and whether one of them may have been begun."""
    kind = local[0]
    if kind == END:
        return []
    if kind in (COLON, VALUE):
        hubs, begun = [hub for _, hub in whole.groups[local[1]]], False
    else:
        hubs = [whole.first if kind == START else local[1]]
        begun = kind in (COMMA, BEFORE, KEY)
    return [
        [(mark, begun) for mark in bits(whole.forms[run.form].required & ~run.seen)]
        for hub in hubs
        for run in whole.hubs[hub]
    ]
