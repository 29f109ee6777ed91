"""Values whose members and items stand on lines of their own: the indent of a line says how deep it is.

Each depth has nodes of its own, so there is a last one, at which arrays and objects are empty.
"""

from __future__ import annotations

from functools import cached_property

from ... import limits
from ...narrowing import Narrowing
from ...program.node import Node
from ...program.nodes import NOTHING
from ..needs import Needs
from ..numbers import Notation
from ..shapes import Need
from ..text import Style
from .values import Writer

MOST_DEPTH = 32
"""The most levels of nesting."""


class Indented(Writer):
    """The nodes of the needs of a document at one depth. ``left``: the levels that may follow, -1 beyond the last one."""

    def __init__(self, needs: Needs, style: Style, notation: Notation, left: int) -> None:
        super().__init__(needs, style, notation)
        self.left = left

    @cached_property
    def below(self) -> Writer:
        return Indented(self.needs, self.style.deeper, self.notation, self.left - 1)

    def node(self, need: Need) -> Node:
        return NOTHING if self.left < 0 else super().node(need)


def levels(parts: dict[Need, dict[Need, None]], root: Need, most: int) -> tuple[int, bool]:
    """Return to how many levels of nesting values are followed, at most so many, and whether that is all of them.

    ``parts``: the needs within the values of each need.
    """
    level, size = {root: None}, 1
    for depth in range(most):
        level = {inner: None for need in level for inner in parts.get(need, ())}
        size += len(level)
        if not level:
            return depth, True
        if size > limits.ALTERNATIVES and depth:
            return depth, False
    return most, False


def lacking(depth: int) -> Narrowing:
    """Return what values with an indent lack."""
    why = "the indent of each level is written out; without an indent there is no bound"
    return Narrowing("", "indent", "values at any depth", f"{depth} levels", why)
