"""The engine (``core/``) of each vocabulary, and how it is asked within limits.

What the engine finds out about a node, it keeps for all constraints of a vocabulary, up to :data:`MOST_BYTES`; then a new engine
takes over, and the old one goes with its last row. One that a single constraint fills keeps twice what that takes to start, as a
new one would have to find all of it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from ..._core import LIMITS, SLICE, Automaton, Core, Exhausted, LimitPassed, Trie, allow, used
from ...errors import TooManyStates
from ..automata import request_limits
from ..program.counting import alive
from ..program.node import Kind, Node
from ..program.tables import Table
from ..vocabulary.vocabulary import Vocabulary

CORE = SimpleNamespace(**LIMITS)
"""The constants of the engine that can change an answer; `limits.TABLE` says how."""

T = TypeVar("T")
MOST_BYTES = 1 << 28
"""What one engine keeps, in bytes, at most, before a new one takes over."""
MOST_VOCABULARIES = 3
"""Vocabularies whose engine is kept for later constraints."""


class CoreEngine:
    """One engine over a prefix tree, with the tables and nodes that it was given."""

    def __init__(self, trie: Trie) -> None:
        self.core = Core(trie)
        self.most = MOST_BYTES
        self._tables: dict[Table, int] = {}
        self._nodes: dict[Node, int] = {}
        self._lock = Lock()

    @property
    def full(self) -> bool:
        """Whether its caches take more than :data:`MOST_BYTES` and more than twice what one constraint needs to start."""
        return bool(self.core.bytes() > self.most)

    def automaton(self, number: int, spelled: bool, ends: bool) -> Automaton:
        """Return the automaton over tokens of a node, given by its number.

        ``spelled``: whether tokens can write every byte that it reads, and no part has a budget. ``ends``: whether a text is
        finished only by the end token. Raises ``TooManyStates``.
        """
        before = self.core.bytes()
        found = within_limits(Automaton)(self.core, number, spelled, ends)
        self.most = max(self.most, 2 * (self.core.bytes() - before))
        return found

    def node(self, root: Node, program: Sequence[Node]) -> int:
        """Hand the nodes of a program to the engine, parts first; return the number of its root there."""
        with self._lock:
            for node in program:
                if node not in self._nodes:
                    self._nodes[node] = self._add(node)
            for node in program:  # all of them: an earlier program may have been stopped on the way
                if node.kind is Kind.RULE:
                    self.core.define(self._nodes[node], self._nodes[node.parts[0]])
            return self._nodes[root]

    def _add(self, node: Node) -> int:
        return int(
            self.core.add_node(
                int(node.kind),
                [] if node.kind is Kind.RULE else [self._nodes[part] for part in node.parts],
                [self._table(each) for each in node.tables],
                node.low,
                -1 if node.high is None else node.high,
                [label for label in range(node.required.bit_length()) if node.required >> label & 1],
                node.members,
                node.ordered,
                alive(node) if node.kind is Kind.COUNT else None,
            )
        )

    def _table(self, table: Table) -> int:
        if table not in self._tables:
            base = -1 if table.base is None else self._table(table.base)
            self._tables[table] = self.core.add_table(table, base)
        return self._tables[table]


class Shared:
    """The prefix tree of a vocabulary, and the engine that constraints get at present."""

    def __init__(self, vocab: Vocabulary) -> None:
        trie = vocab.trie
        arrays = trie.first, trie.low, trie.own, trie.order
        first, low, own, order = (each.astype(np.int32) for each in arrays)
        texts = [word or b"" for word in vocab.token_bytes]
        self._trie = Trie(trie.byte, first, low, own, order, texts, vocab.eos_token_id)
        self.engine = CoreEngine(self._trie)

    def renew(self) -> None:
        """Let a new engine take over, if this one is full."""
        if self.engine.full:
            self.engine = CoreEngine(self._trie)


_shared: OrderedDict[str, Shared] = OrderedDict()  # by vocabulary, the latest last
_lock = Lock()


def engine_of(vocab: Vocabulary) -> CoreEngine:
    """Return the engine of a vocabulary, a new one if there is none or it is full."""
    with _lock:
        found = _shared.pop(vocab.cache_name, None) or Shared(vocab)
        _shared[vocab.cache_name] = found
        while len(_shared) > MOST_VOCABULARIES:
            _shared.popitem(last=False)
        found.renew()
        return found.engine


MOST_STEPS = 4_000_000
"""Steps of one search, of some tenths of a microsecond each."""
UNITS_A_STEP = 0.5
"""Units of work, of a microsecond each, that a step counts for."""
TOO_MANY = f"the fewest tokens to the end take more than {MOST_STEPS:,} steps to find: give more tokens, or bound lengths"


def within_limits(call: Callable[..., T]) -> Callable[..., T]:
    """Wrap a call of the engine, so that it keeps to the limits of the request.
    The call raises ``TooManyStates`` and ``ConstructionStopped``."""

    def limited_call(*given: Any) -> T:
        for _ in range(MOST_STEPS // SLICE):
            try:
                return charged(call, given) if request_limits.in_force() else call(*given)
            except Exhausted:
                continue
            except LimitPassed as error:
                raise TooManyStates(str(error), limit=MOST_STEPS) from None
        raise TooManyStates(TOO_MANY, limit=MOST_STEPS)

    return limited_call


def charged(call: Callable[..., T], given: tuple[Any, ...]) -> T:
    """Return what a call of the engine returns, its steps counted as work of the request."""
    left = request_limits.search_left(SLICE * UNITS_A_STEP) / UNITS_A_STEP
    allow(int(max(0, min(SLICE, left))) + 1)
    try:
        return call(*given)
    finally:
        taken = used()
        allow(SLICE)
        request_limits.search(UNITS_A_STEP * taken)
