"""The graph of a machine: all of its local states, where they are finitely many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ...errors import TooManyStates
from .arrays import reachable
from .work import spend

if TYPE_CHECKING:
    from .nfa import Nfa
    from .region import Local, Machine

Call = tuple[int, Any, int]
"""(calling state, called machine, state after the call)."""


class Graph(NamedTuple):
    """The local states of a machine, numbered: how many, the start, moves, calls, final states."""

    size: int
    start: int
    edges: Int[ndarray, "edge 4"]
    calls: tuple[Call, ...]
    ends: tuple[int, ...]


def of_automaton(nfa: Nfa) -> Graph:
    """Return the graph of an automaton with one start and no epsilon transitions."""
    return Graph(nfa.num_states, int(nfa.start[0]), nfa.edges, (), tuple(nfa.accept.tolist()))


def useful(graph: Graph) -> Graph:
    """Drop the states that no text of the machine visits, whatever the called machines read."""
    calls = np.array([(source, after) for source, _, after in graph.calls], np.int64).reshape(-1, 2)
    steps = np.concatenate([graph.edges[:, [0, 3]], calls])
    found = reachable(steps, np.array([graph.start]), graph.size)
    found &= reachable(steps[:, ::-1], np.array(graph.ends, np.int64), graph.size)
    found[graph.start] = True
    if found.all():
        return graph
    number = (np.cumsum(found) - 1).tolist()
    edges = graph.edges[found[graph.edges[:, 0]] & found[graph.edges[:, 3]]]
    edges = np.column_stack([np.array(number)[edges[:, [0, 3]]], edges[:, 1:3]])[:, [0, 2, 3, 1]]
    kept = [call for call in graph.calls if found[call[0]] and found[call[2]]]
    return Graph(
        int(found.sum()),
        number[graph.start],
        edges,
        tuple((number[source], called, number[after]) for source, called, after in kept),
        tuple(number[end] for end in graph.ends if found[end]),
    )


def explored(machine: Machine, most: int) -> Graph:
    """Explore a machine state by state. Raises ``TooManyStates`` beyond ``most`` local states."""
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
