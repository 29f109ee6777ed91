"""Which members an object may still have: registers over one shape of objects.

A :class:`Form` is an object shape with its conditions resolved name by name. A :class:`Run` is a state of a form. It holds the
registers: the set of declared members seen, the number of members, the members that must exist and are still missing, and the
names that must not be written again.

    may come = required, not seen                                   always
             ∪ optional, not seen ∪ undeclared                      if a place is left after the required ones

JSON lets a name be written twice; the last one then counts. A declared member is never written twice. Undeclared ones may be,
unless their number matters or one of them must exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, combinations
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import objects
from ..counted_patterns import pattern_shapes
from ..shapes import NEVER, Need, Objects, Strings
from .name_text import UNKNOWN

if TYPE_CHECKING:
    from .values import Look, Machines

ALL_SETS = 4
"""The most members that must exist for which an undeclared member may provide any set of them."""
EMPTY: frozenset[str] = frozenset()


class Run(NamedTuple):
    """The registers of a form.

    ``form``: its index. ``seen``: the declared members seen (in an order: those that can come no more), as bits. ``size``: the
    number of members, as far as it matters. ``missing``: the members that must exist (indices) and that no undeclared member has
    provided yet. ``places``: by order, the number of its members passed, −1 if the order is broken. ``counted``, ``held``: names
    that must not be written again, since they count towards ``least`` or provide members that must exist. ``more``: the number of
    undeclared members, where their names are not remembered.
    """

    form: int
    seen: int = 0
    size: int = 0
    missing: frozenset[int] = frozenset()
    places: tuple[int, ...] = ()
    counted: frozenset[str] = EMPTY
    held: frozenset[Any] = EMPTY
    more: int = 0


class Other(NamedTuple):
    """A class of undeclared members.

    Its bit, the need of its values, the members that must exist (indices) that such a member provides, and the patterns that its
    names match.
    """

    bit: int
    need: Need
    does: frozenset[int] = frozenset()
    patterns: tuple[str, ...] = ()


class Form:
    """An object shape with its conditions resolved name by name.
    Alternatives are bits, as in :class:`~.keys.Keys`."""

    def __init__(
        self,
        machines: Machines,
        shape: Objects,
        some: Sequence[objects.Some],
        names: tuple[str, ...],
        classes: dict[Strings, int],
        orders: bool,
    ) -> None:
        self.machines, self.names, self.shape = machines, names, shape
        self.least, self.most = shape.least, shape.most
        self.needs = [
            objects.need_of(shape, name, machines.names)
            if all(map(machines.style.spellings[0].ways, name))
            else NEVER
            for name in names
        ]
        number = {name: i for i, name in enumerate(names)}
        self.required = sum(1 << number[name] for name in shape.required)
        kinds = objects.kinds(shape, frozenset(names), machines.names)
        self.must = len(some)

        def other(kind: Strings, need: Need, does: Sequence[int] = ()) -> Other:
            written = Strings(kind.least, kind.most, kind.atoms)
            patterns = tuple(
                p for p, _ in shape.patterns if all(s.atoms <= kind.atoms for s in pattern_shapes(p, True))
            )
            return Other(
                classes.setdefault(written, len(classes)) + len(names), need, frozenset(does), patterns
            )

        self.others = [other(kind, need) for kind, need in kinds]
        sizes = range(1, len(some) + 1) if len(some) <= ALL_SETS else (1, len(some))
        for size in sizes:
            for does in combinations(range(len(some)), size):
                found = objects.witnesses(kinds, [some[i] for i in does], machines.names)
                self.others += [other(kind, need, does) for kind, need in found]
        self.orders: tuple[tuple[int, ...], ...] = ()
        if orders:
            self.put_in_order()
        if not self.must and self.least <= self.required.bit_count():
            self.least = 0
        self.counts = self.least > 0 or self.most is not None

    def put_in_order(self) -> None:
        """Allow the declared members only in the orders of the shape."""
        self.orders = objects.orders(list(self.names), self.shape)
        self.place = [{i: p for p, i in enumerate(order)} for order in self.orders]
        self.ahead = [[0, *accumulate((1 << i for i in reversed(order)), or_)][::-1] for order in self.orders]
        self.stops = list(map(self.stops_of, self.orders))

    def stops_of(self, order: Sequence[int]) -> list[int]:
        """Return, by place in an order, the place after the next required member, or the end."""
        found = [len(order)]
        for place, i in reversed(list(enumerate(order))):
            found.append(place + 1 if self.required >> i & 1 else found[-1])
        return found[::-1]

    # ------------------------------------------------------------ what there is

    @cached_property
    def live(self) -> int:
        """The declared members whose need some value satisfies, as bits."""
        return sum(
            1 << i for i, need in enumerate(self.needs) if need != NEVER and not self.machines.is_empty(need)
        )

    @cached_property
    def possible(self) -> list[Other]:
        """The classes of undeclared members whose need some value satisfies."""
        return [each for each in self.others if not self.machines.is_empty(each.need)]

    @cached_property
    def free(self) -> int:
        """The classes of undeclared members that provide none of those that must exist, as bits."""
        return sum({1 << each.bit for each in self.possible if not each.does})

    def fewest(self, missing: frozenset[int]) -> int | None:
        """Return the fewest undeclared members that provide all of these, ``None`` if impossible."""
        if not missing:
            return 0
        if missing not in self._fewest:
            self._fewest[missing] = None
            some = {each.does & missing for each in self.possible if each.does & missing}
            found = [n for does in some if (n := self.fewest(missing - does)) is not None]
            self._fewest[missing] = min(found) + 1 if found else None
        return self._fewest[missing]

    @cached_property
    def _fewest(self) -> dict[frozenset[int], int | None]:
        return {}

    def start(self, number: int) -> Run | None:
        """Return the run before the first member, ``None`` if no object has the shape."""
        missing = frozenset(range(self.must))
        if self.required & ~self.live or (witnesses := self.fewest(missing)) is None:
            return None
        sure = self.required.bit_count() + witnesses
        if self.most is not None and max(sure, self.least) > self.most:
            return None
        if self.least > self.live.bit_count() and not self.possible:
            return None
        return Run(number, missing=missing, places=(0,) * len(self.orders))

    # ------------------------------------------------------------ what may come next

    def allowed(self, run: Run) -> int:
        """Return the alternatives that may come next, as bits."""
        required = self.required & ~run.seen
        fewest = self.fewest(run.missing) or 0
        room: float = float("inf")
        if self.most is not None:
            room = self.most - run.size - required.bit_count() - fewest
        found = required
        if room > 0:
            found |= (self.live & ~run.seen) | self.free
        if run.missing:
            for each in self.possible:
                after = run.missing - each.does
                if each.does and each.does <= run.missing and room + fewest - (self.fewest(after) or 0) > 0:
                    found |= 1 << each.bit
        if self.orders:
            declared = (1 << len(self.names)) - 1
            found = found & ~declared | found & self.in_order(run)
        return found

    def in_order(self, run: Run) -> int:
        """Return the declared members that may come next in some order, as bits."""
        found = 0
        for behind, ahead, stops in zip(run.places, self.ahead, self.stops, strict=True):
            if behind < 0:
                continue
            end = stops[behind]
            if not self.possible:  # enough members have to follow for the fewest that there must be
                while end > behind and run.size + (ahead[end - 1] & self.live).bit_count() < self.least:
                    end -= 1
            found |= ahead[behind] & ~ahead[end] & self.live
        return found

    def done(self, run: Run) -> bool:
        """Return whether the object may end."""
        return not self.required & ~run.seen and not run.missing and run.size >= self.least

    @property
    def is_linear(self) -> bool:
        """Whether the run after a declared member does not depend on what precedes it."""
        return len(self.orders) == 1 and not self.counts and not self.must

    @property
    def remembers(self) -> bool:
        """Whether the names of undeclared members ever have to be remembered."""
        return bool(self.others) and (self.must > 0 or self.least > 1)

    def tracks(self, run: Run) -> bool:
        """Return whether the name of the next undeclared member matters."""
        some = run.missing or run.held or run.counted or run.size + 1 < self.least
        return bool(self.others) and bool(some)

    def after(self, run: Run, mark: int, name: str | None) -> Iterator[tuple[Need, Run]]:
        """Yield the runs after a member, each with the need of its value.
        ``mark``: the bit of the member. ``name``: its name, if it is undeclared and the name matters."""
        count = run.size
        if self.counts:
            count = count + 1 if self.most is not None else min(count + 1, self.least)
        if mark < len(self.names):
            places = (
                tuple(
                    order[mark] + 1 if 0 <= behind <= order[mark] and self.reaches(i, behind, mark) else -1
                    for i, (order, behind) in enumerate(zip(self.place, run.places, strict=True))
                )
                if self.orders
                else ()
            )
            counted = run.counted if count < self.least else EMPTY
            seen = self.behind(places) if self.orders else run.seen | 1 << mark
            yield self.needs[mark], run._replace(seen=seen, size=count, places=places, counted=counted)
            return
        if name is not None and name != UNKNOWN and (name in run.counted or name in run.held):
            return
        for each in self.possible:
            if each.bit == mark and each.does <= run.missing and self.has_room(run, each.does):
                counted = run.counted | {name} if name is not None and count < self.least else EMPTY
                held = run.held | {name} if name is not None and each.does else run.held
                missing = run.missing - each.does
                yield each.need, run._replace(size=count, missing=missing, counted=counted, held=held)

    def behind(self, places: tuple[int, ...]) -> int:
        """Return the declared members that come later in no order, as bits."""
        ahead = 0
        for bits_ahead, place in zip(self.ahead, places, strict=True):
            ahead |= bits_ahead[place] if place >= 0 else 0
        return (1 << len(self.names)) - 1 & ~ahead

    def reaches(self, order: int, behind: int, mark: int) -> bool:
        """Return whether no required member lies between a place of an order and a member."""
        return self.place[order][mark] < self.stops[order][behind]

    def has_room(self, run: Run, does: frozenset[int]) -> bool:
        """Return whether one more undeclared member leaves room for those that must come."""
        if self.most is None:
            return True
        must = (self.required & ~run.seen).bit_count() + (self.fewest(run.missing - does) or 0)
        return run.size + 1 + must <= self.most

    # ------------------------------------------------------------ short texts

    def shortest(self, run: Run, look: Look) -> list[tuple[int, Need]] | None:
        """Return the members to come in a short text, as (bit, need); ``None`` if there is none."""
        found = [(i, self.needs[i]) for i in self.sequence(run) if (self.required & ~run.seen) >> i & 1]
        missing = run.missing
        while missing:
            each = self.best([o for o in self.others if o.does and o.does <= missing], look, missing)
            if each is None:
                return None
            found.append((each.bit, each.need))
            missing -= each.does
        if any(need == NEVER or look(need) is None for _, need in found):
            return None
        more = self.least - run.size - len(found)
        if more > 0:
            taken = run.seen | sum(1 << bit for bit, _ in found if bit < len(self.names))
            found = self.filled(run, found, more, taken, look)
        if len(found) + run.size < self.least:
            return None
        return found if self.most is None or len(found) + run.size <= self.most else None

    def sequence(self, run: Run) -> Sequence[int]:
        """Return the declared members in an order in which they may come."""
        for order, behind in zip(self.orders, run.places, strict=True):
            if behind >= 0:
                return order[behind:]
        return range(len(self.names))

    def best(self, some: list[Other], look: Look, missing: frozenset[int]) -> Other | None:
        """Return the undeclared member that provides most of the missing ones.
        Among equals it is that with the shortest value."""
        live = [o for o in some if look(o.need) is not None]
        return min(live, key=lambda o: (-len(o.does), len(look(o.need) or b"")), default=None)

    def filled(
        self, run: Run, found: list[tuple[int, Need]], more: int, taken: int, look: Look
    ) -> list[tuple[int, Need]]:
        """Add ``more`` members to those that must come, declared ones with short texts first."""
        extra = []
        for i in self.sequence(run):
            if not taken >> i & 1 and self.needs[i] != NEVER and (text := look(self.needs[i])) is not None:
                extra.append((len(text) + len(self.names[i]), i))
        chosen = {i for _, i in sorted(extra)[:more]}
        others = [o for o in self.others if not o.does and look(o.need) is not None]
        undeclared = [(o.bit, o.need) for o in others[:1]] * (more - len(chosen))
        wanted = chosen | {bit for bit, _ in found if bit < len(self.names)}
        declared = [(i, self.needs[i]) for i in self.sequence(run) if i in wanted]
        return [*declared, *(each for each in found if each[0] >= len(self.names)), *undeclared]


def bits(marks: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set."""
    while marks:
        low = marks & -marks
        yield low.bit_length() - 1
        marks ^= low
