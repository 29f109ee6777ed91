"""Objects with no more members than they must have, in one order: what upper bounds of distances are sought in first.

Objects with members in any order have a state for each set of members seen. The shortest texts have only members that must
be there, and cost nearly the same in all orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...automata.stack import Local, LocalBody
from .objects import KEY, ObjectMachine


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
