"""From needs to automata over JSON text: recursion, limits, and the union of the shapes of each type.

Needs form a graph: those of members and items lie below those of the objects and arrays. Where it has cycles, the
language is cut off: of each cycle one need is a *head*, and on the way down the heads of one knot of cycles are entered
at most ``max_depth`` times again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...errors import TooManyStates, UnsupportedConstraint
from ..dfa import minimize
from ..narrowing import Narrowing
from ..nfa import Nfa
from ..work import at, attempt, metered, spend
from . import arrays, members, numbers, objects, pieces, strings, unique
from .document import Document
from .limits import LEAST, Limits, choose
from .needs import Needs
from .pieces import Piece, beside, either, piece, quoted
from .runs import ANY_ORDER, DECLARED, WAYS, Sizes, Way
from .scalars import scalars, word
from .shapes import ANY, NEVER, Arrays, Need, Strings
from .sketches import Sketch
from .text import STYLES
from .values import EVERYTHING, NOTHING

MAX_FREE = {"auto": (80_000, 1.5), "declared": (0, 1.2), "any": (0, 1)}
"""States up to which members may stand more freely, by the order that is asked for; and how many times those of the least
freedom."""
FREE = 32_000, 16_000, 8_000, 4_000, 2_000, 1_000, 300
"""States by which freedom may make each object larger, tried in turn."""
MAX_OPENING = 4_000
"""States by which the object that is the whole text may grow so that undeclared members may come first: ``$schema``, say."""
LARGE = 100_000
"""States from which on no member stands more freely."""
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
        asserts_format: bool,
    ) -> None:
        super().__init__(document, order, open_objects, asserts_format)
        self.root = self.keywords.root()
        self.whitespace = whitespace
        self.common = False  # whether all alternatives of an object keep to one order
        self.free = -1  # states by which each object may grow so that its members stand more freely
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

        def size(limits: Limits, freely: bool) -> int:
            self.free = FREE[0] if freely and self.order == "declared" else -1
            return self.limit(limits).size(root, limits.depth)

        found, most = choose(size, self.wanted)
        least = self.wanted(LEAST)
        self.limit(found)
        works = [MAX_FREE_WORK] * self.choose_freedom(root, most) + [math.inf] * (found != least)
        for work in works:
            try:
                with attempt(work):
                    return self.texts(root, found.depth).nfa
            except TooManyStates:
                self.set_free(-1)
        return self.limit(least).texts(root, least.depth).nfa

    def wanted(self, limits: Limits) -> Limits:
        """The limits, but for what is asked for."""
        return limits.wanted(*self.asked)

    def limit(self, limits: Limits) -> Compiler:
        """Set the limits."""
        self.limits = limits
        self.set_free(self.free)
        return self

    def choose_freedom(self, root: Need, most: int) -> bool:
        """Let members stand as freely as keeps the automaton small, or below so many states; whether any may."""
        self.set_free(-1)
        states, times = MAX_FREE[self.order]
        least = self.size(root, self.limits.depth)
        most = max(most, states, int(times * least))
        if least > LARGE:
            return False
        for free in FREE:
            self.set_free(free)
            if self.size(root, self.limits.depth) <= most:
                return any(way != self.plainest for way in self.ways.values())
        self.set_free(-1)
        return False

    def set_free(self, states: int) -> None:
        """Set by how many states each object may grow."""
        self.free, self.sizes, self.ways, self.memo, self.distinct = states, {}, {}, {}, {}

    def way(self, need: Need, size: Callable[[Need], int]) -> tuple[Way, int]:
        """How freely the members of a need's objects may stand, and about how many more states that takes."""
        _, records = self.settled(need)
        opening = MAX_OPENING if need == self.root else 0
        sizes = [(record, Sizes.of(record, size)) for record in records if self.free >= 0 or opening]
        declared = sum(DECLARED.states(*each) for each in sizes)
        for way in WAYS[self.order] if sizes else ():
            if not any(len(r.members) + bool(r.others) > 1 and (way.free or r.others) for r in records):
                continue  # nothing would be freer
            more = sum(way.states(*each) for each in sizes) - declared
            most = self.free if way.free else max(self.free // 8, opening * (way.others == "ends"))
            if more <= most:
                return way, more
        return self.plainest, 0

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
                total += 2_000 if shape.unique else 0
                found = [
                    sum(self.size_below(need, n, left) for n in inner) for inner in self.items(need, shape)
                ]
                if found:
                    copies: int = arrays.copies(self.cut_items(shape))
                    total += sum(found) + max(0, copies - len(found)) * found[-1]

            def inner_size(inner: Need) -> int:
                return self.size_below(need, inner, left)

            with at(self.where(need)):
                total += sum(sketch.states(inner_size) for sketch in self.objects(need, self.plainest))
            self.ways[key], more = self.way(need, inner_size)
            self.sizes[key] = total + more
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
            return anything(self.whitespace, self.limits.free)
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
        parts = scalars(value, self.document.draft == 4)
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
            found = arrays.distinct(shape, self.style, self.finite)
            if found is None:
                value = self.value(shape.rest)
                if value._replace(string=()) == NOTHING:
                    found = unique.write(shape, self.style, tuple(map(self.cut, value.string)))
        if found is None:
            raise UnsupportedConstraint("uniqueItems of values that are not few", path=f"{where}/uniqueItems")
        self.distinct[where, shape] = found.narrowed
        return found.finish(inner)

    def finite(self, need: Need) -> dict[str, Piece] | None:
        """The values of a need by their texts, if they are listed."""
        value = self.value(need)
        if value.array or value.object or not need:
            return {} if need == NEVER else None
        found = {"null": word("null")} if value.null else {}
        found |= {str(b).lower(): word(str(b).lower()) for b in sorted(value.boolean)}
        for shape in value.number:
            listed = numbers.listed(shape)
            if listed is None:
                return None
            found |= {str(v): piece(numbers.same(v)) for v in listed}
        for string in value.string:
            if string.among is None:
                return None
            listed_words = (s for s in sorted(string.among) if strings.has(s, string.atoms))
            found |= {f'"{s}': quoted(strings.words((s,))) for s in listed_words}
        return found


@metered(maxsize=32)
def anything(whitespace: str, depth: int) -> Piece:
    """Any value whose arrays and objects nest at most ``depth`` deep."""
    style = STYLES[whitespace]
    if not depth:
        return piece(minimize(beside(scalars(EVERYTHING, False)).nfa))
    inner, every = anything(whitespace, depth - 1), objects.Record((), frozenset(), ((Strings(), ANY),))
    sketches = [arrays.write(Arrays(), style, ""), *members.write([every], style, DECLARED)]
    parts = [anything(whitespace, 0), *(sketch.finish(lambda need: inner) for sketch in sketches)]
    return beside(parts)
