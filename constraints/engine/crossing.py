"""The cheapest text from a configuration to acceptance: one search.

A weighted automaton says what each byte costs. Reading a node from one of its states to another is a *derivation*: of the
bytes that a frame reads itself and of the nodes that it calls. The least costs of derivations are found in ascending order,
by Knuth's generalisation of Dijkstra's algorithm (1977, "A generalization of Dijkstra's algorithm"):

    item      (activation, register, state): a frame that was entered in a state of the automaton, and where it is now
    exit      the state in which an activation ends; it moves each caller on, at its cost plus the caller's
    weight    (cost, bytes, text): the cheapest text, of those the shortest, of those the first in the order of bytes

An activation is (node, register, state) at entry, and is searched once, whoever calls it. Observers are part of the state:
what they keep is moved by each byte like the automaton.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from .. import limits
from ..program.node import Kind, Node
from ..vocabulary.trie import Trie
from . import kinds, observers
from .observers import Environment, Memory
from .stack import Stack


class State(NamedTuple):
    """A state of a weighted automaton, with what observers keep."""

    place: int
    environment: Environment


class Weight(NamedTuple):
    """A cost, and the text that has it."""

    cost: int
    length: int
    text: bytes

    def then(self, other: Weight) -> Weight:
        """Return the weight of this text followed by another."""
        return Weight(self.cost + other.cost, self.length + other.length, self.text + other.text)


SEARCH_ITEMS = 100 * limits.POSITIONS
"""Items of one search."""
SPARE = (4, 0)
"""Items still to come that must differ, for which a search is exact."""
NO_TEXT = Weight(0, 0, b"")


class Weighted(Protocol):
    """A weighted automaton over bytes; a text starts and ends in place 0."""

    def read(self, state: State, low: int, high: int) -> Iterator[tuple[int, int, State]]:
        """Yield (cost, byte, state after) for the bytes of a range; of equal moves, one is enough."""


class PerByte:
    """Each byte costs 1."""

    def read(self, state: State, low: int, high: int) -> Iterator[tuple[int, int, State]]:
        """Yield the moves of a range of bytes; those that lead nowhere else than a smaller byte are left out."""
        seen, most = set[Environment](), observers.most_beginnings(state.environment, SPARE[0])
        for byte in range(low, high + 1 if state.environment else low + 1):
            if most is not None and len(seen) > most:
                break  # the rest would be needless
            after = observers.read(state.environment, byte)
            if after is not None and after not in seen:
                seen.add(after)
                yield 1, byte, State(0, after)


class PerToken:
    """Each token costs 1: places are nodes of the vocabulary's trie, and where a token ends, a new one may begin."""

    def __init__(self, trie: Trie) -> None:
        self.trie = trie

    def read(self, state: State, low: int, high: int) -> Iterator[tuple[int, int, State]]:
        """Yield the moves of a range of bytes: on in the token, and to the end of a token."""
        for byte, child in self.trie.children(state.place).items():
            if low <= byte <= high:
                after = observers.read(state.environment, byte)
                if after is not None:
                    yield 0, byte, State(child, after)
                    if self.trie.views.own[child]:
                        yield 1, byte, State(0, observers.token_end(after))


class GivenUp(Exception):
    """A search took more items than its limit."""


@dataclass(eq=False)
class Activation:
    """A frame that was entered in a state of the automaton: its exits, and who waits for them.
    ``before``: the weight of the cheapest text that leads there."""

    node: Node | None  # None: a stack is read to its bottom
    before: Weight
    exits: dict[State, Weight] = field(default_factory=dict)
    callers: list[tuple[Activation, Hashable, Weight]] = field(default_factory=list)  # register after it
    settled: dict[Hashable, list[Memory]] = field(default_factory=dict)


