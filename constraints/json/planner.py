"""How large the texts of each need are, and how freely members may stand so that all of them stay small.

The size of a need is estimated from those below it, without writing anything:

    size(need) = own states + Σ how often × size(need below) + what the freedom of its members adds

What does not depend on the freedom, which is raised step by step, is worked out once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from ...errors import TooManyStates
from ..automata.work import at, attempt, spend
from ..narrowing import Narrowing
from . import arrays, listed, members, strings
from .document import Document
from .limits import LEAST, Choice, Limits
from .needs import Needs
from .numbers import Notation
from .pieces import Piece
from .runs import ANY_ORDER, DECLARED, FREE, OPEN, Sizes, Way, states_of_all
from .scalars import finite
from .shapes import NEVER, Arrays, Need, Strings
from .sketches import Sketch
from .text import STYLES

MAX_FREE = 1.2
"""How many times the states of the least freedom there may be where members stand more freely."""
MIXED_FREE = 2
"""How deep values without a schema nest at least where all members stand in any order."""
MAX_AUTO, MAX_GROWTH = 4_000, 1.1
"""States up to which ``order="auto"`` lets members stand in any order, or how many times those that there are otherwise."""
OPENED = 32_000, 16_000, 8_000, 4_000, 2_000, 1_000, 300
"""States by which freedom for undeclared members may make each object larger, tried in turn."""
MIXED = 4_000, 1_000, 200
"""States by which any order of declared members may make each object larger, tried in turn."""
MAX_OPENING = 4_000
"""States by which the object that is the whole text may grow so that undeclared members may come first: ``$schema``, say."""
LARGE = 100_000
"""States from which on no member stands more freely."""
MAX_MIX_WORK = 50_000
"""Units of work to find out which members may stand in any order."""
ROOM, ROOM_BY_LENGTH = 60_000, 40
"""States that arrays of distinct listed items may take, or as many for each character of the longest bound on a length."""


class Form(NamedTuple):
    """The size of something where members stand plainly: own states, and how often those of each need below it count."""

    own: int
    below: Counter[Need]

    def states(self, sizes: dict[Need, int]) -> int:
        """About how many states there are, by those of the needs below."""
        return self.own + sum(count * sizes[need] for need, count in self.below.items())


class Forms(NamedTuple):
    """The sizes of a need's values other than objects, and of its objects; and all needs below it."""

    values: Form
    objects: Form
    below: tuple[Need, ...]


class Plan(NamedTuple):
    """For each need and how often heads of its knot may still be entered: about how many states there are, how freely members
    stand; and the needs of which members must stand in the declared order, though they might have been freer."""

    sizes: dict[tuple[Need, int], int]
    ways: dict[tuple[Need, int], Way]
    tied: set[Need]


