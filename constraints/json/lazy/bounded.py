"""Objects with finitely many states, for finite automata.

Members stand in any order, or as declared, or as declared with undeclared ones behind them. Names of undeclared members are not
remembered. JSON lets a name be written twice; the last one then counts. So undeclared members count as one for ``minProperties``.
After a member that must exist, no other follows that may have its name, unless that one would provide the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import product
from typing import Any

from ... import limits
from ...automata.machines import Choice
from ...automata.nfa import check_limit
from ...automata.region import Machine
from ...automata.work import spend
from ...limits import Bounds
from ...narrowing import Cut
from ..shapes import Need, Strings
from .members import Form, Other, Run, bits
from .objects import ObjectMachine
from .texts import shortened

LETTERS = 24
"""The room that undeclared names of one class take, in states."""
TWICE = "JSON lets a name be written twice, and then the last one counts"


class BoundedForm(Form):
    """A form that remembers no names.

    ``size`` of a run counts declared members, ``more`` undeclared ones; ``held``: the indices of the classes in ``possible`` that
    provide members that must exist.
    """

    def __init__(self, form: Form, classes: tuple[Strings, ...], ordered: bool, behind: bool) -> None:
        self.__dict__.update(form.__dict__)
        self.classes, self.last = classes, behind
        if ordered and not form.orders:
            self.put_in_order()

    @property
    def remembers(self) -> bool:
        """False: no names are remembered."""
        return False

    def tracks(self, run: Run) -> bool:
        """Return False: no names are remembered."""
        return False

    def total(self, run: Run) -> Run:
        """Return the run with undeclared members added to ``size``."""
        return run._replace(size=run.size + run.more)

    def allowed(self, run: Run) -> int:
        """Return the alternatives that may come next, as bits."""
        found = super().allowed(self.total(run)) & (1 << len(self.names)) - 1
        for each, _ in self.undeclared(run):
            found |= 1 << each.bit
        return found

    def done(self, run: Run) -> bool:
        """Return whether the object may end."""
        return super().done(run._replace(size=run.size + min(1, run.more)))

    def after(self, run: Run, mark: int, name: str | None) -> Iterator[tuple[Need, Run]]:
        """Yield the runs after a member, each with the need of its value."""
        if mark < len(self.names):
            yield from super().after(run, mark, name)
        else:
            yield from ((each.need, after) for each, after in self.undeclared(run) if each.bit == mark)

    def undeclared(self, run: Run) -> Iterator[tuple[Other, Run]]:
        """Yield the undeclared members that may come next, each with the run after it."""
        if self.last and self.required & ~run.seen:
            return
        held = [each for i, each in enumerate(self.possible) if i in run.held]
        sure = run.missing.union(*(other.does for other in held))
        after = run
        if self.counts:
            after = run._replace(more=1 if self.most is None else run.more + 1)
        if self.last:
            places = tuple(
                len(order) if at >= 0 else -1 for order, at in zip(self.orders, run.places, strict=True)
            )
            after = after._replace(seen=(1 << len(self.names)) - 1, places=places)
        for i, each in enumerate(self.possible):
            if not each.does <= sure or not self.has_room(self.total(run), each.does & run.missing):
                continue
            if all(other.does <= each.does or self.differ(other, each) for other in held):
                now = run.held | {i} if each.does else run.held
                yield each, after._replace(missing=run.missing - each.does, held=now)

    @property
    def excludes(self) -> bool:
        """Whether a member that must exist prevents another from following it."""
        pairs = product((each for each in self.possible if each.does), self.possible)
        return any(not one.does <= other.does and not self.differ(one, other) for one, other in pairs)

    def differ(self, a: Other, b: Other) -> bool:
        """Return whether undeclared members of two classes never have the same name."""
        one, other = (self.classes[each.bit - len(self.names)] for each in (a, b))
        return one.meet(other) is None


class BoundedObjects(ObjectMachine):
    """An object machine with finitely many states, which reads at most the same texts.
    ``ordered``: members come as declared. ``behind``: undeclared ones come after the others."""

    def __init__(
        self, whole: ObjectMachine, classes: tuple[Strings, ...], ordered: bool, behind: bool
    ) -> None:
        super().__init__(whole.machines, (), whole.style)
        self.names, self.classes, self.ordered, self.behind = whole.names, classes, ordered, behind
        if classes == whole.classes:
            self.keys = whole.keys
        forms = [BoundedForm(f, whole.classes, ordered, behind) for f in whole.forms]
        self.forms: list[Form] = [*forms]
        self.is_exact = self.classes == whole.classes and not any(form.remembers for form in whole.forms)
        self.cuts = tuple(self.lacking(whole, forms))

    def bounded(self, bounds: Bounds) -> Machine:
        return self

    @property
    def few(self) -> int:
        """The room of all forms together up to which they are simulated together, not one by one."""
        return max(1_500, 8 * sum(form.live.bit_count() + LETTERS for form in self.forms))

    @cached_property
    def form_by_form(self) -> Choice:
        """The objects of each form by a machine of its own."""
        options = [FormObjects(self, form) for form in self.forms]
        if isinstance(self.unindented, BoundedObjects):
            for option, unindented in zip(options, self.unindented.form_by_form.options, strict=True):
                option.unindented = unindented
        found = Choice(options)
        found.cuts = self.cuts  # type: ignore[attr-defined]
        return found

    def lacking(self, whole: ObjectMachine, forms: list[BoundedForm]) -> Iterator[Cut]:
        """Yield what the machine lacks of the whole machine."""
        ordered = whole.machines.order == "declared"
        if self.ordered > ordered or self.behind:
            asked = "undeclared members anywhere" if ordered else "members in any order"
            given = "undeclared members behind the others" if self.behind else "the declared order"
            given = given if ordered or not self.behind else f"the declared order, {given}"
            yield Cut("properties", asked, given, "the automaton remembers each set of members")
        for kind, cut in zip(whole.classes, self.classes, strict=True):
            if kind != cut:
                yield Cut("propertyNames", kind.most, cut.most, "an automaton of all of it would be large")
        for form in forms:
            if form.others and form.least > form.required.bit_count() + 1:
                yield Cut("minProperties", form.least, "undeclared members count as one", TWICE)
            if form.must and form.excludes:
                asked = "undeclared members that must exist, anywhere"
                given = "one of them, and no other behind it that may have its name"
                yield Cut("additionalProperties", asked, given, TWICE)

    def fits(self, room: int) -> bool:
        """Return whether the states of the machine fit into ``room``.
        They are estimated: one for each member, need and subset after it, and ``LETTERS`` for undeclared names."""
        if room > self._searched:
            self._searched, self._room = room, self.taken(room)
        return self._room <= room

    _searched = -1
    _room = 0

    def taken(self, most: int) -> int:
        """Return the estimated states, or some number above ``most``."""
        for form in self.forms:
            members = form.live.bit_count()
            if not form.orders and form.most is None and members and members << members > 2 * most:
                return most + 1
        subsets, found, taken = [self.first], set[tuple[int, Need, int]](), 0
        seen = set(subsets)
        for subset in subsets:
            for mark in bits(self.allowed(subset)):
                kind, group = max(0, mark + 1 - len(self.names)), self.group(subset, 1 << mark, None)
                for need, after in () if group is None else self.groups[group]:
                    if (kind, need, after) not in found:
                        found.add((kind, need, after))
                        taken += LETTERS if kind else 1
                    if after not in seen:
                        seen.add(after)
                        subsets.append(after)
            spend(5 * self.allowed(subset).bit_count())
            if taken > most:
                break
        return taken


class FormObjects(BoundedObjects):
    """The objects of one form of a bounded machine."""

    def __init__(self, whole: BoundedObjects, form: Form) -> None:
        ObjectMachine.__init__(self, whole.machines, (), whole.style)
        self.names, self.classes, self.keys = whole.names, whole.classes, whole.keys
        self.forms = [form]


class Ways:
    """The bounded machines of one object machine, those with fewer restrictions on order first.
    Each is made once."""

    def __init__(self, whole: ObjectMachine) -> None:
        self.whole = whole
        ways = {"any": WAYS[:1], "declared": WAYS[1:]}.get(whole.machines.order, WAYS)
        self.order = (
            ways if any(form.others for form in whole.forms) else ways[:2] if ways is WAYS else ways[:1]
        )
        self._made: dict[tuple[tuple[Strings, ...], bool, bool], BoundedObjects] = {}

    def made(self, *way: Any) -> BoundedObjects:
        """Return the machine with these classes of names; ``ordered``, ``behind`` as in :data:`WAYS`."""
        if way not in self._made:
            found = self._made[way] = BoundedObjects(self.whole, *way)
            if isinstance(self.whole.unindented, ObjectMachine):
                found.unindented = self.whole.unindented._ways.made(*way)
        return self._made[way]

    def within(self, bounds: Bounds) -> Machine:
        """Return the machine with the fewest restrictions for which there is room, or else the last.
        Raises ``TooManyStates`` if the names alone are too many."""
        check_limit(len(self.whole.keys.trie.children), limits.STATES)
        classes = tuple([shortened(kind, bounds.length) for kind in self.whole.classes])
        for ordered, behind in self.order:
            found = self.made(classes, ordered, behind)
            if (ordered, behind) == self.order[-1] or found.fits(bounds.room):
                break
        if len(found.forms) > 1 and not found.fits(found.few):
            return found.form_by_form
        return self.whole if found.is_exact and not found.cuts else found


WAYS = ((False, False), (True, False), (True, True))
"""(``ordered``: members stand as declared, ``behind``: undeclared ones come after the others)."""
