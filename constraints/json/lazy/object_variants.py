"""Variants of object machines on which distances to acceptance are computed: a search visits fewer states in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...automata.region import Local, LocalBody, Machine, ToCome
from .members_apart import MembersApart
from .name_text import FORGOTTEN, NameText, begun_with
from .object_kinds import KEY
from .objects import ObjectMachine

if TYPE_CHECKING:
    from .keys import State


class NamesForgotten(MembersApart):
    """:class:`MembersApart` without memory of undeclared names.
    They may come again, so it reads at least the same texts."""

    forgets = True

    def __init__(self, whole: ObjectMachine) -> None:
        super().__init__(whole)
        self._next = {}

    def name(self, subset: int, spelling: int = 0) -> Local:
        return self.forgetful(super().name(subset, spelling))

    def forgetful(self, local: Local) -> Local:
        local = super().forgetful(local)
        forgotten = local[0] == KEY and local[3] is not None and local[3].data is None
        return (*local[:3], FORGOTTEN) if forgotten else local

    def to_come(self, local: Local) -> Sequence[ToCome]:
        return self.whole.to_come(local)


class FirstBytesKept(NamesForgotten):
    """:class:`NamesForgotten` that remembers a class of the first byte of each undeclared name.
    It refuses a second name of a class, even if the names differ, so it reads at most the same texts."""

    def forgetting(self, repeats: bool) -> Machine:
        return self.whole.forgetting(repeats)

    def name(self, subset: int, spelling: int = 0) -> Local:
        return self.forgetful(ObjectMachine.name(self, subset, spelling))

    def forgetful(self, local: Local) -> Local:
        return ObjectMachine.forgetful(self, local)

    def forgotten(self, text: NameText, byte: int | None = None) -> NameText:
        if text.data is None or (not text.data and byte is None):
            return text
        first = text.data[0] if text.data else byte
        assert first is not None
        return begun_with(first, self.style.spellings)

    def completion(self, local: Local) -> bytes:
        """Return the text of :class:`NamesForgotten`: where a second name of a class has begun, none is accepted."""
        return super().completion(super().forgetful(local))

    def body(self, local: Local) -> LocalBody | None:
        begins = local[0] == KEY and local[3] is not None and local[3].data == b""
        return None if begins else super().body(local)


class RequiredMembers(MembersApart):
    """Some texts of an object machine: the required members in a fixed order, then the end.
    All orders take nearly the same number of tokens. If the object cannot end there, other members may follow."""

    def __init__(self, whole: ObjectMachine) -> None:
        super().__init__(whole)
        self._allowed = {}

    def allowed(self, subset: int) -> int:
        found = self._allowed.get(subset)
        if found is None:
            allowed, required = self.whole.allowed(subset), 0
            for run in self.subsets[subset]:
                required |= self.forms[run.form].required & ~run.seen
            required &= allowed
            found = self._allowed[subset] = (
                required & -required if required else 0 if self.done(subset) else allowed
            )
        return found

    def possible(self, subset: int, state: State | None) -> int:
        found = super().possible(subset, state)
        if state is None or found:
            return found
        return self.whole.allowed(subset) & self.possible_from(state)  # within another name

    def in_name(self, subset: int, state: State, text: NameText | None) -> Sequence[tuple[int, int, Local]]:
        return super().in_name(subset, state, text) or self.whole.in_name(subset, state, text)


class Variants(NamedTuple):
    """The machines on which the distances of an object machine are computed.
    See ``Machine.divided``, ``essential`` and ``forgetting``. ``repeating``, ``by_first_byte``: with and without ``repeats``."""

    divided: Machine
    essential: Machine
    repeating: Machine
    by_first_byte: Machine


def variants(whole: ObjectMachine) -> Variants:
    """Return the variants of an object machine."""
    return Variants(MembersApart(whole), RequiredMembers(whole), NamesForgotten(whole), FirstBytesKept(whole))
