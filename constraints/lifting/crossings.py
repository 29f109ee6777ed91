"""The fewest tokens across one region of a text, whatever stands before and after it.

A token may begin before a region and end after it. So a region is crossed from a node of the :class:`TokenDag` (how far a
token has been read where the region begins) to a node (how far one has been read where it ends), and

    cost(n, n') = the fewest tokens that end within the region

A position of the search is (local state, node); bytes cost nothing, the end of a token costs 1. Crossings of a region that
a region calls are found once for each node that it is entered at, and shared: so the search does not grow with the depth of
calls. Positions that cannot be better than known ones are left out:

- One in the middle of a token at node n, against one at a token's beginning in the same local state: it saves at most
  ``rest[n] − 1`` tokens.
- In free text (:class:`~..automata.stack.LocalBody`), once the text may end: one with fewer letters left, against one with
  more. Before it may end: one that still needs more letters, where the most letters are far away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from ..automata.stack import Local, LocalBody, Machine, ToCome
from .token_dag import FAR, NEVER, TextTokens, TokenDag

MOST_POSITIONS = 50_000  # of one search
MOST_DEPTH = 100  # crossings that go on in one another
NOTHING: list[int] = []
Leaving = tuple[tuple[int, int, Local], ...]
Key = tuple[int, Local, int, bool]


class Exhausted(Exception):
    """The search has looked at as many positions as it may."""


class Crossings:
    """All crossings found so far, for one vocabulary; only those of the essential machines, if wanted.

    A search that is given up can be taken up again: what has been found stays.
    """

    def __init__(self, dag: TokenDag, essential: bool = False) -> None:
        self.dag, self.essential = dag, essential
        self.left, self.depth = MOST_POSITIONS, 0
        self.least = Least(self)
        self.divides = bool(dag.single.all())  # otherwise some may go on for ever in one another
        self._found: dict[Key, Crossing] = {}
        self._machines: dict[int, Machine] = {}  # kept alive: crossings are known by their identity

    def of(self, machine: Machine, local: Local, node: int, bottom: bool = False) -> Crossing:
        """The crossing of a machine from a local state to its end; a ``bottom`` one ends where a token ends."""
        machine = (machine.essential() if self.essential else machine).divided()
        key = (id(machine), local, node, bottom)
        found = self._found.get(key)
        if found is None:
            self._machines[id(machine)] = machine
            found = self._found[key] = Crossing(self, machine, local, node, bottom)
        return found


class Crossing:
    """The ways across one region from one node, by their cost: 0, 1, … tokens, found when they are asked for.

    ``least``: no way costs less. Where the region calls another one, and where it goes on after that, another crossing
    of the same region goes on: it is shared by all that come there.
    """

    def __init__(self, crossings: Crossings, machine: Machine, local: Local, node: int, bottom: bool) -> None:
        self.crossings, self.machine, self.bottom, self.begin = crossings, machine, bottom, (local, node)
        root, last = crossings.dag.root, machine.ends_with
        self.most_rest = crossings.dag.most_rest if last is None else crossings.dag.rest_after(last)
        if node != root:  # where nothing is read
            self.most_rest = max(self.most_rest, crossings.dag.rest[node])
        ending, beginning = crossings.least.of(machine, local, bottom)
        self.least = max(ending, beginning + (node != root) - (not bottom))
        self.levels: list[list[int]] = []  # the nodes at which the region ends, by cost
        self.closed = False  # whether all that matter are known
        self._exit: int | None = None  # the cost of ending where a token ends
        self._exits: set[int] = set()
        self._seen: set[tuple[Local, int]] = set()
        self._begins: dict[Local, int] = {}  # the cost of a token's beginning, by local state
        self._ahead = crossings.dag.ahead(b"" if bottom else last)
        self._here: list[tuple[Local, int]] = [(local, node)]  # positions of the next level to be found
        self._later: list[tuple[Local, int]] = []  # those of the last one from which the region cannot end in this token
        self._next: list[tuple[Local, int]] = []  # those of the level after it
        self._ends: list[int] = []  # what has been found of the level
        self._calls: list[tuple[Crossing, Local, int, int, int]] = []
        self._onward: list[tuple[Crossing, int]] = []
        self._done = [0, 0]  # of these two, in the level
        self._leaving: dict[Local, Leaving] = {}
        self._finished = 0
        self._checked, self._ways = 0, False  # levels that have been looked at, and whether there was a way
        wider = machine.wider(local)
        self._wider = None if wider is None else crossings.of(machine, wider, node, bottom)
        self._everywhere = crossings.dag.ahead(None)
        self._ahead_now = self._ahead

    def level(self, cost: int) -> list[int]:
        """The nodes at which the region can end with so many tokens, and not with fewer."""
        if cost < self.least or (self._wider is not None and not self._wider.ends_within(cost)):
            return NOTHING
        while len(self.levels) <= cost and not self.closed:
            self._advance()
        return self.levels[cost] if cost < len(self.levels) else NOTHING

    def ends_within(self, cost: int) -> bool:
        """Whether there is a way of at most some cost."""
        while self._checked <= cost and not self._ways:
            self._ways = bool(self.level(self._checked))
            self._checked += 1
        return self._ways and cost >= self._checked - 1

    def _advance(self) -> None:
        """Find the next level."""
        cost = len(self.levels)
        if self._exit is not None and cost + 1 >= self._exit + self.most_rest:
            self.closed = True
            return
        self.crossings.depth += 1
        try:
            if cost:
                self._finish(cost - 1)
            if not self.closed:
                self._find(cost)
                self.levels.append(self._ends)
                self._ends = []
        finally:
            self.crossings.depth -= 1

    def _finish(self, cost: int) -> None:
        """Go on from the positions of a level that cannot end in it: to those of the next one."""
        if self._finished > cost:
            return
        self._ahead_now = self._everywhere
        self._here += self._later
        self._later = []
        self._find(cost)
        self._ahead_now = self._ahead
        self._calls = [call for call in self._calls if more(call[0], cost + 1 - call[2] - call[3])]
        self._onward = [each for each in self._onward if more(each[0], cost + 1 - each[1])]
        self._here, self._next, self._done = self._next, [], [0, 0]
        self._finished = cost + 1
        if not self._here and not self._calls and not self._onward:
            self.closed = True

    def _find(self, cost: int) -> None:
        """Find one level. May be left where the search is given up, and taken up again."""
        here, done, crossings = self._here, self._done, self.crossings
        while True:
            if crossings.left < 0:
                raise Exhausted
            crossings.left -= 1
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

    def _visit(self, local: Local, node: int, cost: int) -> None:
        """Go on from a position, which has not been visited."""
        key = (local, node)
        if key in self._seen:
            return
        crossings, machine = self.crossings, self.machine
        if not self._ahead_now[node]:
            self._later.append(key)
            if machine.final(local):
                self._end(node, cost)
            return
        dag = crossings.dag
        calls = machine.calls(local)
        if calls and key != self.begin and crossings.divides and crossings.depth < MOST_DEPTH:
            self._go_on(local, node, cost)
            return
        self._seen.add(key)
        if not self._worthwhile(local, node, cost):
            return
        if node != dag.root and dag.ends[node]:
            self._begin(local, cost + 1)
        final = machine.final(local)
        if final:
            self._end(node, cost)
        body = None if calls or (final and not self.bottom) else machine.body(local)
        if body is not None:
            self._text(local, node, body, cost)
            return
        children = dag.children(node)
        for called, after in calls:
            start = called.start()
            if node == dag.root or crossings.least.may_begin(called, start, children):
                ending, beginning = crossings.least.of(machine, after, self.bottom)
                ahead = 0 if called.final(start) else max(ending, beginning - (not self.bottom))
                self._calls.append((crossings.of(called, start, node), after, cost, ahead, node))
        for low, high, target in machine.moves(local):
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
        """Visit a position in the middle of a token, if more of the token can be read there or the region may end."""
        dag = self.crossings.dag
        begin = self._begins.get(local)
        if begin is not None and cost + 1 >= begin + dag.rest[node]:
            return
        first = self.crossings.least.first(self.machine, local)
        if first is None or not first.isdisjoint(dag.children(node)):
            self._here.append((local, node))
        elif dag.ends[node]:
            self._begin(local, cost + 1)

    def _begin(self, local: Local, cost: int) -> None:
        """Visit a token's beginning at the next level."""
        if self._begins.get(local, cost + 1) > cost:
            self._begins[local] = cost
            self._next.append((local, self.crossings.dag.root))

    def _worthwhile(self, local: Local, node: int, cost: int) -> bool:
        """Whether a position may be better than a token's beginning in the same local state."""
        dag = self.crossings.dag
        if node == dag.root:
            self._begins[local] = min(cost, self._begins.get(local, cost))
            return True
        begin = self._begins.get(local)
        return begin is None or cost + 1 < begin + dag.rest[node]

    def _arrive(self, after: Local, node: int, cost: int, level: int, nothing_read: bool) -> None:
        """Go on after a region that has been called, at a level of this one not below the cost."""
        crossings = self.crossings
        near = cost == level and (nothing_read or not crossings.divides or crossings.depth >= MOST_DEPTH)
        if near:
            self._here.append((after, node))
        else:
            self._go_on(after, node, cost)

    def _go_on(self, local: Local, node: int, cost: int) -> None:
        """Let another crossing of the region go on."""
        key = (local, node)
        if key in self._seen or key == self.begin:
            return
        self._seen.add(key)
        if self._worthwhile(local, node, cost):
            self._onward.append((self.crossings.of(self.machine, local, node, self.bottom), cost))

    def _end(self, node: int, cost: int) -> None:
        dag = self.crossings.dag
        if node == dag.root:
            if self._exit is None:
                self._exit = cost
                self._ends.append(node)
        elif not self.bottom and node not in self._exits:
            if self._exit is not None and cost + 1 >= self._exit + dag.rest[node]:
                return
            self._exits.add(node)
            self._ends.append(node)

    # ------------------------------------------------------------ free text

    def _text(self, local: Local, node: int, body: LocalBody, cost: int) -> None:
        """Go on in free text by whole rests of tokens: to where one leaves the text, and to where one ends in it."""
        dag, machine = self.crossings.dag, self.machine
        text = self.crossings.dag.text(body.letters)
        steps = text.of(node, body.exceptions)
        most = FAR if body.most is None else body.most
        after: dict[int, Local] = {0: local}

        def state(count: int) -> Local:
            if body.most is None and body.settled is not None:
                count = min(count, body.settled)
            found = after.get(count)
            if found is None:
                found = after[count] = machine.after_letters(local, count)
            return found

        for byte in body.exceptions:
            child = dag.children(node).get(byte)
            if child is not None:
                for low, high, target in machine.moves(local):
                    if low <= byte <= high:
                        self._push(target, child, cost)
        bytes_out = self._bytes_out(body, state, text)
        for byte in steps.leaving.keys() if bytes_out is None else bytes_out & steps.leaving.keys():
            nodes = steps.leaving[byte]
            for child, counts in nodes:
                kinds: set[Leaving] = set()
                for count in counts:
                    if count > most:
                        break
                    leaving = self._moves_out(state(count), text)
                    if leaving in kinds:
                        continue
                    kinds.add(leaving)
                    for low, high, target in leaving:
                        if low <= byte <= high and (target, child) not in self._seen:
                            self._push(target, child, cost)
        needed, free = self._needed(body, state, text), most >= FAR
        for within, counts in steps.ends.items():
            for count in self._useful(counts, needed, most, free, state, text):
                spelled = text.spelled(within, b"" if count else body.exceptions)
                if within == 0 and node == dag.root and self._no_nearer(local, state(count), body, text):
                    continue
                target = self._run(state(count), spelled)
                if target is not None:
                    self._begin(target, cost + 1)

    def _bytes_out(self, body: LocalBody, state: Callable[[int], Local], text: TextTokens) -> set[int] | None:
        """The bytes that may leave the text after any number of letters; ``None`` if it takes long to say."""
        if body.most is not None or body.settled is None or body.settled > 2:
            return None
        leaving = [move for count in range(body.settled + 1) for move in self._moves_out(state(count), text)]
        return {byte for low, high, _ in leaving for byte in range(low, high + 1)}

    def _no_nearer(self, local: Local, after: Local, body: LocalBody, text: TextTokens) -> bool:
        """Whether letters have brought nothing: the text may be left here as it may be after them."""
        kind = self._kind(local, text)
        return not body.exceptions and (bool(kind[0]) or kind[1]) and kind == self._kind(after, text)

    def _kind(self, local: Local, text: TextTokens) -> tuple[Leaving, bool]:
        """How the text may end here."""
        return self._moves_out(local, text), self.machine.final(local)

    def _useful(
        self,
        counts: list[int],
        needed: int,
        most: int,
        free: bool,
        state: Callable[[int], Local],
        text: TextTokens,
    ) -> Iterator[int]:
        """Those of some counts of letters after which the text may soonest end."""
        counts = [count for count in counts if count <= most]
        fewer = [count for count in counts if count < needed]
        if fewer and (free or most - needed >= 2 * self.crossings.dag.longest):
            fewer = fewer[-1:]
        yield from fewer
        kinds: set[tuple[Leaving, bool]] = set()
        for count in counts:
            if count >= needed and (kind := self._kind(state(count), text)) not in kinds:
                kinds.add(kind)
                yield count

    def _needed(self, body: LocalBody, state: Callable[[int], Local], text: TextTokens) -> int:
        """The letters that must come before the text may end."""
        most = FAR if body.most is None else body.most

        def may_end(count: int) -> bool:
            local = state(count)
            return bool(self._moves_out(local, text)) or self.machine.final(local)

        low, high = -1, 0  # not after low letters; after high?
        while not may_end(high):
            if high >= most:
                return FAR
            low, high = high, min(most, max(1, 2 * high))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if may_end(middle) else (middle, high)
        return high

    def _moves_out(self, local: Local, text: TextTokens) -> Leaving:
        """The moves that leave free text."""
        found = self._leaving.get(local)
        if found is None:
            parts: list[tuple[int, int, Local]] = []
            for low, high, target in self.machine.moves(local):
                begin = None
                for byte in range(low, high + 2):
                    out = byte <= high and not text.begins[byte]
                    if out and begin is None:
                        begin = byte
                    elif not out and begin is not None:
                        parts.append((begin, byte - 1, target))
                        begin = None
            found = self._leaving[local] = tuple(parts)
        return found

    def _run(self, local: Local, text: bytes) -> Local | None:
        """The local state after some bytes."""
        for byte in text:
            for low, high, target in self.machine.moves(local):
                if low <= byte <= high:
                    local = target
                    break
            else:
                return None
        return local


