"""A finite automaton of machines that call one another: each call gives way to a copy of what is called.

    size(machine, left) = local states + Σ over (called, state after) size(called, left after the call)

Machines that may call themselves again form *knots*, the strongly connected parts of the graph of calls. In each, some *heads*
break all cycles. On the way down the heads of a knot are entered so many times, and further calls are left out. The size is
known before anything is copied.

Machines whose texts have an indent by their depth are never called again. They belong to the knots of the machines of the same
values without it.
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
    """The finite automaton of a machine.

    Parameters
    ----------
    root
        The machine.
    bounded
        The machine that is copied in place of each one.
    entries
        How often the heads of a knot are entered, by one of its machines.
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
        """The graph of what is copied in place of a machine."""
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
        """A few machines without which no cycle is left, of those that read something themselves: always one on most ways."""
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
        """The machines of its knot that a machine calls, past those that read nothing themselves."""
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
        """The depth left in a machine that is called; negative where the call is left out."""
        machine, called = unindented(machine), unindented(called)
        knot = self.knot.get(called)
        if knot is None:
            return 0
        return (left if self.knot.get(machine) == knot else self.entries[knot]) - (called in self.heads)

    # ------------------------------------------------------------ states

    def _size(self, machine: Machine, left: int) -> int:
        """The states of a machine and of all copies in it. Raises ``TooManyStates``."""
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
            if lost:  # with what only these calls lead to
                found = self._automaton(machine, left).num_states
            self._sizes[machine, left] = found
        return found

    def automaton(self) -> Nfa:
        """The finite automaton: without epsilon transitions and useless states, deterministic where that is cheap."""
        return self._automaton(self.root, self._first)

    def _automaton(self, machine: Machine, left: int) -> Nfa:
        if left < 0:
            return empty()
        found = self._automata.get((machine, left))
        if found is None:
            found = self._automata[machine, left] = resolved(self._copied(machine, left).plain)
        return found

    def _copied(self, machine: Machine, left: int) -> Nfa:
        """The graph of a machine with the automata of what it calls."""
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
    """The machine of the same values without an indent by their depth."""
    return machine.unindented or machine
