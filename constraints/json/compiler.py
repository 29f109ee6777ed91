"""From needs to automata over JSON text: recursion, limits, and the union of the shapes of each type.

Needs form a graph: those of members and items lie below those of the objects and arrays. Where it has cycles, the
language is cut off: of each cycle one need is a *head*, and on the way down the heads of one knot of cycles are entered
at most ``max_depth`` times again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...errors import TooManyStates, UnsupportedConstraint
from ..dfa import minimize
from ..nfa import Nfa, literal
from ..work import at, attempt, metered, spend
from . import arrays, members, numbers, objects, pieces, strings
from .document import Document
from .needs import Needs
from .pieces import Piece, beside, either, piece, quoted
from .runs import ANY_ORDER, DECLARED, WAYS, Sizes, Way
from .shapes import ANY, NEVER, Arrays, Need, Numbers, Strings
from .text import STYLES
from .values import EVERYTHING, Value

LIMITS = [
    (7, 32_768, 4_000), (5, 32_768, 4_000), (3, 32_768, 50_000), (3, 1_000, 100_000), (2, 1_000, 100_000),
    (3, 250, 150_000), (2, 250, 150_000), (1, 250, 200_000), (1, 100, 300_000), (1, 40, 3_000_000),
    (0, 40, 10**9),
]  # fmt: skip
"""Depths and longest lengths that are tried in turn, each with the states up to which it is taken."""
MAX_FREE = 40_000, 1.5
"""States up to which members may stand in any order under ``order="auto"``; and how many times those in declared order."""
FREE = 16_000, 8_000, 4_000, 2_000, 1_000, 500, 0
"""States by which freedom may make each object larger, tried in turn."""
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
        self.whitespace = whitespace
        self.common = False  # whether all alternatives of an object keep to one order
        self.free = -1  # states by which each object may grow so that its members stand more freely
        self.wanted = max_depth, max_length
        self.max_depth, self.longest = LIMITS[0][:2]
        self.style = STYLES[whitespace]
        self.memo: dict[tuple[Need, int], Piece] = {}
        self.sizes: dict[tuple[Need, int], int] = {}
        self.ways: dict[tuple[Need, int], Way] = {}

    def automaton(self, root: Need) -> Nfa:
        """The texts of the values that satisfy the root."""
        if root and root != NEVER:
            self.explore(root)
        first = self.choose_limits(root)
        if self.order == "auto" and self.choose_freedom(root):
            try:
                with attempt(MAX_FREE_WORK):
                    return self.texts(root, self.max_depth).nfa
            except TooManyStates:
                self.set_free(-1)
        tries = [] if None not in self.wanted else LIMITS[max(first + 1, len(LIMITS) - 3) :]
        while True:  # the size is an estimate: where it was too low, with fewer orders, then with less
            try:
                return self.texts(root, self.max_depth).nfa
            except TooManyStates:
                if not self.common:
                    self.common, self.memo = True, {}
                elif tries:
                    self.limit(*tries.pop(0)[:2])
                else:
                    raise

    def limit(self, depth: int, length: int) -> None:
        """Set the limits that are not asked for."""
        self.max_depth = depth if self.wanted[0] is None else self.wanted[0]
        self.longest = length if self.wanted[1] is None else self.wanted[1]
        self.set_free(self.free)

    def choose_limits(self, root: Need) -> int:
        """Set the depth, and the longest bound on a length that is written out, so that the automaton stays small, or
        else not too large; which of ``LIMITS`` that is."""
        for index, (depth, length, most) in enumerate(LIMITS):
            self.limit(depth, length)
            if self.size(root, self.max_depth) <= most:
                return index
        return len(LIMITS) - 1

    def choose_freedom(self, root: Need) -> bool:
        """Let members stand as freely as keeps the automaton small; whether any may."""
        most = max(MAX_FREE[0], int(MAX_FREE[1] * self.size(root, self.max_depth)))
        for free in FREE:
            self.set_free(free)
            if self.size(root, self.max_depth) <= most:
                return any(way != DECLARED for way in self.ways.values())
        self.set_free(-1)
        return False

    def set_free(self, states: int) -> None:
        """Set by how many states each object may grow."""
        self.free, self.sizes, self.ways, self.memo = states, {}, {}, {}

    def way(self, records: list[objects.Record], size: Callable[[Need], int]) -> tuple[Way, int]:
        """How freely the members of some records may stand, and about how many states that takes."""
        sizes = [(record, Sizes.of(record, size)) for record in records]
        if self.order == "any":
            return ANY_ORDER, sum(ANY_ORDER.states(*each) for each in sizes)
        declared = sum(DECLARED.states(*each) for each in sizes)
        for way in WAYS if self.free >= 0 and records else ():
            total = sum(way.states(*each) for each in sizes)
            if total <= declared + self.free:
                return way, total
        return DECLARED, declared

    def cut(self, shape: Strings) -> Strings:
        """The shape with a bound on the length that is not beyond the longest."""
        if shape.most is None or shape.most <= self.longest:
            return shape
        return replace(shape, most=max(shape.least, self.longest))

    def cut_items(self, shape: Arrays) -> Arrays:
        """The same for the number of items, of which a tenth as many are written out."""
        if shape.most is None or shape.most <= self.longest // 10:
            return shape
        return replace(shape, most=max(shape.least, len(shape.prefix), self.longest // 10))

    def size(self, need: Need, left: int) -> int:
        """About how many states the texts of a need have."""
        if need == NEVER or left < 0:
            return 0
        if not need:
            return 57 << self.max_depth
        key = (need, left)
        if key not in self.sizes:
            spend(20)
            value = self.value(need)
            total: int = 30 * len(value.number)
            with at(self.where(need)):
                total += sum(strings.size(self.cut(string)) for string in value.string)
            shapes, records = self.settled(need)
            for shape in shapes:
                found = [
                    sum(self.size_below(need, n, left) for n in inner) for inner in self.items(need, shape)
                ]
                if found:
                    copies: int = arrays.copies(self.cut_items(shape))
                    total += sum(found) + max(0, copies - len(found)) * found[-1]
            self.ways[key], states = self.way(records, lambda inner: self.size_below(need, inner, left))
            self.sizes[key] = total + states
        return self.sizes[key]

    def size_below(self, need: Need, other: Need, left: int) -> int:
        """The same of a need below another."""
        if other and other != NEVER:
            left = left - (other in self.heads) if self.knot.get(other) == self.knot[need] else self.max_depth
        return self.size(other, left)

    def texts(self, need: Need, left: int) -> Piece:
        """The texts of the values that satisfy a need; ``left``: how often heads of its knot may still be entered."""
        if need == NEVER or left < 0:
            return pieces.NOTHING
        if not need:
            return anything(self.whitespace, self.max_depth)
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
                return self.texts(other, self.max_depth)
            return self.texts(other, left - (other in self.heads))

        value, where = self.value(need), self.where(need)
        shapes, records = self.settled(need)
        value = value._replace(string=tuple(map(self.cut, value.string)))
        parts = scalars(value, self.document.draft == 4)
        parts.append(either(self.array(shape, inner, where) for shape in shapes))
        self.size(need, left)  # and in which way members stand
        if self.common:
            records = [replace(r, orders=(tuple(range(len(r.members))),)) for r in records]
        parts.append(members.write(records, self.style, inner, self.ways[need, left]))
        return beside(parts)

    def array(self, shape: Arrays, inner: Any, where: str) -> Piece:
        """The texts of an array shape; items that must differ are finitely many, or differ anyway."""
        if shape.unique is None or (shape.unique and arrays.apart(shape, self.empty)):
            return arrays.write(self.cut_items(shape), self.style, inner, where)
        found = arrays.distinct(shape, self.style, self.finite) if shape.unique else None
        if found is None:
            raise UnsupportedConstraint("uniqueItems of values that are not few", path=f"{where}/uniqueItems")
        return found

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


@metered(maxsize=8)
def word(text: str) -> Piece:
    """One text."""
    return piece(literal(text.encode()))


@metered(maxsize=512)
def number_piece(shape: Numbers, plain: bool) -> Piece:
    """The texts of a shape of numbers."""
    return piece(numbers.number(shape, plain))


def scalars(value: Value, plain: bool) -> list[Piece]:
    """The texts of the values that hold no others."""
    parts = [word("null")] if value.null else []
    parts += [word(str(b).lower()) for b in sorted(value.boolean)]
    parts.append(either(number_piece(shape, plain) for shape in value.number))
    parts.append(either(quoted(strings.body(shape)) for shape in value.string))
    return parts


@metered(maxsize=32)
def anything(whitespace: str, depth: int) -> Piece:
    """Any value whose arrays and objects nest at most ``depth`` deep."""
    style = STYLES[whitespace]
    parts = scalars(EVERYTHING, False)
    if depth:
        inner = anything(whitespace, depth - 1)
        parts.append(arrays.write(Arrays(), style, lambda need: inner, ""))
        every = objects.Record((), frozenset(), ((Strings(), ANY),))
        parts.append(members.write([every], style, lambda need: inner, DECLARED))
    return piece(minimize(beside(parts).nfa))