def more(crossing: Crossing, cost: int) -> bool:
    """Whether a crossing may have ways of some cost or more."""
    return not crossing.closed or cost < len(crossing.levels)


class Least:
    """Lower bounds of crossings, from the texts that must still be read in a region."""

    def __init__(self, crossings: Crossings) -> None:
        self.crossings = crossings
        self._of: dict[tuple[int, Local, bool], tuple[int, int]] = {}
        self._parts: dict[tuple[Machine, bool], tuple[int, int]] = {}
        self._first: dict[tuple[int, Local], frozenset[int] | None] = {}

    def of(self, machine: Machine, local: Local, bottom: bool = False) -> tuple[int, int]:
        """The fewest tokens that end, and the fewest that begin, between a local state and the end of the region; a
        ``bottom`` one ends where a token ends."""
        key = (id(machine), local, bottom)
        found = self._of.get(key)
        if found is None:
            self._of[key] = 0, 0  # where it comes back to itself
            sums = [self._together(each, bottom) for each in machine.to_come(local)]
            found = self._of[key] = tuple(map(min, zip(*sums, strict=True))) if sums else (0, 0)
        return found

    def _together(self, texts: ToCome, bottom: bool) -> tuple[int, int]:
        """The same of some texts together."""
        whole, begun = [
            [(self._part(followed), self._part(last, bottom)) for followed, last in some] for some in texts
        ]
        sums = []
        for k in (0, 1):
            found = sum(followed[k] for followed, _ in whole + begun)
            other = int(bottom and k == 0)  # at least, of another text that is the last
            found += min([other, *(last[k] - followed[k] for followed, last in whole + begun)])
            sums.append(max(0, found - max([max(each[k] for each in pair) for pair in begun], default=0)))
        return sums[0], sums[1]

    def _part(self, part: Machine, bottom: bool = False) -> tuple[int, int]:
        """The same of one text, whatever stands around it."""
        key = (part, bottom)
        if key not in self._parts:
            self._parts[key] = 0, 0
            left, depth = self.crossings.left, self.crossings.depth
            self.crossings.left, self.crossings.depth = MOST_POSITIONS // 10, 0
            self._parts[key] = self._across(part, bottom)
            self.crossings.left, self.crossings.depth = left, depth
        return self._parts[key]

    def _across(self, part: Machine, bottom: bool) -> tuple[int, int]:
        dag, start, kinds = self.crossings.dag, part.start(), dict[object, int]()
        first = self.first(part, start)
        for node in [dag.root, *dag.nodes_after(part.begins_after)]:
            children = dag.children(node)
            read = children if first is None else sorted(first & children.keys())
            kinds.setdefault((node == dag.root, dag.ends[node], *((b, children[b]) for b in read)), node)
        ways = [self.crossings.of(part, start, node, bottom) for node in kinds.values()]
        ending = beginning = NEVER
        cost = 0
        with suppress(Exhausted):
            while ending == NEVER or cost <= beginning:
                for way in ways:
                    if ends := way.level(cost):
                        ending = min(ending, cost)
                        begun = cost + (dag.root not in ends) - (way.begin[1] != dag.root)
                        beginning = min(beginning, begun)
                if all(way.closed for way in ways):
                    break
                cost += 1
        return min(ending, cost), max(0, min(beginning, cost - 1))

    def may_begin(self, machine: Machine, local: Local, children: dict[int, int]) -> bool:
        """Whether a token that goes on with one of some bytes can be read, or nothing need be read."""
        first = self.first(machine, local)
        return first is None or any(byte in children for byte in first)

    def first(self, machine: Machine, local: Local) -> frozenset[int] | None:
        """The bytes that may come first; ``None`` where there may be none."""
        key = (id(machine), local)
        if key not in self._first:
            self._first[key] = None
            self._first[key] = self._bytes(machine.divided(), local)
        return self._first[key]

    def _bytes(self, machine: Machine, local: Local) -> frozenset[int] | None:
        if machine.final(local):
            return None
        found = {byte for low, high, _ in machine.moves(local) for byte in range(low, high + 1)}
        for called, _ in machine.calls(local):
            more = self.first(called, called.start())
            if more is None:
                return None
            found |= more
        return frozenset(found)
