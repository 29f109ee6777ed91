"""Which tokens may follow: a program read through a vocabulary by the compiled core (``core/``).

    mask(state)        = { t : some tokens after t reach acceptance }
    mask(state, left)  = { t : at most ``left`` tokens after t reach acceptance }

The end token reads nothing: it may follow a text that is accepted, and counts as a token. ``tests/oracle/`` says what a program
means in Python. Whether there is an end at all is always exact, or refused
with ``TooManyStates``. The fewest tokens to it may be upper bounds for two kinds of parts, and ``exact`` says so:

* Of an object with more than five kinds of members those that may be absent are not read to save tokens, and if more than five
  required ones are missing, not all orders are tried.
* Of an array whose items must differ, or an object whose names are counted, one short text stands for all, unless a search that
  is not long finds one of fewer tokens.

Masks within a budget are then narrower, never wider, and always leave a way to the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import final

import numpy as np
from jaxtyping import Int, Int32
from numpy import ndarray

from ..._core import fill as write_rows
from ..program.node import Kind, Node
from ..program.prune import pruned
from ..program.rewrite import parts_first
from ..vocabulary.vocabulary import Vocabulary
from .cores import engine_of, within_limits

Words = Int32[ndarray, " words"]

NO_STATE = -1
"""The state of a text that may not come."""
SINK = -2
"""The state after the end token, which may be read again."""
NEVER = 1 << 62
"""The distance of a state that has no completion."""
MOST = 1 << 27
"""The most tokens that are told apart."""


@final
class ProgramStates:
    """The automaton over tokens of a program (protocol ``TokenStates``).

    States are the engine's configurations, :data:`NO_STATE` and :data:`SINK`. ``require_eos``: whether a text is
    finished only by the end token. Any program and any vocabulary will do: where a byte that the program reads is no token by
    itself, or parts have budgets of tokens, a token is allowed only if a search finds that some tokens lead on to acceptance.
    """

    step: Callable[[int, int], int]
    reads: Callable[[bytes], bool]
    accepting: Callable[[int], bool]

    def __init__(self, node: Node, vocab: Vocabulary, require_eos: bool = True) -> None:
        self.node, self.vocab, self.require_eos = node, vocab, require_eos
        self.eos_token_id, self.vocabulary_fingerprint = vocab.eos_token_id, vocab.fingerprint
        self.vocab_size = len(vocab)
        root = pruned(node)
        program = parts_first(root)
        self.engine = engine_of(vocab)
        spelled = all(each.kind is not Kind.TOKENS for each in program) and are_tokens(program, vocab)
        number = self.engine.node(root, program)
        self.core = self.engine.automaton(number, spelled, require_eos)
        self.start_state: int = self.core.start
        self.accepting = self.core.accepting
        self.is_exact: bool = self.core.is_exact
        self.step, self.after = within_limits(self.core.step), within_limits(self.core.after)
        self.reads, self.allows = within_limits(self.core.reads), within_limits(self.core.allows)
        self.fill, self.exact = within_limits(self.core.fill), within_limits(self.core.exact)
        self._fewest, self._within = within_limits(self.core.fewest), within_limits(self.core.within)

    @property
    def full(self) -> bool:
        """Whether the engine keeps so much that rows which begin should use a new one."""
        return self.engine.full

    def renewed(self) -> ProgramStates:
        """Return the same automaton on another engine, whose memory is not full."""
        return ProgramStates(self.node, self.vocab, self.require_eos)

    # ------------------------------------------------------------ distances

    def fewest(self, state: int) -> int:
        """Return the fewest tokens from a state to acceptance, ``NEVER`` if there are none.

        An upper bound where the module says so. Raises ``TooManyStates``.
        """
        if state < 0:
            return 0 if state == SINK else NEVER
        found: int = self._fewest(state, MOST)
        return found + self.require_eos if found <= MOST else NEVER

    def within(self, state: int, left: int) -> bool:
        """Return whether a state is at most ``left`` tokens from acceptance."""
        if state < 0:
            return state == SINK
        left = min(MOST, left - self.require_eos)
        return left >= 0 and bool(self._within(state, left))

    # ------------------------------------------------------------ masks

    def words_within(self, state: int, left: int = NEVER) -> Words:
        """Return as a bit mask the tokens that may follow a state and after which ``left`` tokens suffice."""
        out: Int32[ndarray, "row words"] = np.empty((1, -(-self.vocab_size // 32)), np.int32)
        self.fill([(state, left + 1)], out)
        words: Words = out[0]
        return words


def are_tokens(program: Iterable[Node], vocab: Vocabulary) -> bool:
    """Return whether each byte that the nodes of a program read is a token by itself."""
    if vocab.trie.has_all_bytes:
        return True
    used: Int[ndarray, " bytes"] = np.zeros(257, int)
    for node in program:
        for table in node.tables if node.kind is not Kind.WITHIN else ():
            np.add.at(used, table.edges[:, 1], 1)
            np.subtract.at(used, table.edges[:, 2] + 1, 1)
    return not ((np.cumsum(used)[:256] > 0) & ~vocab.trie.single).any()


def fill(rows: Sequence[tuple[ProgramStates, int, int, int]], out: Int32[ndarray, "row words"]) -> None:
    """Write masks of texts under any constraints of one vocabulary, in one call of the core.

    ``rows``: automaton, state, budget (tokens left, the next one included), and the row of ``out`` to write. There token v is
    bit v mod 32 of word v div 32; words past the vocabulary become zero. Other threads of Python go on meanwhile. If a mask
    cannot be found within limits, the others are written and ``TooManyStates`` is raised.

    >>> import numpy as np, tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b"], eos_token_id=0)
    >>> one, two = (tt.constraints.regex(pattern).compile(vocab).lazy for pattern in ("ab", "b*"))
    >>> out = np.zeros((2, 1), np.int32)
    >>> fill([(one, one.start_state, 3, 0), (two, two.start_state, 1, 1)], out)
    >>> out.tolist()  # a; the end alone
    [[2], [1]]
    """
    within_limits(write_rows)([(row[0].core, *row[1:]) for row in rows], out)
