"""All local states of a machine at once, where finitely many are wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ...errors import TooManyStates
from .work import spend

if TYPE_CHECKING:
    from .nfa import Nfa
    from .stack import Local, Machine

Call = tuple[int, Any, int]
"""The state that calls, the machine that is called, the state after it."""


class Graph(NamedTuple):
    """The local states of a machine: their number, the first, moves, calls, final states."""

    size: int
    start: int
    edges: Int[ndarray, "edge 4"]
    calls: tuple[Call, ...]
    ends: tuple[int, ...]


def of_automaton(nfa: Nfa) -> Graph:
    """The graph of an automaton with one start and no skips."""
    return Graph(nfa.num_states, int(nfa.start[0]), nfa.edges, (), tuple(nfa.accept.tolist()))


def explored(machine: Machine, most: int) -> Graph:
    """The graph of a machine, state by state. Raises ``TooManyStates``."""
    order: list[Local] = []
    number: dict[Local, int] = {}

    def state(local: Local) -> int:
        found = number.setdefault(local, len(order))
        if found == len(order):
            order.append(local)
        return found

    state(machine.start())
    edges: list[tuple[int, int, int, int]] = []
    calls: list[Call] = []
    ends: list[int] = []
    for here, local in enumerate(order):
        if len(order) > most:
            raise TooManyStates("a part of the constraint has too many states", limit=most)
        edges += [(here, low, high, state(to)) for low, high, to in machine.moves(local)]
        calls += [(here, called, state(after)) for called, after in machine.calls(local)]
        if machine.final(local):
            ends.append(here)
    spend(3 * len(edges) + 5 * len(calls))
    return Graph(len(order), 0, np.array(edges, np.int64).reshape(-1, 4), tuple(calls), tuple(ends))
