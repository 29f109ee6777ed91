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

from ..automata.stack import Local, LocalBody, Machine
from .token_dag import FAR, TextTokens, TokenDag

MOST_POSITIONS = 50_000  # of one search
Leaving = tuple[tuple[int, int, Local], ...]
Key = tuple[int, Local, int, bool]


class Exhausted(Exception):
    """The search has looked at as many positions as it may."""


class Crossings:
    """All crossings found so far, for one vocabulary; only those of the essential machines, if wanted."""

    def __init__(self, dag: TokenDag, essential: bool = False) -> None:
        self.dag, self.essential = dag, essential
        self.left = MOST_POSITIONS
        self._found: dict[Key, Crossing] = {}
        self._machines: dict[int, Machine] = {}  # kept alive: crossings are known by their identity
        self._texts: dict[int, tuple[object, TextTokens]] = {}

    def of(self, machine: Machine, local: Local, node: int, bottom: bool = False) -> Crossing:
        """The crossing of a machine from a local state to its end; a ``bottom`` one ends where a token ends."""
        key = (id(machine), local, node, bottom)
        found = self._found.get(key)
        if found is None:
            self._machines[id(machine)] = machine
            some = machine.essential() if self.essential else machine
            found = self._found[key] = Crossing(self, some, local, node, bottom)
        return found

    def spend(self) -> None:
        """Count one position. Raises :class:`Exhausted` when there have been too many."""
        self.left -= 1
        if self.left < 0:
            self._found.clear()  # what was being looked at is incomplete
            raise Exhausted

    def text(self, body: LocalBody) -> TextTokens:
        """What the tokens do in free text."""
        found = self._texts.get(id(body.letters))
        if found is None:
            found = body.letters, TextTokens.of_letters(self.dag, body.letters)
            self._texts[id(body.letters)] = found
        return found[1]


class Crossing:
    """The ways across one region from one node, by their cost: 0, 1, … tokens, found when they are asked for."""

    def __init__(self, crossings: Crossings, machine: Machine, local: Local, node: int, bottom: bool) -> None:
        self.crossings, self.machine, self.bottom = crossings, machine, bottom
        last = machine.ends_with
        self.most_rest = crossings.dag.most_rest if last is None else crossings.dag.rest_after(last)
        if node != crossings.dag.root:  # where nothing is read
            self.most_rest = max(self.most_rest, crossings.dag.rest[node])
        self.levels: list[list[int]] = []  # the nodes at which the region ends, by cost
        self.closed = False  # whether all that matter are known
        self._exit: int | None = None  # the cost of ending where a token ends
        self._exits: set[int] = set()
        self._seen: set[tuple[Local, int]] = set()
        self._begins: dict[Local, int] = {}  # the cost of a token's beginning, by local state
        self._next: list[tuple[Local, int]] = [(local, node)]
        self._calls: list[tuple[Crossing, Local, int]] = []
        self._leaving: dict[Local, Leaving] = {}

    def level(self, cost: int) -> list[int]:
        """The nodes at which the region can end with so many tokens, and not with fewer."""
        while len(self.levels) <= cost and not self.closed:
            self._advance()
        return self.levels[cost] if cost < len(self.levels) else []

    def _advance(self) -> None:
        cost, here = len(self.levels), self._next
        if self._exit is not None and cost + 1 >= self._exit + self.most_rest:
            self.closed = True
            return
        self._next = []
        self.crossings.spend()
        found: list[int] = []
        calls = self._calls
        self._calls = [call for call in calls if not call[0].closed or cost - call[2] < len(call[0].levels)]
        done = 0
        while True:
            while here:
                local, node = here.pop()
                self._visit(local, node, cost, here, found)
            if done == len(self._calls):
                break
            crossing, after, begin = self._calls[done]
            done += 1
            here += [(after, node) for node in crossing.level(cost - begin)]
        if not self._next and not self._calls:
            self.closed = True
        self.levels.append(found)

    def _visit(
        self, local: Local, node: int, cost: int, here: list[tuple[Local, int]], found: list[int]
    ) -> None:
        """Go on from a position: ``here`` gets those that cost nothing more, ``found`` the node if the region ends."""
        key = (local, node)
        if key in self._seen:
            return
        self._seen.add(key)
        self.crossings.spend()
        dag, machine = self.crossings.dag, self.machine
        if node == dag.root:
            self._begins[local] = cost
        else:
            begin = self._begins.get(local)
            if begin is not None and cost + 1 >= begin + dag.rest[node]:
                return
            if dag.ends[node]:
                self._next.append((local, dag.root))
        final = machine.final(local)
        if final:
            self._end(node, cost, found)
        calls = machine.calls(local)
        body = None if calls or (final and not self.bottom) else machine.body(local)
        if body is not None:
            self._text(local, node, body, here)
            return
        for called, after in calls:
            crossing = self.crossings.of(called, called.start(), node)
            self._calls.append((crossing, after, cost))
        children = dag.children(node)
        for low, high, target in machine.moves(local):
            if low == high:
                child = children.get(low)
                if child is not None:
                    here.append((target, child))
            elif high - low < len(children):
                for byte in range(low, high + 1):
                    child = children.get(byte)
                    if child is not None:
                        here.append((target, child))
            else:
                here += [(target, child) for byte, child in children.items() if low <= byte <= high]

    def _end(self, node: int, cost: int, found: list[int]) -> None:
        dag = self.crossings.dag
        if node == dag.root:
            if self._exit is None:
                self._exit = cost
                found.append(node)
        elif not self.bottom and node not in self._exits:
            if self._exit is not None and cost + 1 >= self._exit + dag.rest[node]:
                return
            self._exits.add(node)
            found.append(node)

    # ------------------------------------------------------------ free text

    def _text(self, local: Local, node: int, body: LocalBody, here: list[tuple[Local, int]]) -> None:
        """Go on in free text by whole rests of tokens: to where one leaves the text, and to where one ends in it."""
        dag, machine = self.crossings.dag, self.machine
        text = self.crossings.text(body)
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
                        here.append((target, child))
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
                            here.append((target, child))
        needed, free = self._needed(body, state, text), most >= FAR
        for within, counts in steps.ends.items():
            for count in self._useful(counts, needed, most, free, state, text):
                spelled = text.spelled(within, b"" if count else body.exceptions)
                if within == 0 and node == dag.root and self._no_nearer(local, state(count), body, text):
                    continue
                target = self._run(state(count), spelled)
                if target is not None:
                    self._next.append((target, dag.root))

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
