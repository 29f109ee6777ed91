"""The fewest tokens across one region of a text, whatever stands before and after it.

A token may begin before a region and end after it. So a region is crossed from a node of the :class:`TokenDag` (how far a
token has been read where the region begins) to a node (how far one has been read where it ends), and

    cost(n, n') = the fewest tokens that end within the region

A position of the search is (local state, node); bytes cost nothing, the end of a token costs 1. Crossings of a region that
a region calls are found once for each node that it is entered at, and shared: so the search does not grow with the depth of
calls. The search leaves out

- positions inside a token at node n that cost at least ``rest[n] − 1`` more than a token's beginning in the same local
  state: being inside saves no more;
- positions from which the region cannot end in this token, until higher costs are asked for;
- crossings that by lower bounds cost at least what is asked for (``lower_bounds.py``);
- in free text, positions that letters bring no nearer to its end (``text_crossings.py``);
- where a token must end with the region, all ways but one of the fewest tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from .. import limits
from ..automata import request_limits
from ..automata.region import Local, Machine
from .lower_bounds import Exhausted, LowerBounds, TooDeep
from .text_crossings import InText
from .token_dag import TokenDag

MOST_DEPTH = 60  # nested crossings up to which the rest of a region is a crossing of its own
MANY_MOVES = 32  # moves of a local state: each one more counts as a position
DEEPEST = 150  # nested crossings at which the innermost is found first, apart
POSITION_UNITS = 5  # of work
TOGETHER = 32  # positions that are counted together
NOTHING: list[int] = []
Key = tuple[int, Local, int, bool]


class Crossings:
    """The crossings found so far, for one vocabulary; ``instead`` gives the machine to cross.

    A search that is given up can be taken up again: what has been found stays. ``forgets``: whether a machine crossed so far
    forgets names, see :meth:`Machine.forgetting`. ``left``: the positions that a search may still visit; ``visited``: those that
    are kept. Lower bounds have crossings of their own, unless ``bounds`` are given.
    """

    def __init__(
        self, dag: TokenDag, instead: Callable[[Machine], Machine], bounds: LowerBounds | None = None
    ) -> None:
        self.dag, self.instead, self.forgets = dag, instead, False
        self.left = 50 * limits.POSITIONS
        self.bounds = LowerBounds(self) if bounds is None else bounds
        self.divides = dag.trie.spells_all  # otherwise crossings may hand on to one another for ever
        self.visited = 0
        self._found: dict[Key, Crossing] = {}
        self._machines: dict[int, Machine] = {}  # kept alive: `_found` has their ids in its keys

    def fresh(self) -> Crossings:
        """Return the same crossings with nothing found yet but lower bounds."""
        return Crossings(self.dag, self.instead, self.bounds)

    def of(self, machine: Machine, local: Local, node: int, bottom: bool = False) -> Crossing:
        """Return the crossing of a machine from a local state to its end, entered at a node.
        A ``bottom`` one ends where a token ends."""
        machine = self.instead(machine)
        if machine.forgets:
            self.forgets, local = True, machine.forgetful(local)
        key = (id(machine), local, node, bottom)
        found = self._found.get(key)
        if found is None:
            self._machines[id(machine)] = machine
            found = self._found[key] = Crossing(self, machine, local, node, bottom)
        return found


class Crossing(InText):
    """The ways across one region from one node, by their cost: 0, 1, … tokens, found on demand.

    ``least``: a lower bound of the costs. After a call, and where the region calls another one, a further crossing of the same
    region takes over: all ways that come there share it.
    """

    def __init__(self, crossings: Crossings, machine: Machine, local: Local, node: int, bottom: bool) -> None:
        self.crossings, self.dag, self.machine, self.bottom = crossings, crossings.dag, machine, bottom
        dag, last, self.begin = crossings.dag, machine.ends_with, (local, node)
        self.most_rest = dag.most_rest if last is None else dag.rest_after(last)
        if node != dag.root:  # where nothing is read
            self.most_rest = max(self.most_rest, dag.rest[node])
        ending, beginning = crossings.bounds.of(machine, local, bottom)
        self.least = max(ending, beginning + (node != dag.root) - (not bottom))
        wider = machine.wider(local) if crossings.divides else None
        self._wider = None if wider is None else crossings.of(machine, wider, node, bottom)
        self.levels: list[list[int]] = []  # the nodes at which the region ends, by cost
        self.closed = False  # whether all levels that matter are known
        self._exit: int | None = None  # the lowest cost of ending where a token ends
        self._exits: set[int] = set()
        self._seen: set[tuple[Local, int]] = set()
        # the lowest value of a counter seen, by the rest of the local state and the node: see `Machine.counter`
        self._counted: dict[tuple[Hashable, int], int] = {}
        self._gone_on: dict[
            tuple[Local, int], int
        ] = {}  # positions from which another crossing goes on: the cost
        self._begins: dict[Local, int] = {}  # the cost of a token's beginning, by local state
        self._leaving = {}
        # the state of the search for the next level
        self._busy, self._finished = False, 0  # levels whose successor has been begun
        self._may_end = self._soon = dag.ahead(b"" if bottom else last)  # by node: in the rest of its token
        self._here: list[tuple[Local, int]] = [(local, node)]  # positions to be visited
        self._later: list[tuple[Local, int]] = []  # those from which the region cannot end in this token
        self._next: list[tuple[Local, int]] = []  # those of the level after it
        self._ends: list[int] = []  # where the region ends
        # crossings of regions that are called: the local state after them, the cost before, at least that after, the node
        self._calls: list[tuple[Crossing, Local, int, int, int]] = []
        self._onward: list[tuple[Crossing, int]] = []  # crossings that go on, with the cost before them
        self._done = [0, 0]  # entries of these two that are done, at this level
        self._checked, self._ends_somewhere = 0, False  # levels, see `ends_within`

    def level(self, cost: int) -> list[int]:
        """Return the nodes at which the region can end with ``cost`` tokens and not with fewer."""
        if cost < self.least or (self._wider is not None and not self._wider.ends_within(cost)):
            return NOTHING
        while len(self.levels) <= cost and not self.closed:
            self._advance()
        return self.levels[cost] if cost < len(self.levels) else NOTHING

    def ends_within(self, cost: int) -> bool:
        """Return whether the region can end with at most ``cost`` tokens."""
        while self._checked <= cost and not self._ends_somewhere:
            self._ends_somewhere = bool(self.level(self._checked))
            self._checked += 1
        return self._ends_somewhere and cost >= self._checked - 1

    def _advance(self) -> None:
        """Find the next level. Raises :class:`Exhausted`; the next call goes on from there."""
        cost = len(self.levels)
        if self._exit is not None and cost > self._exit and cost + 1 >= self._exit + self.most_rest:
            self.closed = True
            return
        bounds = self.crossings.bounds
        if self._busy:  # for a lower bound within itself
            raise Exhausted
        if bounds.depth >= DEEPEST:
            raise TooDeep(partial(self.level, cost))
        bounds.depth += 1
        self._busy = True
        try:
            if cost:
                self._finish(cost - 1)
            if not self.closed:
                self._find(cost)
                self.levels.append(self._ends)
                self._ends = []
        finally:
            bounds.depth -= 1
            self._busy = False

    def _finish(self, cost: int) -> None:
        """Visit the positions of a level that wait for the next one, and begin that."""
        if self._finished > cost:
            return
        self._may_end = self.dag.ahead(None)
        self._here += self._later
        self._later = []
        self._find(cost)
        self._may_end = self._soon
        self._calls = [call for call in self._calls if more(call[0], cost + 1 - call[2] - call[3])]
        self._onward = [each for each in self._onward if more(each[0], cost + 1 - each[1])]
        self._here, self._next, self._done = self._next, [], [0, 0]
        self._finished = cost + 1
        if not self._here and not self._calls and not self._onward:
            self.closed = True

    def _find(self, cost: int) -> None:
        """Find the ways of one cost. A search that is given up goes on here at the next call."""
        here, done, crossings = self._here, self._done, self.crossings
        while not (self.bottom and self._ends):  # one way to its end is enough
            if crossings.left < 0:
                raise Exhausted
            if not crossings.visited % TOGETHER:
                request_limits.search(POSITION_UNITS * TOGETHER)
            crossings.left -= 1
            crossings.visited += 1
            if here:
                local, node = here.pop()
                self._visit(local, node, cost)
            elif done[0] < len(self._calls):
                called, after, begin, ahead, origin = self._calls[done[0]]
                inside = cost - begin - ahead
                for node in called.level(inside):
                    self._arrive(after, node, begin + inside, cost, inside == 0 and node == origin)
                done[0] += 1
            elif done[1] < len(self._onward):
                onward, begin = self._onward[done[1]]
                for node in onward.level(cost - begin):
                    self._end(node, cost)
                done[1] += 1
            else:
                return
        self.closed = True

    def _visit(self, local: Local, node: int, cost: int) -> None:
        """Go on from a position, unless it has been visited."""
        key = (local, node)
        if key in self._seen:
            return
        crossings, machine = self.crossings, self.machine
        final = machine.final(local)
        if not self._may_end[node] and (final or crossings.bounds.first(machine, local) is not None):
            self._later.append(key)
            if final:
                self._end(node, cost)
            return
        dag = self.dag
        calls = machine.calls(local)
        if calls and key != self.begin and crossings.divides and crossings.bounds.depth < MOST_DEPTH:
            self._go_on(local, node, cost)
            return
        self._seen.add(key)
        if (counted := machine.counter(local)) is not None:  # visited with a lower value, at no higher cost?
            rest, value = counted
            if self._counted.get((rest, node), value + 1) <= value:
                return
            self._counted[rest, node] = value
        if not self._worthwhile(local, node, cost):
            return
        if node != dag.root and dag.ends[node]:
            self._begin(local, cost + 1)
        if final:
            self._end(node, cost)
        body = None if calls or (final and not self.bottom) else machine.body(local)
        if body is not None:
            self._text(local, node, body, cost)
            return
        children = dag.children(node)
        for called, after in calls:
            start = called.start()
            if node == dag.root or crossings.bounds.may_begin(called, start, children):
                ending, beginning = crossings.bounds.of(machine, after, self.bottom)
                ahead = 0 if called.final(start) else max(ending, beginning - (not self.bottom))
                self._calls.append((crossings.of(called, start, node), after, cost, ahead, node))
        moves = machine.moves(local)
        crossings.left -= max(0, len(moves) - MANY_MOVES)
        for low, high, target in moves:
            if low == high:
                child = children.get(low)
                if child is not None:
                    self._push(target, child, cost)
            elif high - low < len(children):
                for byte in range(low, high + 1):
                    child = children.get(byte)
                    if child is not None:
                        self._push(target, child, cost)
            else:
                for byte, child in children.items():
                    if low <= byte <= high:
                        self._push(target, child, cost)

    def _push(self, local: Local, node: int, cost: int) -> None:
        """Queue a position inside a token, if the machine can read on or end there.
        If only the token can end there, queue a token's beginning."""
        dag = self.dag
        begin = self._begins.get(local)
        if begin is not None and cost + 1 >= begin + dag.rest[node]:
            return
        first = self.crossings.bounds.first(self.machine, local)
        if first is None or not first.isdisjoint(dag.children(node)):
            self._here.append((local, node))
        elif dag.ends[node]:
            self._begin(local, cost + 1)

    def _begin(self, local: Local, cost: int) -> None:
        """Queue a token's beginning for the next level, unless it is known at no higher cost."""
        if self._begins.get(local, cost + 1) > cost:
            self._begins[local] = cost
            self._next.append((local, self.dag.root))

    def _worthwhile(self, local: Local, node: int, cost: int) -> bool:
        """Return whether a position may be better than a token's beginning in the same local state."""
        dag = self.dag
        if node == dag.root:
            self._begins[local] = min(cost, self._begins.get(local, cost))
            return True
        begin = self._begins.get(local)
        return begin is None or cost + 1 < begin + dag.rest[node]

    def _arrive(self, after: Local, node: int, cost: int, level: int, nothing_read: bool) -> None:
        """Go on after a called region; ``cost`` is that up to here, ``level`` the one being found."""
        crossings = self.crossings
        if cost == level and (nothing_read or not crossings.divides or crossings.bounds.depth >= MOST_DEPTH):
            self._here.append((after, node))
        else:
            self._go_on(after, node, cost)

    def _go_on(self, local: Local, node: int, cost: int) -> None:
        """Let another crossing of the region take over from a position."""
        key = (local, node)
        if key == self.begin or self._gone_on.get(key, cost + 1) <= cost:
            return
        self._gone_on[key] = cost
        if self._worthwhile(local, node, cost):
            self._onward.append((self.crossings.of(self.machine, local, node, self.bottom), cost))

    def _end(self, node: int, cost: int) -> None:
        dag = self.dag
        if node == dag.root:
            if self._exit is None:
                self._exit = cost
                self._ends.append(node)
        elif not self.bottom and node not in self._exits:
            if self._exit is not None and cost + 1 >= self._exit + dag.rest[node]:
                return
            self._exits.add(node)
            self._ends.append(node)


def more(crossing: Crossing, cost: int) -> bool:
    """Return whether a crossing may have ways of at least this cost."""
    return not crossing.closed or cost < len(crossing.levels)
