"""Objects as machines: all forms of one need are simulated together, by subset construction.

A *subset* is the set of runs that the text read so far may have led to. Between members the registers are those of the runs;
within a name the state of the :class:`~.keys.Keys` comes in addition. A *group* lists the needs that the value of a member may
satisfy, each with the subset after it. Subsets and groups are numbered.

    {  subset  "name  :  group  value  subset  ,  subset  "name …  }
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...automata.graphs import Graph
from ...automata.region import Local, LocalBody, Machine, Region, ToCome
from ...automata.sharing import Prefixes
from ...limits import Bounds
from ..shapes import Need
from ..shapes import Objects as Shape
from ..text import Style
from .arrays import COARSE_DEPTH
from .blanks import with_blanks
from .coarse import CoarseForm
from .keys import Keys
from .members import Form, Run, bits
from .name_text import EVERY_BYTE, FORGOTTEN, NO_NAMES, NameText, bytes_to
from .object_kinds import AFTER, BEFORE, COLON, COMMA, COVERED, END, KEY, OPEN, START, TRAIL, VALUE
from .object_texts import ShortObjects
from .settle import forms

if TYPE_CHECKING:
    from .bounded import Ways
    from .object_variants import Variants
    from .values import Machines


class ObjectMachine(Region):
    """The texts of the objects of some shapes.
    ``machines``: those of the values of members. ``style``: how the objects are written, if not as these values."""

    covers_all = False
    ends_with: bytes

    def __init__(self, machines: Machines, shapes: Sequence[Shape], style: Style | None = None) -> None:
        self.machines, self.style = machines, style or machines.style
        self.ends_with = self.style.braces[1]
        self.names, self.forms, classes = forms(machines, shapes)
        self.classes = tuple(classes)
        self.texts = ShortObjects(self)
        self.shortest = self.texts.shortest  # no wrapper: schemas nest deep, a call adds a frame
        self.runs: list[Run] = []
        self.subsets: list[frozenset[Run]] = []
        self.groups: list[tuple[tuple[Need, int], ...]] = []
        self._subset: dict[frozenset[Run], int] = {}
        self._group: dict[tuple[tuple[Need, int], ...], int] = {}
        self._allowed: dict[int, int] = {}
        self._in_run: dict[Run, int] = {}
        self._moves: dict[Local, Sequence[tuple[int, int, Local]]] = {}
        self._calls: dict[int, Sequence[tuple[Machine, Local]]] = {}
        self._next: dict[tuple[int, int, NameText | None], int | None] = {}
        self._runs: dict[int, list[tuple[int, int]]] = {}
        self._known: dict[int, frozenset[str]] = {}

    @cached_property
    def keys(self) -> Keys:
        """The automaton of the names."""
        return Keys(self.names, self.classes, self.style.spellings)

    @cached_property
    def first(self) -> int:
        """The subset before the first member."""
        return self.subset([run for i, form in enumerate(self.forms) if (run := form.start(i)) is not None])

    # ------------------------------------------------------------ subsets and groups

    def subset(self, runs: Iterable[Run]) -> int:
        """Return the number of a set of runs."""
        key = frozenset(runs)
        if key not in self._subset:
            self._subset[key] = len(self.subsets)
            self.subsets.append(key)
        return self._subset[key]

    def allowed(self, subset: int) -> int:
        """Return the alternatives that may come next, as bits."""
        if subset not in self._allowed:
            found = 0
            for run in self.subsets[subset]:
                found |= self.allowed_in(run)
            self._allowed[subset] = found
        return self._allowed[subset]

    def allowed_in(self, run: Run) -> int:
        """Return the alternatives that may come next in one run, as bits."""
        found = self._in_run.get(run)
        if found is None:
            found = self._in_run[run] = self.forms[run.form].allowed(run)
        return found

    def done(self, subset: int) -> bool:
        """Return whether the object may end."""
        return any(self.forms[run.form].done(run) for run in self.subsets[subset])

    def tracks(self, subset: int) -> bool:
        """Return whether the text of the next name matters."""
        return any(self.forms[run.form].tracks(run) for run in self.subsets[subset])

    def group(self, subset: int, marks: int, text: NameText | None) -> int | None:
        """Return the number of the group after a name that belongs to the alternatives ``marks``.
        ``text``: that of the name, if it matters. Return ``None`` if the name may not be written."""
        key = (subset, marks, text) if text is None or text.data is None else None
        if key is not None and key in self._next:
            return self._next[key]
        name = None if text is None or marks & (1 << len(self.names)) - 1 else text.name
        found: dict[Need, list[Run]] = {}
        for run in self.subsets[subset]:
            form = self.forms[run.form]
            for mark in bits(self.allowed_in(run) & marks):
                for need, after in form.after(run, mark, name):
                    found.setdefault(need, []).append(after)
        number = None
        if found:
            group = tuple((need, self.subset(runs)) for need, runs in found.items())
            number = self._group.setdefault(group, len(self.groups))
            if number == len(self.groups):
                self.groups.append(group)
        if key is not None:
            self._next[key] = number
        return number

    # ------------------------------------------------------------ the machine

    def start(self) -> Local:
        return (START,)

    def moves(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        found = self._moves.get(local)
        if found is None:
            found = self._moves[local] = self.work_out(local)
        return found

    def first_bytes(self, local: Local) -> Sequence[tuple[int, int]]:
        if local[0] != KEY or local[3] is None:
            return super().first_bytes(local)
        _, subset, state, _ = local
        end = self.keys.closing(state)
        return [*((low, high) for low, high, _ in self.keys.moves(state, self.allowed(subset))), (end, end)]

    def step(self, local: Local, byte: int) -> Local | None:
        if local[0] != KEY or local in self._moves:
            return super().step(local, byte)
        _, subset, state, text = local
        allowed = self.allowed(subset)
        if byte == self.keys.closing(state) and (marks := self.keys.marks(state) & allowed):
            group = self.group(subset, marks, text)
            return None if group is None else self.onward(COLON, VALUE, group, 0, self.style.colon)
        after = self.keys.step(state, byte, allowed)
        if after is None or text is None:
            return None if after is None else (KEY, subset, after, None)
        text = text + byte if byte in self.bytes_on(subset, text) else self.forgotten(text, byte)
        return (KEY, subset, after, text) if self.is_open(subset, after, text) else None

    def words(self, local: Local) -> Sequence[tuple[bytes, int]] | None:
        if local[0] != KEY or local[3] is not None:
            return None
        _, subset, (node, classes), _ = local
        if node < 0 or any(each is not None for each in classes):
            return None
        trie, found = self.keys.trie, list[tuple[bytes, int]]()
        for name in bits(trie.reach[node] & self.allowed(subset)):
            if not (spellings := trie.spellings(node, name)):
                return None
            found += [(text, name) for text in spellings]
        return found

    def after_word(self, local: Local, which: int) -> Local | None:
        group = self.group(local[1], 1 << which, None)
        return None if group is None else self.onward(COLON, VALUE, group, 0, self.style.colon)

    def work_out(self, local: Local) -> Sequence[tuple[int, int, Local]]:
        """Compute the moves of a local state."""
        kind, *rest = local
        if kind == END:
            return ()
        if kind == START:
            return [(self.style.braces[0][0],) * 2 + ((OPEN, self.first),)]
        if kind == KEY:
            return self.in_name(*rest)
        found: list[tuple[int, int, Local]] = []
        comma, colon, lead = self.style.comma, self.style.colon, self.style.lead
        if kind == TRAIL:
            return [self.trailing(rest[0])]
        if kind == OPEN and self.allowed(rest[0]):
            after = self.onward(COMMA, BEFORE, rest[0], self.style.to_lead + 1, comma)
            found += [(lead[0], lead[0], after)] if lead else self.names_at(rest[0])
        elif kind == AFTER and self.allowed(rest[0]):
            found.append((comma[0], comma[0], self.onward(COMMA, BEFORE, rest[0], 1, comma)))
        elif kind == COMMA:
            return [(comma[rest[1]],) * 2 + (self.onward(COMMA, BEFORE, rest[0], rest[1] + 1, comma),)]
        elif kind == BEFORE:
            found += self.names_at(rest[0])
        elif kind == COLON:
            found.append((colon[rest[1]],) * 2 + (self.onward(COLON, VALUE, rest[0], rest[1] + 1, colon),))
        if kind in (OPEN, AFTER) and self.done(rest[0]):
            found.append(self.trailing(0 if kind == AFTER else len(self.style.trail)))
            found.sort(key=lambda move: move[0])
        if self.style.blank and (kind != COLON or not rest[1]):
            return with_blanks(found, local)
        return found

    def trailing(self, at: int) -> tuple[int, int, Local]:
        """Return the move on byte ``at`` of the text before the closing bracket, or on the bracket."""
        trail, end = self.style.trail, self.ends_with[0]
        return (trail[at],) * 2 + ((TRAIL, at + 1),) if at < len(trail) else (end, end, (END,))

    def onward(self, kind: int, then: int, number: int, at: int, text: bytes) -> Local:
        """Return the state after ``at`` bytes of a separator (``kind``), or (``then``) after all of it."""
        return (kind, number, at) if at < len(text) else (then, number)

    def names_at(self, subset: int) -> Sequence[tuple[int, int, Local]]:
        """Return the moves on the first byte of a name, in any of the spellings."""
        found: list[tuple[int, int, Local]] = []
        for number, spelling in enumerate(self.style.spellings):
            if not spelling.opening:
                return self.in_name(*self.name(subset, number)[1:])
            found.append((spelling.opening[0],) * 2 + (self.name(subset, number),))
        return found

    def name(self, subset: int, spelling: int = 0) -> Local:
        """Return the state at the beginning of a name, in the spelling of this number."""
        text = NameText(b"", spelling=self.style.spellings[spelling]) if self.tracks(subset) else None
        return (KEY, subset, self.keys.start(self.allowed(subset), spelling), text)

    def in_name(self, subset: int, state: Any, text: NameText | None) -> Sequence[tuple[int, int, Local]]:
        """Return the moves on the bytes of a name, and on the byte that closes it."""
        allowed, found = self.allowed(subset), list[tuple[int, int, Local]]()
        onward = self.bytes_on(subset, text)
        near = frozenset[int]() if text is None else self.bytes_to_known(subset, text)
        for low, high, to in self.keys.moves(state, allowed):
            if text is None or not (onward or text.data == b""):
                found.append((low, high, (KEY, subset, to, text and self.forgotten(text))))
                continue
            is_open = self.has_new_name(subset, to)
            for byte in range(low, high + 1):
                after = text + byte if byte in onward else self.forgotten(text, byte)
                if (is_open and byte not in near) or self.is_open(subset, to, after):
                    found.append((byte, byte, (KEY, subset, to, after)))
        if marks := self.keys.marks(state) & allowed:
            group = self.group(subset, marks, text)
            if group is not None:
                end = self.keys.closing(state)
                found.append((end, end, self.onward(COLON, VALUE, group, 0, self.style.colon)))
                found.sort(key=lambda move: move[0])
        return found

    def is_open(self, subset: int, state: Any, text: NameText) -> bool:
        """Return whether some name that may be written begins with this text."""
        allowed, node = self.allowed(subset), state[0]
        if text.data is None or (self.keys.trie.reach[node] if node >= 0 else 0) & allowed:
            return True
        if self.keys.free(state, allowed):
            return True
        return next(self.names_from(subset, state, text), None) is not None

    def has_new_name(self, subset: int, state: Any) -> bool:
        """Return whether an undeclared name may go on from here, if no earlier member has it."""
        node, classes = state
        for i, local in enumerate(classes):
            mark = 1 << len(self.names) + i % self.keys.num_classes
            if (
                local is None
                or not self.allowed(subset) & mark
                or self.group(subset, mark, FORGOTTEN) is None
            ):
                continue
            if self.keys.first_text(i, local, node) is not None:
                return True
        return False

    def names_from(self, subset: int, state: Any, text: NameText) -> Iterator[tuple[int, bytes]]:
        """Yield undeclared names that may go on from here, one for each class: (bit, rest of it)."""
        node, classes = state
        for i, local in enumerate(classes):
            bit = len(self.names) + i % self.keys.num_classes
            if local is None or not self.allowed(subset) >> bit & 1:
                continue
            for rest in self.keys.texts(i, local, node):
                if self.group(subset, 1 << bit, text.ending(rest)) is not None:
                    yield bit, rest
                    break

    def calls(self, local: Local) -> Sequence[tuple[Machine, Local]]:
        if local[0] != VALUE:
            return ()
        found = self._calls.get(local[1])
        if found is None:
            found = self._calls[local[1]] = [
                (self.machines.machine(need), (AFTER, subset)) for need, subset in self.groups[local[1]]
            ]
        return found

    def reads(self, local: Local) -> bool:
        return bool(local[0] != END and (local[0] != VALUE or self.style.blank))

    def final(self, local: Local) -> bool:
        return bool(local[0] == END)

    def coarse(self, level: int) -> Machine:
        if not level:
            return self
        if self.unindented is not None and self.style.depth >= COARSE_DEPTH:
            return self.unindented.coarse(level)
        if level not in self._coarse:
            self._coarse[level] = CoarseObjects(self, level)
        return self._coarse[level]

    @cached_property
    def _coarse(self) -> dict[int, Machine]:
        return {}

    def divided(self) -> Machine:
        return self._variants.divided

    def forgetting(self, repeats: bool) -> Machine:
        if not any(form.remembers for form in self.forms):
            return self._variants.divided
        return self._variants.repeating if repeats else self._variants.by_first_byte

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
        return self._variants.essential

    @cached_property
    def _variants(self) -> Variants:
        from .object_variants import variants

        return variants(self)

    def to_come(self, local: Local) -> Sequence[ToCome]:
        from .members_apart import required_members

        return required_members(self, local)

    @cached_property
    def members(self) -> dict[Any, Any]:
        """Members as machines, by alternative and need: see ``MembersApart``."""
        return {}

    @cached_property
    def apart(self) -> dict[int, tuple[Machine, Machine]]:
        """Members with their separators as machines, by alternative: see ``required_members``."""
        return {}

    # ------------------------------------------------------------ free text

    def body(self, local: Local) -> LocalBody | None:
        if local[0] != KEY or (local[3] is not None and not local[3].compared):
            return None
        _, subset, state, text = local
        found = self.keys.body(state, self.allowed(subset))
        if found is None or text is None or text.data is None:
            return found
        exceptions = set(found.exceptions) | self.bytes_on(subset, text)
        return found._replace(exceptions=bytes(sorted(exceptions)), within=False)

    def after_letters(self, local: Local, count: int) -> Local:
        _, subset, state, text = local
        text = self.forgotten(text) if text and count else text
        return (KEY, subset, self.keys.after_letters(state, count), text)

    def known(self, subset: int) -> frozenset[str]:
        """Return the names of earlier members that are remembered."""
        if subset not in self._known:
            names = [name for run in self.subsets[subset] for name in (*run.counted, *run.held)]
            self._known[subset] = frozenset(names) - NO_NAMES
        return self._known[subset]

    def bytes_on(self, subset: int, text: NameText | None) -> frozenset[int]:
        """Return the bytes of a name after which its text must still be remembered."""
        if text is None or text.data is None:
            return frozenset()
        return self.bytes_to_known(subset, text) if text.compared else EVERY_BYTE

    def bytes_to_known(self, subset: int, text: NameText) -> frozenset[int]:
        """Return the next bytes of a name that can still become the name of an earlier member."""
        if text.data is None:
            return frozenset()
        return bytes_to(text.data, text.spelling, self.known(subset))

    def forgetful(self, local: Local) -> Local:
        if local[0] != KEY or local[3] is None or local[3].compared:
            return local
        _, subset, state, text = local
        compared = text._replace(compared=True)
        kept = compared.name in self.known(subset) or self.bytes_on(subset, compared)
        return (KEY, subset, state, compared if kept else self.forgotten(compared))

    def forgotten(self, text: NameText, byte: int | None = None) -> NameText:
        """Return what is kept of a name's text that need not be remembered.
        ``byte``: the one that follows the text."""
        return FORGOTTEN

    def view(self, local: Local, reach: int) -> Any:
        if local[0] != KEY or (local[3] is not None and local[3].data is not None):
            return local
        return (KEY, local[1], self.keys.view(local[2], reach), local[3])

    @cached_property
    def involved(self) -> bool:
        """Whether later members depend on more registers than the set of allowed alternatives."""
        return any(form.must or form.least for form in self.forms)

    def facts(self, subset: int, state: Any, prefixes: Prefixes) -> Hashable:
        """Return a key of what a token can find out about a state within a name.

        It has what the runs allow, and the declared names that a token can complete, or the trie node if no free text may follow.
        """
        if (runs := self._runs.get(subset)) is None:
            runs = self._runs[subset] = [
                (run.form, self.forms[run.form].allowed(run)) for run in self.subsets[subset]
            ]
        keys, node, classes = self.keys, state[0], -1 << len(self.names)
        if node >= 0 and not keys.free(state, self.allowed(subset)):
            classes |= keys.trie.reach[node]
            return node, tuple(sorted({(form, allowed & classes) for form, allowed in runs}))
        observed = [(0, -2 - node)] if node < -1 else keys.observed(node, prefixes) if node >= 0 else ()
        ends = [
            (at, frozenset([self.forms[form].needs[name] for form, allowed in runs if allowed >> name & 1]))
            for at, name in observed
        ]
        return frozenset(ends), tuple(sorted({(form, allowed & classes) for form, allowed in runs}))

    def after_member(self, subset: int) -> tuple[bool, bool]:
        """Return whether the object may end, and whether another member may come."""
        return self.done(subset), self.allowed(subset) != 0

    def short(self, local: Local, prefixes: Any, reach: int) -> Any:
        kind = local[0]
        if kind == AFTER:
            return (AFTER, *self.after_member(local[1]))
        if kind in (START, TRAIL, END) or self.involved:
            return self.view(local, reach)
        if kind in (COLON, VALUE):
            ways = frozenset([(need, self.after_member(subset)) for need, subset in self.groups[local[1]]])
            return (kind, ways, *local[2:])
        subset = local[1]
        if kind == KEY:
            _, classes = self.keys.view(local[2], reach)
            return (KEY, classes, self.facts(subset, local[2], prefixes))
        starts = [self.keys.start(self.allowed(subset), i) for i in range(len(self.style.spellings))]
        facts: Hashable = tuple([self.facts(subset, state, prefixes) for state in starts])
        return (OPEN, self.done(subset), facts) if kind == OPEN else (kind, facts, *local[2:])

    def frame_key(self, local: Local, prefixes: Any, reach: int) -> Any:
        kind = local[0]
        if kind == AFTER:
            return "object", self.style, self.short(local, prefixes, reach)
        if self.involved or kind in (START, TRAIL, END):
            return None
        if kind in (COLON, VALUE):
            meaning = self.machines.meaning
            ways = frozenset(
                [(meaning(need), self.after_member(subset)) for need, subset in self.groups[local[1]]]
            )
            return "object", self.style, ways, kind, local[2:]
        if kind == KEY:
            found = self.name_key(local, prefixes, reach)
            return found and ("object", self.style, kind, found)
        found = self.name_key(self.name(local[1]), prefixes, reach)
        end = kind == OPEN and self.done(local[1])
        return found and ("object", self.style, kind, found, end, local[2:])

    def name_key(self, local: Local, prefixes: Prefixes, reach: int) -> Hashable | None:
        """Return a key of what a token can read within a name and in the value after it, across machines.

        ``None`` unless any undeclared name may follow and its text does not matter.
        """
        _, subset, state, text = local
        keys, allowed, (node, classes) = self.keys, self.allowed(subset), state
        if text is not None or len(keys.classes) > 1 or not keys.free(state, allowed):
            return None
        ends = [(0, -2 - node)] if node < -1 else keys.observed(node, prefixes) if node >= 0 else ()
        ways = [(at, self.meanings(subset, 1 << name)) for at, name in ends]
        return frozenset(ways), self.meanings(subset, keys.bits[0]), keys.classes[0].view(classes[0], reach)

    def meanings(self, subset: int, mark: int) -> Hashable:
        """Return a key of the values that may follow a name of one alternative."""
        group = self.group(subset, mark, None)
        needs = () if group is None else self.groups[group]
        return frozenset([self.machines.meaning(need) for need, _ in needs])

    def alike(self, local: Local, prefixes: Any) -> Local:
        if local[0] != KEY or self.involved:
            return local
        return (KEY, local[1], self.keys.alike(local[2], self.allowed(local[1]), prefixes), local[3])

    def covers(self, origin: Local, local: Local) -> bool:
        return local[0] in COVERED[origin[0]] or (self.involved and origin[0] != AFTER)

    # ------------------------------------------------------------ short texts

    @cached_property
    def longest(self) -> int | None:  # type: ignore[override]
        """See ``Machine.longest``."""
        return self.texts.longest()

    def completion(self, local: Local) -> bytes:
        return self.texts.completion(local)


class CoarseObjects(ObjectMachine):
    """An object machine without its registers, which reads at least the same texts.
    See :class:`~.coarse.CoarseForm`."""

    def __init__(self, exact: ObjectMachine, level: int) -> None:
        super().__init__(exact.machines, (), exact.style)
        self.names, self.classes = exact.names, exact.classes
        self.forms: list[Form] = [CoarseForm(form, keep_required=level == 1) for form in exact.forms]
