"""From needs to automata over JSON text: recursion, limits, and the union of the shapes of each type.

Needs form a graph: those of members and items lie below those of the objects and arrays. Where it has cycles, the
language is cut off: of each cycle one need is a *head*, and on the way down the heads of one knot of cycles are entered
at most ``max_depth`` times again.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...errors import TooManyStates, UnsupportedConstraint
from ..automata.dfa import minimize
from ..automata.nfa import Nfa
from ..automata.work import at, attempt, metered
from . import arrays, listed, members, objects, pieces, unique
from .document import Document
from .limits import LEAST, Freedom, Limits, choose
from .numbers import Notation
from .pieces import Piece, beside, either, piece
from .planner import OPENED, Planner
from .runs import DECLARED
from .scalars import scalars
from .shapes import ANY, NEVER, Arrays, Need, Strings
from .text import STYLES
from .values import EVERYTHING, NOTHING

MAX_FREE_WORK = 600_000
"""Units of work that members in any order may take before they stand as declared."""


class Compiler(Planner):
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
        notation = Notation(document.draft == 4, plain_numbers, max_digits)
        super().__init__(
            document, whitespace, order, (max_depth, max_length), open_objects, asserts_format, notation
        )

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
        parts.append(
            either(sketch.finish(inner) for sketch in self.objects(need, self.plan.ways[need, left]))
        )
        return beside(parts)

    def array(self, shape: Arrays, inner: Callable[[Need], Piece], where: str) -> Piece:
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