class Search:
    """A search for the cheapest text from one configuration; it takes at most ``limit`` items.

    ``spare``: a completion with at most so many further items of one ``APART`` is found if it is the cheapest. With more it
    may be missed: there are exponentially many sets of texts. What is found is a completion in any case.
    """

    def __init__(self, automaton: Weighted, limit: int, spare: int) -> None:
        self.automaton, self.limit, self.spare = automaton, limit, spare
        # the weight of the whole text so far, and that of the activation's part of it
        self._queue: list[tuple[Weight, int, Weight, Activation, Hashable, State]] = []
        self._number = itertools.count()
        self._activations: dict[tuple[Node, Hashable, State], Activation] = {}

    def cheapest(self, configuration: frozenset[tuple[Stack | None, Environment]]) -> Weight | None:
        """Return the weight of the cheapest text to acceptance, None if there is none. Raises ``GivenUp``."""
        root, left = Activation(None, NO_TEXT), self.limit
        for stack, environment in configuration:
            self._push(NO_TEXT, root, stack, State(0, environment))
        while self._queue:
            _, _, weight, activation, register, state = heapq.heappop(self._queue)
            found = observers.memory(state.environment, _goes_on(activation, register))
            settled = activation.settled.setdefault((register, state.place, found.rest), [])
            if observers.is_needless(found, settled, self.spare):
                continue
            if left == 0:
                raise GivenUp
            left -= 1
            settled.append(found)
            if activation is not root:
                self._settle(weight, activation, register, state)
            elif isinstance(register, Stack):
                self._call(weight, root, register.below, register.node, register.register, state)
            elif state.place == 0:
                return weight
        return None

    def _push(self, weight: Weight, activation: Activation, register: Hashable, state: State) -> None:
        whole = activation.before.then(weight)
        heapq.heappush(self._queue, (whole, next(self._number), weight, activation, register, state))

    def _settle(self, weight: Weight, activation: Activation, register: Hashable, state: State) -> None:
        """Follow an item whose least weight is known; register None: nothing is left but the end."""
        node = activation.node
        assert node is not None
        if register is None or kinds.ends(node, register):
            outside = observers.leave(node, state.environment)
            if outside is not None:
                self._exit(weight, activation, State(state.place, outside))
        if register is None:
            return
        for low, high, after in kinds.reads(node, register):
            for cost, byte, target in self.automaton.read(state, low, high):
                self._push(weight.then(Weight(cost, 1, bytes([byte]))), activation, after, target)
        inside = State(state.place, observers.enter(node, state.environment))
        for called, next_register in kinds.calls(node, register):
            self._call(weight, activation, next_register, called, kinds.begin(called), inside)

    def _call(
        self,
        weight: Weight,
        caller: Activation,
        after: Hashable,
        node: Node,
        register: Hashable,
        state: State,
    ) -> None:
        """Let an item wait for the exits of a frame, and go on from those that are known."""
        key = node, register, state
        called = self._activations.get(key)
        if called is None:
            called = self._activations[key] = Activation(node, caller.before.then(weight))
            self._push(NO_TEXT, called, register, state)
        called.callers.append((caller, after, weight))
        for target, found in called.exits.items():
            self._push(weight.then(found), caller, after, target)

    def _exit(self, weight: Weight, activation: Activation, state: State) -> None:
        if state not in activation.exits:
            activation.exits[state] = weight
            for caller, after, before in activation.callers:
                self._push(before.then(weight), caller, after, state)


def _goes_on(activation: Activation, register: Any) -> bool:
    """Return whether a frame is in the middle of what it reads itself, so that a number may go on."""
    node = activation.node
    if isinstance(register, Stack):
        node, register = register.node, register.register
    if node is None or register is None:
        return False
    return node.kind in (Kind.LEX, Kind.COUNT) or (node.kind is Kind.BAG and register[-1] != 0)


def cheapest(
    automaton: Weighted, configuration: frozenset[tuple[Stack | None, Environment]]
) -> Weight | None:
    """Return the weight of the cheapest text to acceptance, None if there is none or none was found.

    Exact up to :data:`SPARE`'s largest number of further items that must differ. Where that search takes too many items, of
    smaller numbers the first that does not gives an upper bound.
    """
    for spare in SPARE:
        with suppress(GivenUp):
            return Search(automaton, SEARCH_ITEMS, spare).cheapest(configuration)
    return None