class Planner(Needs):
    """The needs of one document, with limits and freedoms for their texts, and the sizes that follow from these."""

    def __init__(
        self,
        document: Document,
        whitespace: str,
        order: str,
        asked: tuple[int | None, int | None],
        open_objects: bool,
        asserts_format: bool,
        notation: Notation,
    ) -> None:
        super().__init__(document, order, open_objects, asserts_format)
        self.keywords.rounds_times = True
        self.root = self.keywords.root()
        self.whitespace, self.style = whitespace, STYLES[whitespace]
        self.notation, self.asked, self.limits = notation, asked, LEAST
        self.common = False  # whether all alternatives of an object keep to one order
        self.opened = self.mixed = -1  # see set_free
        self.sketches: dict[tuple[Need, Way, bool], list[Sketch]] = {}
        self.listed: dict[Arrays, list[listed.Table] | None] = {}
        self.forms: dict[tuple[Need, int, bool], Forms] = {}
        self.plans: dict[tuple[Limits, int, int, bool], Plan] = {}
        self.plan = Plan({}, {}, set())
        self.memo: dict[tuple[Need, int], Piece] = {}
        self.distinct: dict[tuple[str, Arrays], list[Narrowing]] = {}  # what arrays of distinct items lack

    # ------------------------------------------------------------ limits

    def wanted(self, limits: Limits) -> Limits:
        """The limits, but for what is asked for."""
        return limits.wanted(*self.asked)

    def cut(self, shape: Strings) -> Strings:
        """The shape with a bound on the length that is not beyond the longest."""
        if shape.most is None or shape.most <= self.limits.length:
            return shape
        return replace(shape, most=max(shape.least, self.limits.length))

    def cut_items(self, shape: Arrays) -> Arrays:
        """The same for the number of items, of which a tenth as many are written out."""
        if shape.most is None or shape.most <= self.limits.length // 10:
            return shape
        return replace(shape, most=max(shape.least, len(shape.prefix), self.limits.length // 10))

    @property
    def room(self) -> int:
        """How many states arrays of distinct listed items may take."""
        return ROOM if self.asked[1] is not None else min(ROOM, ROOM_BY_LENGTH * self.limits.length)

    # ------------------------------------------------------------ freedom

    def choose_freedom(self, root: Need, choice: Choice) -> bool:
        """Let members stand as freely as keeps the automaton small; whether any stands more freely than declared."""
        self.set_free(-1)
        least = self.size(root, self.limits.depth)
        if least > LARGE or self.order == "any":
            return False
        most = max(choice.most, int(MAX_FREE * least))
        opened = next((free for free in OPENED if self.states(root, free) <= most), -1)
        if self.order == "auto" and any(
            len(r.members) > 1 for need in self.knot for r in self.settled(need)[1]
        ):
            most = max(MAX_AUTO, int(MAX_GROWTH * self.states(root, opened)))
            most = max(most, choice.most) if choice.freedom == "mixed" else most
            try:
                with attempt(MAX_MIX_WORK):
                    self.mix(root, opened, most)
            except TooManyStates:
                self.limits = choice.limits
                self.set_free(opened)
        else:
            self.set_free(opened)
        self.size(root, self.limits.depth)
        return any(way != self.plainest for way in self.plan.ways.values())

    def mix(self, root: Need, opened: int, most: int) -> None:
        """Let declared members stand in any order in as many objects as there is room for: in all, if values without a schema
        then still nest twice, else in those that grow least."""
        limits = self.limits
        least = min(limits.free, MIXED_FREE if self.asked[0] is None else limits.free)
        for free in range(limits.free, least - 1, -1):
            self.limits = limits._replace(free=free)
            for mixed in (LARGE, *MIXED):
                states = self.states(root, opened, mixed)
                if self.plan.tied:
                    break
                if states <= most:
                    return
        self.limits = limits
        mixed = next((free for free in MIXED if self.states(root, opened, free) <= most), -1)
        self.states(root, opened, mixed)

    def states(self, root: Need, opened: int, mixed: int = -1) -> int:
        """About how many states there are, by how many each object may grow."""
        self.set_free(opened, mixed)
        return self.size(root, self.limits.depth)

    def set_free(self, opened: int, mixed: int = -1) -> None:
        """Set by how many states each object may grow, so that undeclared members may stand before and between others, and
        further so that declared ones may stand in any order; after the limits."""
        self.opened, self.mixed, self.memo, self.distinct = opened, mixed, {}, {}
        key = (self.limits, opened, mixed, self.common)
        self.plan = self.plans.setdefault(key, Plan({}, {}, set()))

    def way(self, need: Need, sizes: dict[Need, int], least: int) -> tuple[Way, int]:
        """How freely the members of a need's objects may stand, which at least take so many states, and about how many more
        that takes."""
        records, opening = self.settled(need)[1], MAX_OPENING if need == self.root else 0
        found, more = self.plainest, 0
        if self.order == "any" or not records:
            return found, more
        measured = [Sizes.of(record, sizes) for record in records]
        several = any(len(r.members) + bool(r.others) > 1 for r in records)
        if several and any(r.others for r in records) and (self.opened >= 0 or opening):
            declared = states_of_all(DECLARED, records, measured, sizes)
            for way in OPEN:
                growth = states_of_all(way, records, measured, sizes) - declared
                if growth <= max(self.opened // 8, opening * (way.others == "ends")):
                    found, more = way, growth
                    break
        if any(len(r.members) > 1 for r in records) and self.mixed >= 0:
            for way in FREE:
                mixed = max(0, states_of_all(way, records, measured, sizes) - least)
                if mixed - more <= self.mixed:
                    return way, mixed
            self.plan.tied.add(need)
        return found, more

    @property
    def plainest(self) -> Way:
        """How members stand without more freedom than is asked for."""
        return ANY_ORDER if self.order == "any" else DECLARED

    # ------------------------------------------------------------ sizes

    def size(self, need: Need, left: int) -> int:
        """About how many states the texts of a need have; ``left``: how often heads of its knot may still be entered."""
        if need == NEVER or left < 0:
            return 0
        if not need:
            return (115 << self.limits.free) - 73
        key = (need, left)
        if key not in self.plan.sizes:
            spend(20)
            forms = self.form(need)
            sizes = {inner: self.size_below(need, inner, left) for inner in forms.below}
            least = forms.objects.states(sizes)
            self.plan.ways[key], more = self.way(need, sizes, least)
            self.plan.sizes[key] = forms.values.states(sizes) + least + more
        return self.plan.sizes[key]

    def size_below(self, need: Need, other: Need, left: int) -> int:
        """The same of a need below another."""
        if other and other != NEVER:
            left = (
                left - (other in self.heads) if self.knot.get(other) == self.knot[need] else self.limits.depth
            )
        return self.size(other, left)

    def form(self, need: Need) -> Forms:
        """What the size of a need depends on, within the limits of lengths. Raises ``TooManyStates``."""
        key = (need, self.limits.length, self.common)
        if key not in self.forms:
            value = self.value(need)
            shapes, records = self.settled(need)
            own, below = 30 * len(value.number), Counter[Need]()
            with at(self.where(need)):
                own += sum(strings.size(self.cut(string)) for string in value.string)
                sketches = self.objects(need, self.plainest)
            for shape in shapes:
                if shape.unique:
                    tables = self.tables(shape)
                    own += listed.room(shape, tables, self.room).states if tables else 2_000
                items = self.items(need, shape)
                for inner in items:
                    below.update(inner)
                for inner in items[-1:]:
                    more = max(0, arrays.copies(self.cut_items(shape)) - len(items))
                    below.update(dict.fromkeys(inner, more))
            written = Counter[Need]()
            for sketch in sketches:
                written.update(sketch.counts)
            objects = Form(sum(sketch.size for sketch in sketches), written)
            needs = (*below, *objects.below, *(n for record in records for n in record.needs))
            self.forms[key] = Forms(Form(own, below), objects, tuple(dict.fromkeys(needs)))
        return self.forms[key]

    def objects(self, need: Need, way: Way) -> list[Sketch]:
        """The objects of a need, before the values in them are written."""
        key = (need, way, self.common)
        if key not in self.sketches:
            _, records = self.settled(need)
            if self.common:
                records = [replace(r, orders=(tuple(range(len(r.members))),)) for r in records]
            self.sketches[key] = members.write(records, self.style, way)
        return self.sketches[key]

    def tables(self, shape: Arrays) -> list[listed.Table] | None:
        """The values of the items of an array by position, ``None`` where they are not listed."""
        if shape not in self.listed:
            self.listed[shape] = listed.tables(shape, self.finite)
        return self.listed[shape]

    def finite(self, need: Need) -> dict[str, Piece] | None:
        """The values of a need by their texts, if they are listed; in the order in which an ``enum`` lists them."""
        if not need:
            return None
        nodes = [self.document.nodes[number] for number, sign in sorted(need) if sign and need != NEVER]
        order = [value for node in nodes for value in node.schema.get("enum", ())]
        return finite(self.value(need), self.notation, order)
