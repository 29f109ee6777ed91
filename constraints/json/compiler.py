"""From needs to automata over JSON text: recursion, limits, and the union of the shapes of each type.

Needs form a graph: those of members and items lie below those of the objects and arrays. Where it has cycles, the
language is cut off: of each cycle one need is a *head*, and on the way down the heads of one knot of cycles are entered
at most ``max_depth`` times again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

from ...errors import TooManyStates, UnsupportedConstraint
from ..dfa import minimize
from ..narrowing import Narrowing
from ..nfa import Nfa
from ..work import at, attempt, metered, spend
from . import arrays, listed, members, numbers, objects, pieces, strings, unique
from .document import Document
from .limits import LEAST, Choice, Freedom, Limits, choose
from .needs import Needs
from .numbers import Notation
from .pieces import Piece, beside, either, piece, quoted
from .runs import ANY_ORDER, DECLARED, FREE, OPEN, Way, states_of_all
from .scalars import scalars, word
from .shapes import ANY, NEVER, Arrays, Need, Numbers, Strings
from .sketches import Sketch
from .text import STYLES
from .values import EVERYTHING, NOTHING

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
MAX_FREE_WORK = 600_000
"""Units of work that members in any order may take before they stand as declared."""


class Compiler(Needs):
    """Compiles the needs of one document for one style."""

    def __init__(
        self,
        document: Document,
        whitespace: str,
        order: str,
        max_depth: int | None,
        max_length: int | None,
        open_objects: bool,
        formats: str,
        plain_numbers: bool = False,
        max_digits: int | None = None,
    ) -> None:
        asserts_format = formats == "assert" or (formats == "auto" and document.draft < 2019)
        super().__init__(document, order, open_objects, asserts_format)
        self.notation = Notation(document.draft == 4, plain_numbers, max_digits)
        self.root = self.keywords.root()
        self.whitespace = whitespace
        self.common = False  # whether all alternatives of an object keep to one order
        self.opened = self.mixed = -1  # see set_free
        self.is_tied = False  # whether members of some object must stand in the declared order
        self.asked = max_depth, max_length
        self.limits = LEAST
        self.style = STYLES[whitespace]
        self.memo: dict[tuple[Need, int], Piece] = {}
        self.sketches: dict[tuple[Need, Way, bool], list[Sketch]] = {}
        self.sizes: dict[tuple[Need, int], int] = {}
        self.ways: dict[tuple[Need, int], Way] = {}
        self.distinct: dict[tuple[str, Arrays], list[Narrowing]] = {}  # what arrays of distinct items lack

    def automaton(self, root: Need) -> Nfa:
        """The texts of the values that satisfy the root."""
        if root and root != NEVER:
            self.explore(root)
        while True:
            try:
                return self.attempts(root)
            except TooManyStates:
                if self.common:
                    raise
                self.common = True

    def attempts(self, root: Need) -> Nfa:
        """The same: with members as free as they may be, as declared, or within the least limits."""

        def size(limits: Limits, freedom: Freedom) -> int:
            self.limits = limits
            opened = freedom != "none" and self.order != "any"
            mixed = freedom == "mixed" and self.order == "auto"
            return self.states(root, OPENED[0] if opened else -1, OPENED[0] if mixed else -1)

        choice = choose(size, self.wanted)
        found, least = choice.limits, self.wanted(LEAST)
        self.limits = found
        works = [MAX_FREE_WORK] * self.choose_freedom(root, choice) + [math.inf] * (found != least)
        for work in works:
            try:
                with attempt(work):
                    return self.texts(root, self.limits.depth).nfa
            except TooManyStates:
                self.set_free(-1)
        self.limits = least
        self.set_free(-1)
        return self.texts(root, least.depth).nfa

    def wanted(self, limits: Limits) -> Limits:
        """The limits, but for what is asked for."""
        return limits.wanted(*self.asked)

    def choose_freedom(self, root: Need, choice: Choice) -> bool:
        """Let members stand as freely as keeps the automaton small; whether any stands more freely than declared."""
        self.set_free(-1)
        least = self.size(root, self.limits.depth)
        if least > LARGE or self.order == "any":
            return False
        most = max(choice.most, int(MAX_FREE * least))
        opened = next((free for free in OPENED if self.states(root, free) <= most), -1)
        if self.order == "auto":
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
        return any(way != self.plainest for way in self.ways.values())

    def mix(self, root: Need, opened: int, most: int) -> None:
        """Let declared members stand in any order in as many objects as there is room for: in all, if values without a schema
        then still nest twice, else in those that grow least."""
        limits = self.limits
        least = min(limits.free, MIXED_FREE if self.asked[0] is None else limits.free)
        for free in range(limits.free, least - 1, -1):
            self.limits = limits._replace(free=free)
            for mixed in (LARGE, *MIXED):
                if self.states(root, opened, mixed) <= most and not self.is_tied:
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
        further so that declared ones may stand in any order."""
        self.opened, self.mixed, self.is_tied = opened, mixed, False
        self.sizes, self.ways, self.memo, self.distinct = {}, {}, {}, {}

    def way(self, need: Need, size: Callable[[Need], int], least: int) -> tuple[Way, int]:
        """How freely the members of a need's objects may stand, which at least take so many states, and about how many more
        that takes."""
        _, records = self.settled(need)
        opening = MAX_OPENING if need == self.root else 0
        found, more = self.plainest, 0
        if self.order == "any" or not records:
            return found, more
        declared = states_of_all(DECLARED, records, size)

        def growth(way: Way) -> int:
            return states_of_all(way, records, size) - declared

        several = any(len(r.members) + bool(r.others) > 1 for r in records)
        if several and any(r.others for r in records) and (self.opened >= 0 or opening):
            for way in OPEN:
                if growth(way) <= max(self.opened // 8, opening * (way.others == "ends")):
                    found, more = way, growth(way)
                    break
        if any(len(r.members) > 1 for r in records) and self.mixed >= 0:
            for way in FREE:
                if (mixed := max(0, states_of_all(way, records, size) - least)) - more <= self.mixed:
                    return way, mixed
            self.is_tied = True
        return found, more

    @property
    def plainest(self) -> Way:
        """How members stand without more freedom than is asked for."""
        return ANY_ORDER if self.order == "any" else DECLARED

    def objects(self, need: Need, way: Way) -> list[Sketch]:
        """The objects of a need, before the values in them are written."""
        key = (need, way, self.common)
        if key not in self.sketches:
            _, records = self.settled(need)
            if self.common:
                records = [replace(r, orders=(tuple(range(len(r.members))),)) for r in records]
            self.sketches[key] = members.write(records, self.style, way)
        return self.sketches[key]

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

    def size(self, need: Need, left: int) -> int:
        """About how many states the texts of a need have."""
        if need == NEVER or left < 0:
            return 0
        if not need:
            return (115 << self.limits.free) - 73
        key = (need, left)
        if key not in self.sizes:
            spend(20)
            value = self.value(need)
            total: int = 30 * len(value.number)
            with at(self.where(need)):
                total += sum(strings.size(self.cut(string)) for string in value.string)
            shapes, _ = self.settled(need)
            for shape in shapes:
                if shape.unique:
                    tables = self.tables(shape)
                    total += listed.room(shape, tables, self.room).states if tables else 2_000
                found = [
                    sum(self.size_below(need, n, left) for n in inner) for inner in self.items(need, shape)
                ]
                if found:
                    copies: int = arrays.copies(self.cut_items(shape))
                    total += sum(found) + max(0, copies - len(found)) * found[-1]

            def inner_size(inner: Need) -> int:
                return self.size_below(need, inner, left)

            with at(self.where(need)):
                least = sum(sketch.states(inner_size) for sketch in self.objects(need, self.plainest))
            self.ways[key], more = self.way(need, inner_size, least)
            self.sizes[key] = total + least + more
        return self.sizes[key]

    def size_below(self, need: Need, other: Need, left: int) -> int:
        """The same of a need below another."""
        if other and other != NEVER:
            left = (
                left - (other in self.heads) if self.knot.get(other) == self.knot[need] else self.limits.depth
            )
        return self.size(other, left)

    def texts(self, need: Need, left: int) -> Piece:
        """The texts of the values that satisfy a need; ``left``: how often heads of its knot may still be entered."""
        if need == NEVER or left < 0:
            return pieces.NOTHING
        if not need:
            return anything(self.whitespace, self.limits.free, self.notation)
        key = (need, left)
        if key not in self.memo:
            with at(self.where(need)):
                self.memo[key] = self.write(need, left)
        return self.memo[key]

    def write(self, need: Need, left: int) -> Piece:
        """The same, anew."""

        def inner(other: Need) -> Piece:
            if not other or other == NEVER:
                return self.texts(other, 0)
            if self.knot.get(other) != self.knot[need]:
                return self.texts(other, self.limits.depth)
            return self.texts(other, left - (other in self.heads))

        value, where = self.value(need), self.where(need)
        shapes, _ = self.settled(need)
        value = value._replace(string=tuple(map(self.cut, value.string)))
        parts = scalars(value, self.notation)
        parts.append(either(self.array(shape, inner, where) for shape in shapes))
        self.size(need, left)  # and in which way members stand
        parts.append(either(sketch.finish(inner) for sketch in self.objects(need, self.ways[need, left])))
        return beside(parts)

    def array(self, shape: Arrays, inner: Any, where: str) -> Piece:
        """The texts of an array shape; items that must differ are finitely many, or differ anyway."""
        if shape.unique is None or (shape.unique and arrays.apart(shape, self.empty)):
            return arrays.write(self.cut_items(shape), self.style, where).finish(inner)
        found = None
        if shape.unique:
            if tables := self.tables(shape):
                found = listed.write(shape, self.style, tables, listed.room(shape, tables, self.room))
            else:
                value = self.value(shape.rest)
                if value._replace(string=()) == NOTHING:
                    found = unique.write(shape, self.style, tuple(map(self.cut, value.string)))
        if found is None:
            raise UnsupportedConstraint("uniqueItems of values that are not few", path=f"{where}/uniqueItems")
        self.distinct[where, shape] = found.narrowed
        return found.finish(inner)

    @property
    def room(self) -> int:
        """How many states arrays of distinct listed items may take."""
        return ROOM if self.asked[1] is not None else min(ROOM, ROOM_BY_LENGTH * self.limits.length)

    def tables(self, shape: Arrays) -> list[listed.Table] | None:
        """The values of the items by position, ``None`` where they are not listed."""
        key = ("tables", shape)
        if key not in self.parts:
            self.parts[key] = listed.tables(shape, self.finite)  # type: ignore[index]
        return self.parts[key]  # type: ignore[index, no-any-return]

    def finite(self, need: Need) -> dict[str, Piece] | None:
        """The values of a need by their texts, if they are listed."""
        value = self.value(need)
        if value.array or value.object or not need:
            return {} if need == NEVER else None
        found = {"null": word("null")} if value.null else {}
        found |= {str(b).lower(): word(str(b).lower()) for b in sorted(value.boolean)}
        for shape in value.number:
            among = numbers.listed(shape)
            if among is None:
                return None
            found |= {
                str(v): piece(numbers.number(Numbers(among=frozenset([v])), self.notation)) for v in among
            }
        for string in value.string:
            if string.among is None:
                return None
            words = (s for s in sorted(string.among) if strings.has(s, string.atoms))
            found |= {f'"{s}': quoted(strings.words((s,))) for s in words}
        order = [text for number, sign in sorted(need) if sign for text in self.enumerated(number)]
        place = {text: i for i, text in reversed(list(enumerate(order)))}
        return dict(sorted(found.items(), key=lambda item: place.get(item[0], len(place))))

    def enumerated(self, number: int) -> Iterator[str]:
        """The texts of the values that the ``enum`` of a node lists, as :meth:`finite` names them, in its order."""
        for value in self.document.nodes[number].schema.get("enum", ()):
            if isinstance(value, str):
                yield f'"{value}'
            elif not isinstance(value, dict | list):
                yield (
                    json.dumps(value)
                    if value is None or isinstance(value, bool)
                    else str(Decimal(repr(value)))
                )


@metered(maxsize=32)
def anything(whitespace: str, depth: int, notation: Notation) -> Piece:
    """Any value whose arrays and objects nest at most ``depth`` deep."""
    style = STYLES[whitespace]
    if not depth:
        return piece(minimize(beside(scalars(EVERYTHING, notation)).nfa))
    inner, every = (
        anything(whitespace, depth - 1, notation),
        objects.Record((), frozenset(), ((Strings(), ANY),)),
    )
    sketches = [arrays.write(Arrays(), style, ""), *members.write([every], style, DECLARED)]
    parts = [anything(whitespace, 0, notation), *(sketch.finish(lambda need: inner) for sketch in sketches)]
    return beside(parts)
