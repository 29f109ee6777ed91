"""Objects as machines that call one machine for each member, for distances to acceptance.

The distance across a member does not depend on the members seen before. So it is computed once, and not for each set of members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...automata.region import Local, LocalBody, Machine, Region, ToCome
from ..shapes import Need
from ..text import Style
from .blanks import with_blanks
from .members import bits
from .object_kinds import AFTER, BEFORE, COLON, COMMA, END, KEY, OPEN, START, TRAIL, VALUE
from .objects import ObjectMachine

if TYPE_CHECKING:
    from .keys import Keys, State
    from .values import Machines

NAMING, COLON_AT, VALUED, DONE = range(4)


class Member(Region):
    """The texts of one member: a name of one alternative, a colon, and a value of one need."""

    def __init__(self, machines: Machines, style: Style, keys: Keys, mark: int, need: Need) -> None:
        self.style, self.keys, self.mark, self.bit = style, keys, mark, 1 << mark
        self.value: Machine = machines.machine(need)
        self.ends_with = self.value.ends_with
        self._moves: dict[Local, Sequence[tuple[int, int, Local]]] = {}

    def start(self) -> Local:
        return (NAMING, None)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        found = self._moves.get(local)
        if found is None:
            found = self._moves[local] = self._work_out(*local)
        return found

    def _work_out(self, kind: int, at: Any) -> Sequence[tuple[int, int, Local]]:
        colon, blank = self.style.colon, self.style.blank
        found: list[tuple[int, int, Local]] = []
        if kind == NAMING and at is None:
            for number, spelling in enumerate(self.style.spellings):
                state = self.keys.start(self.bit, number)
                if not spelling.opening:
                    return self._work_out(NAMING, state)
                found.append((spelling.opening[0],) * 2 + ((NAMING, state),))
            return found
        if kind == NAMING:
            found = [(low, high, (NAMING, to)) for low, high, to in self.keys.moves(at, self.bit)]
            if self.keys.marks(at) & self.bit:
                end = self.keys.closing(at)
                found.append((end, end, (COLON_AT, 0) if colon else (VALUED, None)))
                found.sort(key=lambda move: move[0])
            return found
        if kind == COLON_AT:
            after = (COLON_AT, at + 1) if at + 1 < len(colon) else (VALUED, None)
            found = [(colon[at], colon[at], after)]
        if blank and ((kind == COLON_AT and not at) or kind == VALUED):
            return with_blanks(found, (kind, at))
        return found

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        return [(self.value, (DONE, None))] if local[0] == VALUED else ()

    def final(self, local: Local) -> bool:
        return bool(local[0] == DONE)

    def body(self, local: Local) -> LocalBody | None:
        return None if local[0] != NAMING or local[1] is None else self.keys.body(local[1], self.bit)

    def after_letters(self, local: Local, count: int) -> Local:
        return (NAMING, self.keys.after_letters(local[1], count))

    def completion(self, local: Local) -> bytes:
        kind, at = local
        value = self.value.completion(self.value.start()) if kind != DONE else b""
        if kind != NAMING:
            return (self.style.colon[at:] if kind == COLON_AT else b"") + value
        node, classes = state = self.keys.start(self.bit) if at is None else at
        number = self.mark - len(self.keys.names)
        if number < 0:
            name: bytes | None = self.keys.trie.path(node, self.mark)
        else:
            number += self.keys.spelling(state) * self.keys.num_classes
            name = self.keys.first_text(number, classes[number], node)
        assert name is not None
        opening = self.style.spellings[0].opening if at is None else b""
        return opening + name + bytes((self.keys.closing(state),)) + self.style.colon + value

    def wider(self, local: Local) -> Local | None:
        kind, state = local
        if kind != NAMING or state is None or state[0] == -1 or self.bit < 1 << len(self.keys.names):
            return None
        return (NAMING, (-1, state[1]))  # outside the trie: declared names are accepted, too


class RestOfMember(Region):
    """The texts of a member from a state within its name on."""

    def __init__(self, member: Member, state: State) -> None:
        self.member, self.state, self.ends_with = member, state, member.ends_with

    def start(self) -> Local:
        return (NAMING, self.state)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        return self.member.moves(local)

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        return self.member.calls(local)

    def body(self, local: Local) -> LocalBody | None:
        return self.member.body(local)

    def after_letters(self, local: Local, count: int) -> Local:
        return self.member.after_letters(local, count)

    def final(self, local: Local) -> bool:
        return self.member.final(local)

    def completion(self, local: Local) -> bytes:
        return self.member.completion(local)

    def divided(self) -> Machine:
        return self.member


class MembersApart(ObjectMachine):
    """An object machine with the same local states that calls a machine where a member begins.
    Where the text of a name matters, it reads the name itself."""

    def __init__(self, whole: ObjectMachine) -> None:
        whole.keys, whole.first  # noqa: B018  worked out once for both
        self.__dict__.update(whole.__dict__)
        self.whole = whole
        self._moves = {}
        self._called: dict[tuple[int, State | None], Sequence[tuple[Machine, Local]]] = {}
        self._members: dict[tuple[int, Need], Member] = whole.members

    def divided(self) -> Machine:
        return self

    def forgetting(self, repeats: bool) -> Machine:
        return self

    def essential(self) -> Machine:
        return self

    def apart_from(self, local: Local) -> bool:
        """Return whether members are called from a local state."""
        return (local[0] in (BEFORE, KEY) or (local[0] == OPEN and not self.style.lead)) and not self.tracks(
            local[1]
        )

    def work_out(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        if not self.apart_from(local):
            return super().work_out(local)
        return () if local[0] == KEY else [m for m in super().work_out(local) if m[2][0] != KEY]

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if not self.apart_from(local):
            return super().calls(local)
        subset, state = local[1], local[2] if local[0] == KEY else None
        found = self._called.get((subset, state))
        if found is None:
            found = self._called[subset, state] = [
                (self.member_of(mark, need, state), (AFTER, after))
                for mark in bits(self.possible(subset, state))
                if (group := self.group(subset, 1 << mark, None)) is not None
                for need, after in self.groups[group]
            ]
        return found

    def possible(self, subset: int, state: State | None) -> int:
        """Return the alternatives that a name may still become, or more, as bits."""
        if state is None:
            return self.allowed(subset)
        return self.allowed(subset) & self.possible_from(state)

    def possible_from(self, state: State) -> int:
        """Return the alternatives that a name may still become in any subset, or more, as bits."""
        classes = zip(self.keys.bits, state[1], strict=True)
        return reached(self.keys, state) | sum(bit for bit, local in classes if local is not None)

    def member_of(self, mark: int, need: Need, state: State | None) -> Machine:
        """Return the machine of a member, or of its rest from a state within its name."""
        key = (mark, need)
        if key not in self._members:
            self._members[key] = Member(self.machines, self.style, self.keys, mark, need)
        return self._members[key] if state is None else RestOfMember(self._members[key], state)

    def body(self, local: Local) -> LocalBody | None:
        return None if self.apart_from(local) else super().body(local)


class OneMember(MembersApart):
    """One member, the white space before it, and the comma or the closing bracket after it.

    The texts of an object are ``{`` and then such texts, one after another, so the fewest tokens that end in each add up.
    ``last``: a bracket follows.
    """

    def __init__(self, whole: ObjectMachine, mark: int, last: bool) -> None:
        super().__init__(whole)
        self.mark, self.last = mark, last
        self.begins_after = bytes(
            {*self.style.braces[0], *self.style.comma[-1:], *(b" \t\n\r" if self.style.blank else b"")}
        )
        self.ends_with = self.style.braces[1] if last else self.style.comma[-1:]

    def start(self) -> Local:
        return (BEFORE, self.first)

    def allowed(self, subset: int) -> int:
        return 1 << self.mark

    def tracks(self, subset: int) -> bool:
        return False

    def to_come(self, local: Local) -> Sequence[ToCome]:
        return ()

    def work_out(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        kind, comma = local[0], self.style.comma
        if kind == COMMA:
            after = (COMMA, local[1], local[2] + 1) if local[2] + 1 < len(comma) else (END,)
            return [(comma[local[2]], comma[local[2]], after)]
        if kind == AFTER:
            ends: list[tuple[int, int, Local]] = [self.trailing(0)]
            if not self.last:
                ends = [(comma[0], comma[0], (COMMA, local[1], 1) if len(comma) > 1 else (END,))]
            return with_blanks(ends, local) if self.style.blank else ends
        return super().work_out(local)


def required_members(whole: ObjectMachine, local: Local) -> list[ToCome]:
    """Return the required members that are still missing, for each run."""
    kind = local[0]
    if kind in (TRAIL, END):
        return []
    begun = 0
    if kind in (COLON, VALUE):
        subsets = [subset for _, subset in whole.groups[local[1]]]
    else:
        subsets = [whole.first if kind == START else local[1]]
        if kind == KEY:
            begun = reached(whole.keys, local[2])

    def member(mark: int) -> tuple[Machine, Machine]:
        """Return the machines of a member before another one, and as the last one."""
        if mark not in whole.apart:
            whole.apart[mark] = OneMember(whole, mark, False), OneMember(whole, mark, True)
        return whole.apart[mark]

    required = [
        whole.forms[run.form].required & ~run.seen for subset in subsets for run in whole.subsets[subset]
    ]
    return [
        ToCome(
            [member(mark) for mark in bits(marks & ~begun)], [member(mark) for mark in bits(marks & begun)]
        )
        for marks in required
    ]


def reached(keys: Keys, state: State) -> int:
    """Return the declared names that a name may still become, as bits."""
    node = state[0]
    return 1 << -2 - node if node < -1 else keys.trie.reach[node] if node >= 0 else 0
