"""Objects as machines: all forms of one place are read together.

A *hub* is the set of runs that what has been read may belong to. Between members the registers are those of the runs; within
a name the state of the :class:`~.keys.Keys` comes in addition. A *group* is what the value of a member may be: its needs,
and the hub after each.

    {  hub  "name  :  group  value  hub  ,  hub  "name …  }
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...automata.graphs import Graph
from ...automata.sharing import Prefixes
from ...automata.stack import Local, LocalBody, Machine, Region, ToCome
from ...limits import Bounds
from ..shapes import Need
from ..shapes import Objects as Shape
from ..text import Style
from .blanks import with_blanks
from .coarse import CoarseForm
from .keys import Keys
from .members import Form, Run, bits
from .name_text import EVERY_BYTE, FORGOTTEN, UNKNOWN, NameText, onward
from .settle import forms

if TYPE_CHECKING:
    from .bounded import Ways
    from .values import Look, Machines

START, OPEN, AFTER, COMMA, BEFORE, KEY, COLON, VALUE, END = range(9)
_IN_MEMBER = frozenset([OPEN, COMMA, BEFORE, KEY, COLON, VALUE, END])
_BETWEEN = frozenset([AFTER, COMMA, BEFORE, END])
_VALUE = frozenset([COLON, VALUE, *_BETWEEN])
COVERED = (frozenset(range(9)), _IN_MEMBER, _BETWEEN, *[_IN_MEMBER] * 3, _VALUE, _VALUE, _BETWEEN)
"""By the kind of a local state: the kinds whose moves its key determines."""


class ObjectMachine(Region):
    """The texts of the objects of some shapes. ``style``: how they are written, if not as other values."""

    covers_all = False
    ends_with: bytes

    def __init__(self, machines: Machines, shapes: Sequence[Shape], style: Style | None = None) -> None:
        self.machines, self.style = machines, style or machines.style
        self.ends_with = self.style.braces[1]
        self.names, self.forms, classes = forms(machines, shapes)
        self.classes = tuple(classes)
        self.runs: list[Run] = []
        self.hubs: list[frozenset[Run]] = []
        self.groups: list[tuple[tuple[Need, int], ...]] = []
        self._hub: dict[frozenset[Run], int] = {}
        self._group: dict[tuple[tuple[Need, int], ...], int] = {}
        self._allowed: dict[int, int] = {}
        self._in_run: dict[Run, int] = {}
        self._moves: dict[Local, Sequence[tuple[int, int, Local]]] = {}
        self._calls: dict[int, Sequence[tuple[Machine, Local]]] = {}
        self._next: dict[tuple[int, int], int] = {}
        self._ends: dict[tuple[int, bytes], bytes] = {}
        self._short_members: dict[int, bytes] = {}
        self._runs: dict[int, list[tuple[int, int]]] = {}
        self._known: dict[int, frozenset[str]] = {}
        self._common: dict[int, set[str]] = {}
        self._rests: dict[tuple[int, Any], bytes] = {}

    @cached_property
    def keys(self) -> Keys:
        """The names."""
        return Keys(self.names, self.classes, self.style.spellings)

    @cached_property
    def first(self) -> int:
        """The hub at the beginning."""
        return self.hub([run for i, form in enumerate(self.forms) if (run := form.start(i)) is not None])

    # ------------------------------------------------------------ hubs and groups

    def hub(self, runs: Iterable[Run]) -> int:
        """The number of a set of runs."""
        key = frozenset(runs)
        if key not in self._hub:
            self._hub[key] = len(self.hubs)
            self.hubs.append(key)
        return self._hub[key]

    def allowed(self, hub: int) -> int:
        """The alternatives that may come next."""
        if hub not in self._allowed:
            found = 0
            for run in self.hubs[hub]:
                found |= self.allowed_in(run)
            self._allowed[hub] = found
        return self._allowed[hub]

    def allowed_in(self, run: Run) -> int:
        """The alternatives that may come next in one run."""
        found = self._in_run.get(run)
        if found is None:
            found = self._in_run[run] = self.forms[run.form].allowed(run)
        return found

    def done(self, hub: int) -> bool:
        """Whether the object may end."""
        return any(self.forms[run.form].done(run) for run in self.hubs[hub])

    def tracks(self, hub: int) -> bool:
        """Whether the text of a name matters."""
        return any(self.forms[run.form].tracks(run) for run in self.hubs[hub])

    def group(self, hub: int, marks: int, text: NameText | None) -> int | None:
        """What comes after a name: the number of a group."""
        key = (hub, marks)
        if text is None and key in self._next:
            return self._next[key]
        name = None if text is None or marks & (1 << len(self.names)) - 1 else text.name
        found: dict[Need, list[Run]] = {}
        for run in self.hubs[hub]:
            form = self.forms[run.form]
            for mark in bits(self.allowed_in(run) & marks):
                for need, after in form.after(run, mark, name):
                    found.setdefault(need, []).append(after)
        if not found:
            return None
        group = tuple((need, self.hub(runs)) for need, runs in found.items())
        number = self._group.setdefault(group, len(self.groups))
        if number == len(self.groups):
            self.groups.append(group)
        if text is None:
            self._next[key] = number
        return number

    # ------------------------------------------------------------ the machine

    def start(self) -> Local:
        return (OPEN, self.first) if self.style.opened else (START,)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        found = self._moves.get(local)
        if found is None:
            found = self._moves[local] = self.work_out(local)
        return found

    def first_bytes(self, local: Local) -> Sequence[tuple[int, int]]:
        if local[0] != KEY or local[3] is None:
            return super().first_bytes(local)
        _, hub, state, _ = local
        end = self.keys.closing(state)
        return [*((low, high) for low, high, _ in self.keys.moves(state, self.allowed(hub))), (end, end)]

    def step(self, local: Local, byte: int) -> Local | None:
        if local[0] != KEY or local in self._moves:
            return super().step(local, byte)
        _, hub, state, text = local
        allowed = self.allowed(hub)
        if byte == self.keys.closing(state) and (marks := self.keys.marks(state) & allowed):
            group = self.group(hub, marks, text)
            return None if group is None else self.onward(COLON, VALUE, group, 0, self.style.colon)
        after = self.keys.step(state, byte, allowed)
        if after is None or text is None:
            return None if after is None else (KEY, hub, after, None)
        text = text + byte if byte in self.bytes_on(hub, text) else FORGOTTEN
        return (KEY, hub, after, text) if self.is_open(hub, after, text) else None

    def words(self, local: Local) -> Sequence[tuple[bytes, int]] | None:
        if local[0] != KEY or local[3] is not None:
            return None
        _, hub, (node, classes), _ = local
        if node < 0 or any(each is not None for each in classes):
            return None
        trie, found = self.keys.trie, list[tuple[bytes, int]]()
        for name in bits(trie.reach[node] & self.allowed(hub)):
            if not (spellings := trie.spellings(node, name)):
                return None
            found += [(text, name) for text in spellings]
        return found

    def after_word(self, local: Local, which: int) -> Local | None:
        group = self.group(local[1], 1 << which, None)
        return None if group is None else self.onward(COLON, VALUE, group, 0, self.style.colon)

    def work_out(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        """The moves, anew."""
        kind, *rest = local
        if kind == END:
            return ()
        if kind == START:
            return [(self.style.braces[0][0],) * 2 + ((OPEN, self.first),)]
        if kind == KEY:
            return self.in_name(*rest)
        found: list[tuple[int, int, Local]] = []
        comma, colon = self.style.comma, self.style.colon
        if kind == OPEN and self.allowed(rest[0]):
            found += self.names_at(rest[0])
        elif kind == AFTER and self.allowed(rest[0]):
            found.append((comma[0], comma[0], self.onward(COMMA, BEFORE, rest[0], 1, comma)))
        elif kind == COMMA:
            return [(comma[rest[1]],) * 2 + (self.onward(COMMA, BEFORE, rest[0], rest[1] + 1, comma),)]
        elif kind == BEFORE:
            found += self.names_at(rest[0])
        elif kind == COLON:
            found.append((colon[rest[1]],) * 2 + (self.onward(COLON, VALUE, rest[0], rest[1] + 1, colon),))
        if kind in (OPEN, AFTER) and self.done(rest[0]):
            end = self.ends_with[0]
            found.append((end, end, (END,)))
            found.sort(key=lambda move: move[0])
        if self.style.blank and (kind != COLON or not rest[1]):
            return with_blanks(found, local)
        return found

    def onward(self, kind: int, then: int, number: int, at: int, text: bytes) -> Local:
        """The state after ``at`` bytes of a text that stands between names and values, or after all of it."""
        return (kind, number, at) if at < len(text) else (then, number)

    def names_at(self, hub: int) -> Sequence[tuple[int, int, Local]]:
        """The moves on the first byte of a name, in any of the spellings."""
        found: list[tuple[int, int, Local]] = []
        for number, spelling in enumerate(self.style.spellings):
            if not spelling.opening:
                return self.in_name(*self.name(hub, number)[1:])
            found.append((spelling.opening[0],) * 2 + (self.name(hub, number),))
        return found

    def name(self, hub: int, spelling: int = 0) -> Local:
        """The state in which a name begins, written in the spelling of this number."""
        text = NameText(b"", spelling=self.style.spellings[spelling]) if self.tracks(hub) else None
        return (KEY, hub, self.keys.start(self.allowed(hub), spelling), text)

    def in_name(self, hub: int, state: Any, text: NameText | None) -> Sequence[tuple[int, int, Local]]:
        """The moves on the bytes of a name, and on the byte that closes it."""
        allowed, found = self.allowed(hub), list[tuple[int, int, Local]]()
        onward = self.bytes_on(hub, text)
        for low, high, to in self.keys.moves(state, allowed):
            if text is None or not onward:
                found.append((low, high, (KEY, hub, to, text and FORGOTTEN)))
                continue
            for byte in range(low, high + 1):
                after = text + byte if byte in onward else FORGOTTEN
                if self.is_open(hub, to, after):
                    found.append((byte, byte, (KEY, hub, to, after)))
        if marks := self.keys.marks(state) & allowed:
            group = self.group(hub, marks, text)
            if group is not None:
                end = self.keys.closing(state)
                found.append((end, end, self.onward(COLON, VALUE, group, 0, self.style.colon)))
                found.sort(key=lambda move: move[0])
        return found

    def is_open(self, hub: int, state: Any, text: NameText) -> bool:
        """Whether a name that begins so may be written."""
        allowed, node = self.allowed(hub), state[0]
        if text.data is None or (self.keys.trie.reach[node] if node >= 0 else 0) & allowed:
            return True
        if self.keys.free(state, allowed):
            return True
        return next(self.names_from(hub, state, text), None) is not None

    def names_from(self, hub: int, state: Any, text: NameText) -> Iterator[tuple[int, bytes]]:
        """The undeclared names that begin so and may be written: alternatives, and the rest of the name."""
        node, classes = state
        for i, local in enumerate(classes):
            bit = len(self.names) + i % self.keys.num_classes
            if local is None or not self.allowed(hub) >> bit & 1:
                continue
            for rest in self.keys.texts(i, local, node):
                if self.group(hub, 1 << bit, text.ending(rest)) is not None:
                    yield bit, rest
                    break

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if local[0] != VALUE:
            return ()
        found = self._calls.get(local[1])
        if found is None:
            found = self._calls[local[1]] = [
                (self.machines.machine(need), (AFTER, hub)) for need, hub in self.groups[local[1]]
            ]
        return found

    def reads(self, local: Local) -> bool:
        return bool(local[0] != END and (local[0] != VALUE or self.style.blank))

    def final(self, local: Local) -> bool:
        return bool(local[0] == END)

    def coarse(self, level: int) -> Machine:
        if not level:
            return self
        if level not in self._coarse:
            self._coarse[level] = CoarseObjects(self, level)
        return self._coarse[level]

    @cached_property
    def _coarse(self) -> dict[int, Machine]:
        return {}

    def divided(self) -> Machine:
        return self._divided

    def bounded(self, bounds: Bounds) -> Machine:
        return self._ways.within(bounds)

    @cached_property
    def _ways(self) -> Ways:
        from .bounded import Ways

        return Ways(self)

    def graph(self, most: int) -> Graph:
        from .object_graphs import object_graph

        return super().graph(most) if any(form.remembers for form in self.forms) else object_graph(self, most)

    def essential(self) -> Machine:
        return self._essential

    @cached_property
    def _divided(self) -> Machine:
        from .members_apart import MembersApart

        return MembersApart(self)

    @cached_property
    def _essential(self) -> Machine:
        from .members_apart import RequiredMembers

        return RequiredMembers(self)

    def to_come(self, local: Local) -> Sequence[ToCome]:
        from .members_apart import required_members

        return required_members(self, local)

    @cached_property
    def members(self) -> dict[Any, Any]:
        """Members as machines: see ``MembersApart``."""
        return {}

    @cached_property
    def apart(self) -> dict[int, tuple[Machine, Machine]]:
        """Members with what stands around them: see ``required_members``."""
        return {}

    # ------------------------------------------------------------ free text

    def body(self, local: Local) -> LocalBody | None:
        if local[0] != KEY or (local[3] is not None and not local[3].compared):
            return None
        _, hub, state, text = local
        found = self.keys.body(state, self.allowed(hub))
        if found is None or text is None or text.data is None:
            return found
        exceptions = set(found.exceptions) | self.bytes_on(hub, text)
        return found._replace(exceptions=bytes(sorted(exceptions)), within=False)

    def after_letters(self, local: Local, count: int) -> Local:
        _, hub, state, text = local
        return (KEY, hub, self.keys.after_letters(state, count), FORGOTTEN if text and count else text)

    def known(self, hub: int) -> frozenset[str]:
        """The names of members before that are remembered."""
        if hub not in self._known:
            names = [name for run in self.hubs[hub] for name in (*run.counted, *run.held)]
            self._known[hub] = frozenset(names) - {UNKNOWN}
        return self._known[hub]

    def bytes_on(self, hub: int, text: NameText | None) -> frozenset[int]:
        """The bytes of a name after which its text is still to be known."""
        if text is None or text.data is None:
            return frozenset()
        return onward(text.name, self.known(hub)) if text.compared else EVERY_BYTE

    def forgetful(self, local: Local) -> Local:
        if local[0] != KEY or local[3] is None or local[3].compared:
            return local
        _, hub, state, text = local
        compared = NameText(text.data, compared=True)
        kept = compared.name in self.known(hub) or self.bytes_on(hub, compared)
        return (KEY, hub, state, compared if kept else FORGOTTEN)

    def view(self, local: Local, reach: int) -> Any:
        if local[0] != KEY or (local[3] is not None and local[3].data is not None):
            return local
        return (KEY, local[1], self.keys.view(local[2], reach), local[3])

    @cached_property
    def involved(self) -> bool:
        """Whether what may come depends on more registers than the alternatives that are allowed."""
        return any(form.must or form.least for form in self.forms)

    def facts(self, hub: int, state: Any, prefixes: Prefixes) -> Hashable:
        """What a token can tell of a state of the names: by the ends of declared names that it can reach, or by the node, and by
        what the runs allow."""
        if (runs := self._runs.get(hub)) is None:
            runs = self._runs[hub] = [(run.form, self.forms[run.form].allowed(run)) for run in self.hubs[hub]]
        keys, node, classes = self.keys, state[0], -1 << len(self.names)
        if node >= 0 and not keys.free(state, self.allowed(hub)):
            classes |= keys.trie.reach[node]
            return node, tuple(sorted({(form, allowed & classes) for form, allowed in runs}))
        observed = [(0, -2 - node)] if node < -1 else keys.observed(node, prefixes) if node >= 0 else ()
        ends = [
            (at, frozenset([self.forms[form].needs[name] for form, allowed in runs if allowed >> name & 1]))
            for at, name in observed
        ]
        return frozenset(ends), tuple(sorted({(form, allowed & classes) for form, allowed in runs}))

    def after_member(self, hub: int) -> tuple[bool, bool]:
        """Whether the object may end, and whether another member may come."""
        return self.done(hub), self.allowed(hub) != 0

    def short(self, local: Local, prefixes: Any, reach: int) -> Any:
        kind = local[0]
        if kind == AFTER:
            return (AFTER, *self.after_member(local[1]))
        if kind in (START, END) or self.involved:
            return self.view(local, reach)
        if kind in (COLON, VALUE):
            ways = frozenset([(need, self.after_member(hub)) for need, hub in self.groups[local[1]]])
            return (kind, ways, *local[2:])
        hub = local[1]
        if kind == KEY:
            _, classes = self.keys.view(local[2], reach)
            return (KEY, classes, self.facts(hub, local[2], prefixes))
        starts = [self.keys.start(self.allowed(hub), i) for i in range(len(self.style.spellings))]
        facts: Hashable = tuple([self.facts(hub, state, prefixes) for state in starts])
        return (OPEN, self.done(hub), facts) if kind == OPEN else (kind, facts, *local[2:])

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Any:
        kind = local[0]
        if kind == AFTER:
            return "object", self.style, self.short(local, prefixes, reach)
        if kind not in (COLON, VALUE) or self.involved:
            return None
        meaning = self.machines.meaning
        ways = frozenset([(meaning(need), self.after_member(hub)) for need, hub in self.groups[local[1]]])
        return "object", self.style, ways, kind, local[2:]

    def alike(self, local: Local, prefixes: Any) -> Local:
        if local[0] != KEY or self.involved:
            return local
        return (KEY, local[1], self.keys.alike(local[2], self.allowed(local[1]), prefixes), local[3])

    def covers(self, origin: Local, local: Local) -> bool:
        return local[0] in COVERED[origin[0]] or (self.involved and origin[0] != AFTER)

    # ------------------------------------------------------------ short texts

    @cached_property
    def longest(self) -> int | None:  # type: ignore[override]
        """See ``Machine.longest``: the members that must come, and one more."""
        return None if self.involved else max(map(self.longest_of, self.forms), default=0)

    def longest_of(self, form: Form) -> int:
        """The same for the runs through one form."""
        look, around = self.machines.shortest, 10 + len(self.style.colon) + len(self.style.comma)
        must = one = 0
        for i in bits(form.live):
            size = len(self.spelled(i)) + len(look(form.needs[i]) or b"") + around
            one = max(one, size)
            must += size if form.required >> i & 1 else 0
        for each in form.possible:
            size = self.keys.longest(each.bit - len(self.names)) + len(look(each.need) or b"")
            one = max(one, size + around)
        return must + one + 2

    def shortest(self, look: Look) -> bytes | None:
        """A short text of an object, ``None`` if there is none."""
        found, opening = [], b"" if self.style.opened else self.style.braces[0]
        for i, form in enumerate(self.forms):
            run = Run(i, missing=frozenset(range(form.must)), places=(0,) * len(form.orders))
            text = self.rest(run, look, b"")
            if text is not None:
                found.append(opening + text)
        return min(found, key=len, default=None)

    def rest(self, run: Run, look: Look, comma: bytes) -> bytes | None:
        """The members to come and the end."""
        members = self.forms[run.form].shortest(run, look)
        if members is None:
            return None
        taken = set(run.counted | run.held)
        parts = []
        for bit, need in members:
            value = look(need)
            name = self.fresh(bit, taken)
            if value is None or name is None:
                return None
            parts.append(self.style.named(name) + value)
        return (comma if parts else b"") + self.style.comma.join(parts) + self.ends_with

    def fresh(self, bit: int, taken: set[str]) -> bytes | None:
        """A short name of an alternative that is not taken, and is from now on."""
        if bit < len(self.names):
            return self.spelled(bit)
        i = bit - len(self.names)
        first, spare = None, UNKNOWN in taken  # the name that is not known may be the first one here
        for text in self.keys.texts(i, self.keys.classes[i].start(), 0):
            if (name := self.style.spellings[0].read(text)) is not None and name not in taken:
                first = first or text
                if not spare:
                    taken.add(name)
                    return text
                spare = False
        return first

    def spelled(self, i: int) -> bytes:
        """A short text of a declared name, without quotes."""
        return self.style.spellings[0].plain(self.names[i])

    def after_hub(self, hub: int, comma: bytes) -> bytes:
        """A short end of the object from a hub."""
        if (text := self._ends.get((hub, comma))) is None:
            look = self.machines.shortest
            found = [text for run in self.hubs[hub] if (text := self.rest(run, look, comma)) is not None]
            text = self._ends[hub, comma] = min(found, key=len)
        return text

    def completion(self, local: Local) -> bytes:
        kind, *rest = local
        if kind == END:
            return b""
        if kind == START:
            return self.style.braces[0] + self.after_hub(self.first, b"")
        if kind in (OPEN, AFTER):
            return self.after_hub(rest[0], b"" if kind == OPEN else self.style.comma)
        if kind in (COMMA, BEFORE):
            comma = self.style.comma[rest[1] :] if kind == COMMA else b""
            opening = self.style.spellings[0].opening
            return comma + opening + self.rest_of_name(*self.name(rest[0])[1:])
        if kind == KEY:
            return self.rest_of_name(*rest)
        return (self.style.colon[rest[1] :] if kind == COLON else b"") + self.member(rest[0])

    def member(self, group: int) -> bytes:
        """A short value of a member, and a short end of the object after it."""
        if (text := self._short_members.get(group)) is None:
            found = []
            for need, hub in self.groups[group]:
                value = self.machines.shortest(need)
                assert value is not None
                found.append(value + self.after_hub(hub, self.style.comma))
            text = self._short_members[group] = min(found, key=len)
        return text

    def rest_of_name(self, hub: int, state: Any, text: NameText | None) -> bytes:
        """A short end of a name and of all that follows."""
        if text is None or text.data is None or not self.is_uncommon(hub, text):
            return self._rest_of_name(hub, state, text)
        if (hub, state) not in self._rests:
            self._rests[hub, state] = self._rest_of_name(hub, state, text)
        return self._rests[hub, state]

    def is_uncommon(self, hub: int, text: NameText) -> bool:
        """Whether a name that begins so is neither remembered nor one that short texts are made with."""
        if hub not in self._common:
            known = self.known(hub)
            need = 2 + len(known) + max([form.least + form.must for form in self.forms])
            names = set(known)
            for i, each in enumerate(self.keys.classes):
                which = i // self.keys.num_classes
                some = islice(self.keys.texts(i, each.start(), self.keys.trie.roots[which]), need)
                names.update(filter(None, map(self.style.spellings[which].read, some)))
            self._common[hub] = {name[:i] for name in names for i in range(len(name) + 1)}
        return text.name is not None and text.name not in self._common[hub]

    def _rest_of_name(self, hub: int, state: Any, text: NameText | None) -> bytes:
        node, classes = state
        allowed, closing = self.allowed(hub), bytes((self.keys.closing(state),))
        ways: list[tuple[bytes, int]] = []
        declared = (self.keys.trie.reach[node] if node >= 0 else 0) & allowed & (1 << len(self.names)) - 1
        required = 0
        for run in self.hubs[hub]:
            required |= self.forms[run.form].required & ~run.seen
        for i in list(bits(declared & required or declared))[:8]:
            ways.append((self.keys.trie.path(node, i), i))
        if text is not None:
            ways += [(rest, bit) for bit, rest in self.names_from(hub, state, text)]
        else:
            for i, local in enumerate(classes):
                bit = len(self.names) + i % self.keys.num_classes
                if local is not None and allowed >> bit & 1:
                    short = self.keys.first_text(i, local, node)
                    ways += [] if short is None else [(short, bit)]
        found = []
        for rest, bit in ways:
            group = self.group(hub, 1 << bit, None if text is None else text.ending(rest))
            assert group is not None
            found.append(rest + closing + self.style.colon + self.member(group))
        return min(found, key=len)


class CoarseObjects(ObjectMachine):
    """The members of an object machine's forms, without the registers: see :class:`~.coarse.CoarseForm`."""

    def __init__(self, exact: ObjectMachine, level: int) -> None:
        super().__init__(exact.machines, (), exact.style)
        self.names, self.classes = exact.names, exact.classes
        self.forms: list[Form] = [CoarseForm(form, keep_required=level == 1) for form in exact.forms]
