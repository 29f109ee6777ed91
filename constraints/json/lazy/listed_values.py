"""The values of an ``enum`` or ``const``, read in parallel: each has a state of its own machine."""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from ...automata.machines import TextMachine
from ...automata.region import Local, Machine
from ..exact import Number
from ..shapes import Numbers

if TYPE_CHECKING:
    from .values import Machines

State = frozenset[tuple[int, Local]]
"""Values, by number, each with a local state of its machine."""


class Values:
    """The values of an ``enum`` or ``const``, numbered in the order in which they are added."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.number: dict[Hashable, int] = {}
        self.texts: list[bytes] = []
        self._machines: dict[int, Machine] = {}
        self._rows: dict[State, list[tuple[int, int, State, int]]] = {}

    def add(self, value: Hashable, text: bytes) -> int:
        """Add a value with a text of it, if it is new; return its number."""
        if value not in self.number:
            self.number[value] = len(self.texts)
            self.texts.append(text)
        return self.number[value]

    def machine(self, i: int) -> Machine:
        """Return the machine of the texts of a value."""
        if i not in self._machines:
            value = next(value for value, number in self.number.items() if number == i)
            found: Machine = TextMachine(self.texts[i])
            if isinstance(value, str):
                found = self.machines.listed_string(value)
            elif isinstance(value, Number):
                found = self.machines.number_machine(
                    Numbers(among=frozenset([Decimal(self.texts[i].decode())]))
                )
            self._machines[i] = found
        return self._machines[i]

    def start(self, values: int) -> State:
        """Return the state before one of some values, given as bits."""
        some = (i for i in range(len(self.texts)) if values >> i & 1)
        return frozenset([(i, self.machine(i).start()) for i in some])

    def rows(self, state: State) -> list[tuple[int, int, State, int]]:
        """Return the transitions of a state.
        Each is (low, high, state after such a byte, the values that it may become, as bits)."""
        if state not in self._rows:
            arcs = [(low, high, (i, to)) for i, at in state for low, high, to in self.machine(i).moves(at)]
            cuts = sorted({low for low, _, _ in arcs} | {high + 1 for _, high, _ in arcs})
            found = []
            for low, end in pairwise(cuts):
                to = frozenset([target for a, b, target in arcs if a <= low <= b])
                if to:
                    found.append((low, end - 1, to, sum(1 << i for i, _ in to)))
            self._rows[state] = found
        return self._rows[state]

    def ending(self, state: State) -> int | None:
        """Return the value whose text ends in this state, ``None`` if there is none."""
        return next((i for i, at in state if self.machine(i).final(at)), None)
