"""Short texts of objects: completions of each state, and a bound on their length."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from ...automata.region import Local
from .members import Form, Run, bits
from .name_text import UNKNOWN, NameText
from .object_kinds import AFTER, BEFORE, COLON, COMMA, END, KEY, OPEN, START, TRAIL

if TYPE_CHECKING:
    from .objects import ObjectMachine
    from .values import Look


class ShortObjects:
    """The short texts of the objects of a machine."""

    def __init__(self, machine: ObjectMachine) -> None:
        self.machine = machine
        self._ends: dict[tuple[int, bool], bytes] = {}
        self._short_members: dict[int, bytes] = {}
        self._common: dict[int, set[str]] = {}
        self._rests: dict[tuple[int, Any], bytes] = {}

    def longest(self) -> int | None:
        """Return an upper bound, in bytes, of the shortest completion of any state.
        It is that of the members that must come, and one more; ``None`` if that is not known."""
        return None if self.machine.involved else max(map(self.longest_of, self.machine.forms), default=0)

    def longest_of(self, form: Form) -> int:
        """Return this bound for the runs of one form."""
        look, style = self.machine.machines.shortest, self.machine.style
        around = 10 + len(style.colon) + len(style.comma)
        must = one = 0
        for i in bits(form.live):
            size = len(self.spelled(i)) + len(look(form.needs[i]) or b"") + around
            one = max(one, size)
            must += size if form.required >> i & 1 else 0
        for each in form.possible:
            size = self.machine.keys.longest(each.bit - len(self.machine.names)) + len(look(each.need) or b"")
            one = max(one, size + around)
        return must + one + 2 + len(style.lead) + len(style.trail)

    def shortest(self, look: Look) -> bytes | None:
        """Return a short text of an object, ``None`` if there is none."""
        found, opening = [], self.machine.style.braces[0]
        for i, form in enumerate(self.machine.forms):
            run = Run(i, missing=frozenset(range(form.must)), places=(0,) * len(form.orders))
            text = self.rest(run, look, first=True)
            if text is not None:
                found.append(opening + text)
        return min(found, key=len, default=None)

    def rest(self, run: Run, look: Look, first: bool) -> bytes | None:
        """Return the text of the members to come and the end. ``first``: no member precedes."""
        members = self.machine.forms[run.form].shortest(run, look)
        if members is None:
            return None
        taken = set(run.counted | run.held)
        parts = []
        for bit, need in members:
            value = look(need)
            name = self.fresh(bit, taken)
            if value is None or name is None:
                return None
            parts.append(self.machine.style.named(name) + value)
        style = self.machine.style
        before = b"" if not parts else style.lead if first else style.comma
        behind = b"" if first and not parts else style.trail
        return before + style.comma.join(parts) + behind + self.machine.ends_with

    def fresh(self, bit: int, taken: set[str]) -> bytes | None:
        """Return a short name of an alternative that is not taken, and take it."""
        if bit < len(self.machine.names):
            return self.spelled(bit)
        i = bit - len(self.machine.names)
        first, spare = None, UNKNOWN in taken  # the name that is not known may be the first one here
        for text in self.machine.keys.texts(i, self.machine.keys.classes[i].start(), 0):
            if (name := self.machine.style.spellings[0].read(text)) is not None and name not in taken:
                first = first or text
                if not spare:
                    taken.add(name)
                    return text
                spare = False
        return first

    def spelled(self, i: int) -> bytes:
        """Return a short text of a declared name, without quotes."""
        return self.machine.style.spellings[0].plain(self.machine.names[i])

    def after_subset(self, subset: int, first: bool) -> bytes:
        """Return a short completion of the object from a subset."""
        if (text := self._ends.get((subset, first))) is None:
            look = self.machine.machines.shortest
            found = [
                text
                for run in self.machine.subsets[subset]
                if (text := self.rest(run, look, first)) is not None
            ]
            text = self._ends[subset, first] = min(found, key=len)
        return text

    def completion(self, local: Local) -> bytes:
        """Return a short completion from a local state."""
        kind, *rest = local
        if kind == END:
            return b""
        if kind == START:
            return self.machine.style.braces[0] + self.after_subset(self.machine.first, first=True)
        if kind in (OPEN, AFTER):
            return self.after_subset(rest[0], first=kind == OPEN)
        if kind == TRAIL:
            return self.machine.style.trail[rest[0] :] + self.machine.ends_with
        if kind in (COMMA, BEFORE):
            comma = self.machine.style.comma[rest[1] :] if kind == COMMA else b""
            opening = self.machine.style.spellings[0].opening
            return comma + opening + self.rest_of_name(*self.machine.name(rest[0])[1:])
        if kind == KEY:
            return self.rest_of_name(*rest)
        return (self.machine.style.colon[rest[1] :] if kind == COLON else b"") + self.member(rest[0])

    def member(self, group: int) -> bytes:
        """Return a short value of a member, with a short completion of the object after it."""
        if (text := self._short_members.get(group)) is None:
            found = []
            for need, subset in self.machine.groups[group]:
                value = self.machine.machines.shortest(need)
                assert value is not None
                found.append(value + self.after_subset(subset, first=False))
            text = self._short_members[group] = min(found, key=len)
        return text

    def rest_of_name(self, subset: int, state: Any, text: NameText | None) -> bytes:
        """Return a short completion from within a name."""
        if text is None or text.data is None or not self.is_uncommon(subset, text):
            return self._rest_of_name(subset, state, text)
        if (subset, state) not in self._rests:
            self._rests[subset, state] = self._rest_of_name(subset, state, text)
        return self._rests[subset, state]

    def is_uncommon(self, subset: int, text: NameText) -> bool:
        """Return whether no remembered name, and none used in short texts, begins with this text."""
        if subset not in self._common:
            known = self.machine.known(subset)
            need = 2 + len(known) + max([form.least + form.must for form in self.machine.forms])
            names = set(known)
            for i, each in enumerate(self.machine.keys.classes):
                which = i // self.machine.keys.num_classes
                some = islice(
                    self.machine.keys.texts(i, each.start(), self.machine.keys.trie.roots[which]), need
                )
                names.update(filter(None, map(self.machine.style.spellings[which].read, some)))
            self._common[subset] = {name[:i] for name in names for i in range(len(name) + 1)}
        return text.name is not None and text.name not in self._common[subset]

    def _rest_of_name(self, subset: int, state: Any, text: NameText | None) -> bytes:
        node, classes = state
        allowed, closing = self.machine.allowed(subset), bytes((self.machine.keys.closing(state),))
        ways: list[tuple[bytes, int]] = []
        declared = (
            (self.machine.keys.trie.reach[node] if node >= 0 else 0)
            & allowed
            & (1 << len(self.machine.names)) - 1
        )
        required = 0
        for run in self.machine.subsets[subset]:
            required |= self.machine.forms[run.form].required & ~run.seen
        for i in list(bits(declared & required or declared))[:8]:
            ways.append((self.machine.keys.trie.path(node, i), i))
        if text is not None:
            ways += [(rest, bit) for bit, rest in self.machine.names_from(subset, state, text)]
        else:
            for i, local in enumerate(classes):
                bit = len(self.machine.names) + i % self.machine.keys.num_classes
                if local is not None and allowed >> bit & 1:
                    short = self.machine.keys.first_text(i, local, node)
                    ways += [] if short is None else [(short, bit)]
        found = []
        for rest, bit in ways:
            group = self.machine.group(subset, 1 << bit, None if text is None else text.ending(rest))
            assert group is not None
            found.append(rest + closing + self.machine.style.colon + self.member(group))
        return min(found, key=len)
