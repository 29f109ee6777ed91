"""Expand machines that call one another into one finite automaton, by copying what is called.

    size(machine, left) = local states + Σ over (called, state after) size(called, left after the call)

Machines that may call themselves again form *knots*, the strongly connected components of the call graph. In each, a few
*heads* lie on all cycles. ``left`` counts how often heads may still be entered on the way down; further calls are left out.
The size is known before anything is copied.

A machine whose texts are indented by their depth is never called again. It belongs to the knot of the machine of the same
values without indentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...errors import TooManyStates
from .epsilon import NO_EPSILONS
from .graphs import Graph, useful
from .nfa import Nfa, empty, network
from .region import Machine
from .subsets import resolved


class Expansion:
    """The expansion of a machine into a finite automaton.

    Parameters
    ----------
    root
        The machine.
    bounded
        Gives the machine that is copied in place of a machine.
    entries
        Gives how often the heads of a knot are entered, from one of its machines.
    limit
        The most states.
    graphs
        The graphs of machines that are known already; others are added.

    Raises ``TooManyStates``.
    """

    def __init__(
        self,
        root: Machine,
        bounded: Callable[[Machine], Machine],
        entries: Callable[[Machine], int],
        limit: int,
        graphs: dict[Machine, Graph],
    ) -> None:
        self.root, self.bounded, self.limit, self.graphs = root, bounded, limit, graphs
        self.machines = [unindented(root)]
        self.knot: dict[Machine, int] = {}
        self.entries: dict[int, int] = {}
        self.heads: set[Machine] = set()
        self.left_out: dict[tuple[Machine, Machine], None] = {}
        """Calls that are left out somewhere: the machine that calls, and that which it would call."""
        self._sizes: dict[tuple[Machine, int], int] = {}
        self._automata: dict[tuple[Machine, int], Nfa] = {}
        self._find_knots(entries)
        self._find_heads()
        self.size = self._size(root, self._first)

    def graph(self, machine: Machine) -> Graph:
        """Return the graph of the machine that is copied in place of a machine."""
        bounded = self.bounded(machine)
        found = self.graphs.get(bounded)
        if found is None:
            found = self.graphs[bounded] = useful(bounded.graph(self.limit))
        return found

    # ------------------------------------------------------------ knots

    def _find_knots(self, entries: Callable[[Machine], int]) -> None:
        import networkx as nx

        calls, size = nx.DiGraph(), 0
        calls.add_node(self.machines[0])
        for machine in self.machines:
            here = self.graph(machine)
            size += here.size
            if size > self.limit:
                raise TooManyStates("the parts of the constraint have too many states", limit=self.limit)
            for called in dict.fromkeys(called for _, called, _ in here.calls):
                if called not in calls:
                    self.machines.append(called)
                calls.add_edge(machine, called)
        for i, part in enumerate(nx.strongly_connected_components(calls)):
            some = next(iter(part))
            if len(part) > 1 or calls.has_edge(some, some):
                self.knot.update(dict.fromkeys(part, i))
                self.entries[i] = entries(some)

    def _find_heads(self) -> None:
        """Choose machines that read bytes and lie on all cycles of the knots, the busiest first."""
        import networkx as nx

        calls = nx.DiGraph()
        for machine in self.machines:
            if machine in self.knot and len(self.graph(machine).edges):
                calls.add_edges_from((machine, inner) for inner in self._inner(machine))
        parts = list(nx.strongly_connected_components(calls))
        while parts:
            part = calls.subgraph(parts.pop())
            if not part.number_of_edges():
                continue
            head = max(
                (machine for machine in self.machines if machine in part),
                key=lambda machine: part.in_degree(machine) * part.out_degree(machine),
            )
            self.heads.add(head)
            parts += nx.strongly_connected_components(part.subgraph(set(part) - {head}))

    def _inner(self, machine: Machine) -> Iterator[Machine]:
        """Yield the machines of its knot that a machine calls, also through those that read no byte."""
        seen, stack = {machine}, [machine]
        while stack:
            for _, called, _ in self.graph(stack.pop()).calls:
                if self.knot.get(called) != self.knot[machine]:
                    continue
                if len(self.graph(called).edges):
                    yield called
                elif called not in seen:
                    seen.add(called)
                    stack.append(called)

    @property
    def _first(self) -> int:
        """How often heads may still be entered in the root."""
        root = self.machines[0]
        return self.entries[self.knot[root]] - (root in self.heads) if root in self.knot else 0

    def _left(self, machine: Machine, left: int, called: Machine) -> int:
        """Return how often heads may be entered in a called machine; negative if the call is left out."""
        machine, called = unindented(machine), unindented(called)
        knot = self.knot.get(called)
        if knot is None:
            return 0
        return (left if self.knot.get(machine) == knot else self.entries[knot]) - (called in self.heads)

    # ------------------------------------------------------------ states

    def _size(self, machine: Machine, left: int) -> int:
        """Return the states of a machine and of all copies in it. Raises ``TooManyStates``."""
        if left < 0:
            return 0
        found = self._sizes.get((machine, left))
        if found is None:
            here = self.graph(machine)
            found, lost = here.size, False
            for called, _ in dict.fromkeys((called, after) for _, called, after in here.calls):
                below = self._left(machine, left, called)
                if below < 0:
                    self.left_out[unindented(machine), unindented(called)], lost = None, True
                found += self._size(called, below)
                if found > self.limit:
                    raise TooManyStates("the automaton has too many states", limit=self.limit)
            if lost:  # the automaton also drops what only these calls reach
                found = self._automaton(machine, left).num_states
            self._sizes[machine, left] = found
        return found

    def automaton(self) -> Nfa:
        """Return the finite automaton, trimmed, epsilon-free, deterministic where that is cheap."""
        return self._automaton(self.root, self._first)

    def _automaton(self, machine: Machine, left: int) -> Nfa:
        if left < 0:
            return empty()
        found = self._automata.get((machine, left))
        if found is None:
            found = self._automata[machine, left] = resolved(self._copied(machine, left).plain)
        return found

    def _copied(self, machine: Machine, left: int) -> Nfa:
        """Return the graph of a machine with each call replaced by the called automaton."""
        here = self.graph(machine)
        sources: dict[tuple[Machine, int], list[int]] = {}
        for source, called, after in here.calls:
            sources.setdefault((called, after), []).append(source)
        arcs: list[tuple[int, Nfa | None, int]] = []
        nodes = here.size
        for (called, after), callers in sources.items():
            nfa = self._automaton(called, self._left(machine, left, called))
            if not nfa.num_states:
                continue
            if len(callers) == 1:
                arcs.append((callers[0], nfa, after))
            else:
                arcs += [*((caller, None, nodes) for caller in callers), (nodes, nfa, after)]
                nodes += 1
        start, ends = np.array([here.start]), np.array(here.ends, np.int64)
        if not arcs:
            return Nfa(here.size, here.edges, NO_EPSILONS, start, ends)
        whole = network(nodes, arcs, 0, 0)
        return Nfa(whole.num_states, np.concatenate([here.edges, whole.edges]), whole.epsilons, start, ends)


def unindented(machine: Machine) -> Machine:
    """Return the machine of the same values without indentation by depth; itself if it has none."""
    return machine.unindented or machine
