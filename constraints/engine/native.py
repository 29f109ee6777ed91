"""The automaton over tokens of a program, run by the compiled engine (``core/``), where that was built.

Its masks and distances are those of :class:`~.masks.ProgramTokens`, but for objects with more than five kinds of members. There
distances are upper bounds: members that may be absent are not read to save tokens, and if more than five required ones are
missing, not all orders are tried. Masks within a budget, and of a vocabulary in which a byte of the program is no token, are then
narrower, never wider, and always leave a way to the end.

What the engine finds out about a node, it keeps for all constraints of a vocabulary, up to :data:`MOST_BYTES`; then a new engine
takes over, and the old one goes with its last row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from logging import getLogger
from threading import Lock
from typing import Any, TypeVar, final

import numpy as np

from ...errors import TooManyStates
from ..automata import request_limits
from ..program.counting import alive
from ..program.node import Kind, Node
from ..program.nodes import reachable
from ..program.prune import pruned
from ..program.rewrite import parts_first
from ..program.tables import Table
from ..vocabulary.vocabulary import Vocabulary
from .masks import NEVER, SINK, ProgramTokens, Words, are_tokens
from .steps import NO_STATE

INTERFACE = 4
"""What this file expects of the compiled engine, as a number: one that was built from other sources is not used."""
try:
    from ..._core import INTERFACE as BUILT
    from ..._core import Core, Exhausted, LimitPassed, allow, used

    if BUILT != INTERFACE:
        raise ImportError("tractile._core was built from other sources")
except ImportError:  # it was not built
    Core = Exhausted = LimitPassed = allow = used = None

T = TypeVar("T")
logger = getLogger("tractile")
MOST_BYTES = 1 << 28
"""What one engine keeps, in bytes, at most, before a new one takes over."""
MOST_ENGINES = 3
"""Vocabularies whose engine is kept for later constraints."""


@cache
def say_so() -> None:
    """Log once that the compiled engine was not built."""
    logger.warning(
        "tractile was installed without its compiled engine, so masks of schemas and grammars take many times as long: "
        "install a C++ compiler and install tractile again"
    )


class Engine:
    """The compiled engine of one vocabulary, with the tables and nodes that it was given."""

    def __init__(self, vocab: Vocabulary) -> None:
        trie = vocab.trie
        ints = (trie.first, trie.low, trie.own, trie.order)
        self.core = Core(
            trie.byte, *(each.astype(np.int32) for each in ints), [word or b"" for word in vocab.token_bytes]
        )
        self._tables: dict[Table, int] = {}
        self._nodes: dict[Node, int] = {}
        self._lock = Lock()

    @property
    def full(self) -> bool:
        """Whether what it has kept takes more than :data:`MOST_BYTES`."""
        return bool(self.core.bytes() > MOST_BYTES)

    def node(self, root: Node) -> int:
        """Return the number of a node, which is given to the engine with all that it needs."""
        with self._lock:
            order = parts_first(root)
            for node in order:
                if node not in self._nodes:
                    self._nodes[node] = self._add(node)
            for node in order:  # all of them: an earlier program may have been stopped on the way
                if node.kind is Kind.RULE:
                    self.core.define(self._nodes[node], self._nodes[node.parts[0]])
            return self._nodes[root]

    def _add(self, node: Node) -> int:
        begins: list[int] = []
        sets: list[list[bool]] = []
        if node.kind is Kind.COUNT:
            live = alive(node)
            begins, sets = live.begins, [states.tolist() for states in live.sets]
        return int(
            self.core.add_node(
                int(node.kind),
                [] if node.kind is Kind.RULE else [self._nodes[part] for part in node.parts],
                [self._table(each) for each in node.tables],
                node.low,
                -1 if node.high is None else node.high,
                [label for label in range(node.members) if node.required >> label & 1],
                node.members,
                node.ordered,
                begins,
                sets,
            )
        )

    def _table(self, table: Table) -> int:
        if table not in self._tables:
            base: tuple[int, Any, Any] = (-1, [], [])
            if table.base is not None and table.in_base is not None and table.apart is not None:
                base = self._table(table.base), table.in_base.tolist(), table.apart.tolist()
            label, between = table.label.tolist(), table.between.tolist()
            self._tables[table] = self.core.add_table(table.edges, label, between, *base)
        return self._tables[table]


_engines: OrderedDict[str, Engine] = OrderedDict()  # by vocabulary, the latest last
_lock = Lock()


def engine_of(vocab: Vocabulary) -> Engine:
    """Return the engine of a vocabulary, a new one if there is none or it is full."""
    with _lock:
        found = _engines.pop(vocab.cache_name, None)
        if found is None or found.full:
            found = Engine(vocab)
        _engines[vocab.cache_name] = found
        while len(_engines) > MOST_ENGINES:
            _engines.popitem(last=False)
        return found


@final
class CompiledTokens:
    """The automaton over tokens of a program; see ``TokenStates`` of the masks.

    States are the engine's configurations, :data:`~.steps.NO_STATE` and :data:`~.masks.SINK`. ``require_eos``: whether a text is
    finished only by the end token. Any program and any vocabulary will do: where a byte that the program reads is no token by
    itself, or parts have budgets of tokens, a token is allowed only if a search finds that some tokens lead on to acceptance.
    """

    def __init__(self, node: Node, vocab: Vocabulary, require_eos: bool = True) -> None:
        self.node, self.vocab, self.require_eos = node, vocab, require_eos
        self.eos_token_id, self.vocabulary_fingerprint = vocab.eos_token_id, vocab.fingerprint
        self.vocab_size = len(vocab)
        self.engine = engine_of(vocab)
        self._core = self.engine.core
        program = pruned(node)
        kinds = {each.kind for each in reachable(program)}
        self._spelled = Kind.TOKENS not in kinds and are_tokens(program, vocab)
        self.start_state: int = asked(self._core.start, self.engine.node(program), self._spelled)

    @property
    def full(self) -> bool:
        """Whether a new engine should take over."""
        return self.engine.full

    def renewed(self) -> CompiledTokens:
        """Return the automaton on an engine that has room."""
        return CompiledTokens(self.node, self.vocab, self.require_eos)

    def step(self, state: int, token: int) -> int:
        """Return the state after a token, -1 if the token may not follow."""
        if token == self.eos_token_id:
            return SINK if state == SINK or (state >= 0 and self._core.accepting(state)) else NO_STATE
        if state < 0:
            return NO_STATE
        after: int = asked(self._core.step, state, token, self._spelled)
        return after

    def reads(self, text: bytes) -> bool:
        """Return whether a text is accepted, byte by byte."""
        end = asked(self._core.read, self.start_state, text)
        return end >= 0 and bool(self._core.accepting(end))

    def accepting(self, state: int) -> bool:
        """Return whether the text may end in this state as it is, without another end token."""
        return state == SINK or (not self.require_eos and state >= 0 and bool(self._core.accepting(state)))

    # ------------------------------------------------------------ distances

    def fewest(self, state: int) -> int:
        """Return the fewest tokens from a state to acceptance, ``NEVER`` if there are none.

        For objects with more than five kinds of members this is an upper bound, see above. Raises ``TooManyStates``.
        """
        return self._fewest(state, MOST)

    def _fewest(self, state: int, most: int) -> int:
        if state < 0:
            return 0 if state == SINK else NEVER
        found: int = asked(self._core.fewest, state, most, self._spelled)
        return found + self.require_eos if found <= most else NEVER

    def bound(self, state: int) -> int:
        """Return :meth:`fewest`."""
        return self.fewest(state)

    def within(self, state: int, left: int) -> bool:
        """Return whether a state is at most ``left`` tokens from acceptance."""
        return self._fewest(state, min(MOST, left - self.require_eos)) <= left

    def enough(self, state: int) -> int:
        """Return an upper bound of the tokens to acceptance after any token that may follow a state."""
        if state < 0:
            return 0
        most: int = asked(self._core.enough, state, self._spelled)
        return min(NEVER, most + self.require_eos)

    def ample(self, state: int) -> int:
        """Return :meth:`enough`."""
        return self.enough(state)

    # ------------------------------------------------------------ masks

    def words_from(self, state: int) -> Words:
        """Return as a bit mask the tokens that may follow a state, whatever the budget."""
        return self._words(state, None)

    def words_within(self, state: int, left: int) -> Words:
        """Return as a bit mask the tokens that may follow a state and after which ``left`` tokens suffice."""
        return self._words(state, left)

    def _words(self, state: int, left: int | None) -> Words:
        out = np.zeros(-(-self.vocab_size // 32), np.uint32)
        if state >= 0:
            if left is None:
                asked(self._core.words, state, self._spelled, out)
            else:
                asked(self._core.words_within, state, min(MOST, left - self.require_eos), self._spelled, out)
        if state == SINK or (state >= 0 and self._core.accepting(state)):
            out[self.eos_token_id >> 5] |= np.uint32(1 << (self.eos_token_id & 31))
        return out.view(np.int32)


Tokens = CompiledTokens | ProgramTokens


def tokens_of(node: Node, vocab: Vocabulary, require_eos: bool = True) -> Tokens:
    """Return the automaton over tokens of a program, run by the compiled engine if that was built."""
    if Core is None:
        say_so()
        return ProgramTokens(node, vocab, require_eos)
    return CompiledTokens(node, vocab, require_eos)


MOST = 1 << 27
"""The most tokens that are told apart."""


SLICE = 100_000
"""Steps of a search after which a request's limits are looked at."""
MOST_STEPS = 4_000_000
"""Steps of one search, of some tenths of a microsecond each."""
UNITS_A_STEP = 0.5
"""Units of work, of a microsecond each, that a step counts for."""


def asked(call: Callable[..., T], *given: Any) -> T:
    """Call the compiled engine within the limits of the request; raises ``TooManyStates`` and ``ConstructionStopped``."""
    for _ in range(0, MOST_STEPS, SLICE):
        allow(int(max(0, min(SLICE, request_limits.search_left(SLICE * UNITS_A_STEP) / UNITS_A_STEP))) + 1)
        try:
            return call(*given)
        except Exhausted:
            continue
        except LimitPassed as error:
            raise TooManyStates(str(error), limit=MOST_STEPS) from None
        finally:
            request_limits.search(UNITS_A_STEP * used())
    raise TooManyStates(
        f"the fewest tokens to the end take more than {MOST_STEPS:,} steps to find: give more tokens, or bound lengths",
        limit=MOST_STEPS,
    )
