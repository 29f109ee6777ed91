"""Member names as they are read: a trie of declared names beside machines of classes of names.

    state = (node of the trie or −1, local state of each class or None)

Where names have several spellings, the trie has a root, and the state has the classes, for each of them.

The number −2 − i stands for a node at which the declared name i ends and from which no longer declared name goes on: see
:meth:`Keys.alike`.

An alternative is a bit: declared names come first, then classes. A declared name belongs to no class.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from ... import limits
from ...automata.machines import DfaMachine
from ...automata.region import Local, LocalBody, Machine
from ...automata.sharing import Prefixes
from ..shapes import Strings
from ..text import Spelling, Ways
from .letters import merged_rows
from .texts import FreeText, inside

State = tuple[int, tuple[Local, ...]]
MOST_SPELLINGS = 8  # the most encodings of the rest of a name that are listed


class Trie:
    """A trie of names in all their encodings; the encodings of a character end in one node.
    ``roots``: the first node of each spelling. The nodes of the first spelling come first, and its root is 0."""

    def __init__(self, names: Sequence[str], spellings: Sequence[Spelling]) -> None:
        self.children: list[dict[int, int]] = []
        self.end: dict[int, int] = {}
        self.roots: list[int] = []
        for spelling in spellings:
            self.roots.append(self.node())
            self.add_names(names, spelling)
        self.closings = [spelling.closing for spelling in spellings]
        self._spellings: dict[tuple[int, int], list[bytes]] = {}
        self.reach = [1 << self.end[n] if n in self.end else 0 for n in range(len(self.children))]
        self._reach()

    def add_names(self, names: Sequence[str], spelling: Spelling) -> None:
        """Add the names below the last root."""
        after: dict[tuple[int, str], int] = {}
        for i, name in enumerate(names):
            node = self.roots[-1]
            if not all(map(spelling.ways, name)):
                continue  # it has a surrogate
            for char in name:
                ways = spelling.ways(char)
                if len(ways) == 1 and len(ways[0]) == 1:
                    choices = ways[0][0]
                    node = self.link(node, choices, self.children[node].get(choices[0]))
                    continue
                if (node, char) not in after:
                    self.add(node, char, ways, after)
                node = after[node, char]
            self.end[node] = i

    def spelling(self, node: int) -> int:
        """Return the number of the spelling that a node belongs to."""
        return bisect_right(self.roots, node) - 1

    def add(self, node: int, char: str, spellings: Ways, after: dict[tuple[int, str], int]) -> None:
        """Add a character of several bytes or spellings after a node."""
        after[node, char] = end = self.node()
        for way in spellings:
            here = node
            for choices in way[:-1]:
                found = self.children[here].get(choices[0])
                here = self.link(here, choices, found)
            self.link(here, way[-1], end)

    def node(self) -> int:
        """Add a node and return it."""
        self.children.append({})
        return len(self.children) - 1

    def link(self, node: int, choices: Sequence[int], end: int | None) -> int:
        """Let these bytes lead from a node to ``end`` (``None``: a new node); return that."""
        if end is not None and len(choices) == 1 and self.children[node].get(choices[0]) == end:
            return end
        end = self.node() if end is None else end
        for byte in choices:
            self.children[node][byte] = end
        return end

    def path(self, node: int, name: int) -> bytes:
        """Return the bytes from a node to the end of a name."""
        out = bytearray()
        while self.end.get(node) != name:
            node, byte = next((to, b) for b, to in self.children[node].items() if self.reach[to] >> name & 1)
            out.append(byte)
        return bytes(out)

    def spellings(self, node: int, name: int) -> Sequence[bytes]:
        """Return the encodings of the rest of a name from a node on, with the quote after it.
        The list is empty if they are too many."""
        key = (node, name)
        if (found := self._spellings.get(key)) is None:
            todo, out = [(node, b"")], list[bytes]()
            closing = bytes((self.closings[self.spelling(node)],))
            while todo and len(todo) + len(out) <= MOST_SPELLINGS:
                here, text = todo.pop()
                if self.end.get(here) == name:
                    out.append(text + closing)
                    continue
                ways = self.children[here].items()
                todo += [(to, text + bytes([byte])) for byte, to in ways if self.reach[to] >> name & 1]
            found = self._spellings[key] = [] if todo else out
        return found

    def _reach(self) -> None:
        """Compute for each node the names that end at or below it, as bits."""
        before: list[list[int]] = [[] for _ in self.children]
        for node, children in enumerate(self.children):
            for child in children.values():
                before[child].append(node)
        stack = list(self.end)
        while stack:
            node = stack.pop()
            for source in before[node]:
                if self.reach[node] & ~self.reach[source]:
                    self.reach[source] |= self.reach[node]
                    stack.append(source)


class Keys:
    """The names of an object: declared ones, and classes of others."""

    def __init__(
        self, names: Sequence[str], classes: Sequence[Strings], spellings: tuple[Spelling, ...]
    ) -> None:
        self.names, self.spellings = tuple(names), spellings
        self.trie = Trie(names, spellings)
        self.classes: tuple[Machine, ...] = tuple(inside(kind, s) for s in spellings for kind in classes)
        self.num_classes = len(classes)
        self.bits = tuple(1 << len(names) + i for i in range(len(classes))) * len(spellings)
        self._rows: dict[State, list[tuple[int, int, State, int]]] = {}
        self._free: dict[tuple[int, Local, int], bytes | None] = {}
        self.graphs: dict[
            int, Any
        ] = {}  # of all names, by the classes that are allowed: see object_graphs.py
        self._observed: dict[tuple[int, Prefixes], list[tuple[int, int]]] = {}

    def start(self, allowed: int, spelling: int = 0) -> State:
        """Return the state before a name of the allowed alternatives, after the opening quote."""
        first = spelling * self.num_classes
        here = range(first, first + self.num_classes)
        classes = enumerate(zip(self.classes, self.bits, strict=True))
        started = [m.start() if allowed & bit and i in here else None for i, (m, bit) in classes]
        return self.trie.roots[spelling], tuple(started)

    def spelling(self, state: State) -> int:
        """Return the number of the spelling that a state within a name belongs to."""
        if len(self.spellings) == 1:
            return 0
        node, classes = state
        if node >= 0:
            return self.trie.spelling(node)
        return next(i for i, local in enumerate(classes) if local is not None) // self.num_classes

    def closing(self, state: State) -> int:
        """Return the byte that ends a name."""
        return self.trie.closings[self.spelling(state)]

    def marks(self, state: State) -> int:
        """Return the alternatives whose name ends here, as bits."""
        node, classes = state
        if node < -1:
            return 1 << -2 - node
        if node in self.trie.end:
            return 1 << self.trie.end[node]
        found = 0
        for machine, bit, local in zip(self.classes, self.bits, classes, strict=True):
            if local is not None and machine.final(local):
                found |= bit
        return found

    def reach(self, state: State) -> int:
        """Return the alternatives whose names may still be completed, as bits."""
        node, classes = state
        found = self.trie.reach[node] if node >= 0 else 0
        for i, local in enumerate(classes):
            if local is not None and (node < 0 or self.is_free(i, local, node)):
                found |= self.bits[i]
        return found

    def is_free(self, i: int, local: Local, node: int) -> bool:
        """Return whether an undeclared name of a class can be completed from here."""
        if isinstance(self.classes[i], FreeText) and self.classes[i].most is None:  # type: ignore[attr-defined]
            return True
        return self.first_text(i, local, node) is not None

    def first_text(self, i: int, local: Local, node: int) -> bytes | None:
        """Return a short rest of an undeclared name of a class, ``None`` if there is none."""
        key = (i, local, node)
        if key not in self._free:
            machine = self.classes[i]
            self._free[key] = (
                machine.completion(local) if node < 0 else next(self._texts(i, local, node), None)
            )
        return self._free[key]

    def texts(self, i: int, local: Local, node: int) -> Iterator[bytes]:
        """Yield rests of undeclared names of a class, short ones first."""
        first = self.first_text(i, local, node)
        if first is not None:
            yield first
            yield from (text for text in self._texts(i, local, node) if text != first)

    def _texts(self, i: int, local: Local, node: int) -> Iterator[bytes]:
        """Search the rests of undeclared names, without the cache of the first one."""
        machine, children, ends = self.classes[i], self.trie.children, self.trie.end

        def moves(state: Any) -> Iterator[tuple[int, Any]]:
            local, node = state
            for low, high, after in machine.moves(local):
                for byte in range(low, high + 1):
                    yield byte, (after, children[node].get(byte, -1) if node >= 0 else -1)

        return accepted(
            (local, node),
            moves,
            lambda state: machine.final(state[0]) and state[1] not in ends,
            lambda state: machine.completion_size(state[0]),
        )

    def rows(self, state: State) -> list[tuple[int, int, State, int]]:
        """Return the transitions within a name.
        Each is (low, high, state after such a byte, the alternatives reached, as bits)."""
        if (found := self._rows.get(state)) is None:
            found = self._rows[state] = list(self._row(state))
        return found

    def _row(self, state: State) -> Iterator[tuple[int, int, State, int]]:
        node, classes = state
        children = self.trie.children[node] if node >= 0 else {}
        moves = [() if c is None else m.moves(c) for m, c in zip(self.classes, classes, strict=True)]
        cuts = {c for found in moves for low, high, _ in found for c in (low, high + 1)}
        cuts |= {c for byte in children for c in (byte, byte + 1)}
        places = [0] * len(moves)
        points = sorted(cuts)
        for low, end in pairwise(points):
            after: list[Local] = []
            for i, found in enumerate(moves):
                while places[i] < len(found) and found[places[i]][1] < low:
                    places[i] += 1
                here = places[i] < len(found) and found[places[i]][0] <= low
                after.append(found[places[i]][2] if here else None)
            target = (children.get(low, -1), tuple(after))
            if reach := self.reach(target):
                yield low, end - 1, target, reach

    def step(self, state: State, byte: int, allowed: int) -> State | None:
        """Return the state after one byte of a name; ``None`` if it may not come."""
        node, classes = state
        target = self.trie.children[node].get(byte, -1) if node >= 0 else -1
        if self.classes:
            pairs = zip(self.classes, classes, strict=True)
            classes = tuple([local if local is None else m.step(local, byte) for m, local in pairs])
            return (target, classes) if self.reach((target, classes)) & allowed else None
        return (target, classes) if target >= 0 and self.trie.reach[target] & allowed else None

    def moves(self, state: State, allowed: int) -> list[tuple[int, int, State]]:
        """Return the moves within a name to states from which an allowed name can be completed."""
        return merged_rows([(low, high, to) for low, high, to, reach in self.rows(state) if reach & allowed])

    def body(self, state: State, allowed: int) -> LocalBody | None:
        """Return the free text that a state is in, if all possible classes have the same."""
        node, classes = state
        found: LocalBody | None = None
        some = 0
        for machine, local, bit in zip(self.classes, classes, self.bits, strict=True):
            if local is not None:
                each = machine.body(local)
                if each is None or each.most is not None or each.exceptions:
                    return None
                if found and found.letters is not each.letters:
                    return None
                if found:
                    leaves = None if found.leaves is None else each.leaves
                    each = each._replace(settled=max(each.settled or 1, found.settled or 1), leaves=leaves)
                found, some = each, some | bit
        if found is None or not allowed & some:
            return None
        exceptions = bytes(sorted(self.trie.children[node])) if node >= 0 else b""
        leaves = None if found.leaves is None else bytes((self.closing(state),))
        return found._replace(exceptions=exceptions, leaves=leaves)

    def after_letters(self, state: State, count: int) -> State:
        """Return the state after some letters of :meth:`body`."""
        if not count:
            return state
        pairs = zip(self.classes, state[1], strict=True)
        return -1, tuple([c if c is None else m.after_letters(c, count) for m, c in pairs])

    def longest(self, i: int) -> int:
        """Return an upper bound of the bytes to the end of an undeclared name of a class."""
        machines = self.classes[i :: self.num_classes]
        longest = [m.nfa.num_states if isinstance(m, DfaMachine) else m.longest for m in machines]
        most = max([1 << 20 if each is None else each for each in longest])
        # free text: not all texts of this length are declared; otherwise a shortest rest repeats no (state, node)
        return most + 3 if isinstance(machines[0], FreeText) else most * (len(self.trie.children) + 1)

    def free(self, state: State, allowed: int) -> bool:
        """Return whether any text of any length may follow in the name."""
        for machine, bit, local in zip(self.classes, self.bits, state[1], strict=True):
            if local is not None and allowed & bit and isinstance(machine, FreeText) and machine.most is None:
                return True
        return False

    def observed(self, node: int, prefixes: Prefixes) -> list[tuple[int, int]]:
        """Return the declared names that a token can complete from a node on, including the quote.
        Each is given as (node of the tokens' prefixes, name)."""
        found = self._observed.get((node, prefixes))
        if found is None:
            found, todo, seen = [], [(node, 0)], {(node, 0)}
            closing = self.trie.closings[self.trie.spelling(node)]
            while todo:
                here, at = todo.pop()
                children = prefixes.children(at)
                if here in self.trie.end and closing in children:
                    found.append((at, self.trie.end[here]))
                for byte, below in self.trie.children[here].items():
                    if byte in children and (pair := (below, children[byte])) not in seen:
                        seen.add(pair)
                        todo.append(pair)
            self._observed[node, prefixes] = found
        return found

    def alike(self, state: State, allowed: int, prefixes: Prefixes) -> State:
        """Return a state from which the same tokens can be read.
        It has fewer declared names ahead where that is possible."""
        node, classes = state
        if node < 0 or not self.free(state, allowed):
            return state
        ends = self.observed(node, prefixes)
        if any(at for at, _ in ends):
            return state
        return (-2 - ends[0][1] if ends else -1), classes

    def view(self, state: State, reach: int) -> Any:
        """See ``Machine.view``."""
        pairs = zip(self.classes, state[1], strict=True)
        return state[0], tuple([c if c is None else m.view(c, reach) for m, c in pairs])


def accepted(
    start: Any,
    moves: Callable[[Any], Iterator[tuple[int, Any]]],
    final: Callable[[Any], bool],
    left: Callable[[Any], int],
) -> Iterator[bytes]:
    """Yield the texts from a state to a final one, short ones first, until a limit on the search.
    ``left``: the bytes of a short completion of a state."""
    count = 0
    heap: list[tuple[int, int, int, bytes, Any]] = [(left(start), 0, 0, b"", start)]
    while heap and count < 20 * limits.POSITIONS:
        _, _, _, text, state = heapq.heappop(heap)
        if final(state):
            yield text
        for byte, after in moves(state):
            count += 1
            size = len(text) + 1
            heapq.heappush(heap, (size + left(after), -size, count, text + bytes([byte]), after))
