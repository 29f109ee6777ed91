"""A deterministic byte automaton read through a vocabulary: a token-level automaton that is written out only when asked.

Its states are those of the byte automaton and a sink after EOS. The masks need only what follows the states that a text
visits; counting, probabilities and drawing need all transitions, which are made on first use (`transitions`, `labels`,
`left`, …).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Bool, Int, Int32
from numpy import ndarray

from ...circuits.automaton import Automaton
from ...circuits.bitsets import pack, set_bits
from ...layers import Incidence
from ...layers.operator import TensorMap
from ..automata.nfa import Nfa
from ..vocabulary.vocabulary import Vocabulary
from .distance_bounds import Texts, fewest_tokens, shortest_texts, token_steps
from .distances import exact
from .lift import lift
from .liveness import Liveness
from .materialize import Table, write_out
from .rows import Row, edges, packed
from .walk import NO_LIMIT, Walk

WRITTEN = {
    "initial",
    "left",
    "inputs",
    "right",
    "final",
    "labels",
    "transitions",
    "edge_source",
    "edge_target",
}
WORD = np.dtype("<i4")
AT_ONCE = 1000  # states; so many are written out by one walk of all of them together
MAX_STEPS = 3000  # of a walk from one of these
MAX_ROWS = 4096  # rows kept
MAX_STEPS_KEPT = 1 << 16


def all_reachable(nfa: Nfa, vocab: Vocabulary) -> bool:
    """Whether tokens of one byte alone reach every state and acceptance from it."""
    count = np.concatenate([[0], np.cumsum(single_bytes(vocab))])
    return bool((count[nfa.edges[:, 2] + 1] > count[nfa.edges[:, 1]]).all())


def single_bytes(vocab: Vocabulary) -> Bool[ndarray, " 256"]:
    """The bytes that are tokens by themselves."""
    trie, single = vocab.trie, np.zeros(256, bool)
    level = slice(1, trie.bounds[2] if len(trie.bounds) > 2 else 1)
    single[trie.byte[level][trie.own[level] > 0]] = True
    return single


class Lifted(Automaton):
    """The token-level automaton of a deterministic, trimmed byte automaton all of whose edges some single byte can take."""

    def __init__(
        self,
        nfa: Nfa,
        vocab: Vocabulary,
        require_eos: bool = True,
        first: Int32[ndarray, " words"] | None = None,  # the tokens that may begin a text, if they are known
    ) -> None:
        self.nfa, self.vocab, self.require_eos, self._first = nfa, vocab, require_eos, first
        self.eos_token_id: int | None = vocab.eos_token_id
        self.vocabulary_fingerprint: str | None = vocab.fingerprint
        self._transitions_by_class = None
        self._after: dict[int, int] = {}  # the state after a token, by both
        self._rows: dict[int, Row] = {}
        self._ends = frozenset(nfa.accept.tolist())
        self._explicit = False  # whether masks are read off what is written out

    def __getattr__(self, name: str) -> Any:
        if name not in WRITTEN or "nfa" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._write_out()
        return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        made_again = ("walk", "liveness", "_table")
        return {k: v for k, v in self.__dict__.items() if k not in made_again} | {"_rows": {}}

    # ------------------------------------------------------------ without writing anything out

    @cached_property
    def walk(self) -> Walk:
        return Walk(self.nfa, self.vocab.cells)

    @cached_property
    def liveness(self) -> Liveness:
        if self._first is None:  # a text soon gets to the state with most letters
            self.walk.embedding.of(int(self.walk.embedding.width.argmax()))
        return Liveness(self.walk)

    @property
    def sink(self) -> int:
        """The state after EOS."""
        return self.nfa.num_states

    @property
    def device(self) -> torch.device:
        return self.initial[0].device if "initial" in self.__dict__ else torch.device("cpu")

    @property
    def num_states(self) -> int:
        return self.nfa.num_states + 1

    @property
    def vocab_size(self) -> int:
        return len(self.vocab)

    @property
    def state_dims(self) -> tuple[int, ...]:
        return (self.num_states,)

    @property
    def start_states(self) -> list[int]:
        return [int(s) for s in self.nfa.start]

    @property
    def accept_states(self) -> list[int]:
        ends = [] if self.require_eos else sorted(self._ends)
        return [*ends, self.sink]

    @property
    def is_deterministic(self) -> bool:
        return True

    @property
    def acceptance_extends(self) -> bool:
        return True

    def step(self, state: int, token: int) -> tuple[int, ...]:
        key = state * self.vocab_size + token
        after = self._after.get(key)
        if after is None:
            if len(self._after) >= MAX_STEPS_KEPT:
                self._after.clear()
            after = self._after[key] = self._step(state, token)
        return () if after < 0 else (after,)

    def _step(self, state: int, token: int) -> int:
        """The state after a token, −1 for none."""
        if token == self.eos_token_id:
            return self.sink if state in self._ends or state == self.sink else -1
        word = self.vocab.token_bytes[token]
        return -1 if word is None or state == self.sink else self.walk.dfa.run(state, word)

    def row(self, state: int) -> Row:
        """What follows a state of the byte automaton."""
        row = Row([], [], []) if self._explicit else self._rows.get(state)
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                self._rows.clear()
            steps = MAX_STEPS if self.num_states <= AT_ONCE else NO_LIMIT
            row = self.walk.row(state, steps)
            if row is None:  # no letters to be had: all states together are quicker
                self._write_out()
                self._explicit = True
                return Row([], [], [])
            self._rows[state] = row
        return row

    def tokens_from(self, state: int) -> Bool[ndarray, " vocab"]:
        bits = np.unpackbits(self.words_from(state).view(np.uint8), bitorder="little")
        return bits[: self.vocab_size].view(bool)

    def words_from(self, state: int) -> Int32[ndarray, " words"]:
        found = self.mask_from(state)
        if isinstance(found, list):
            out = np.zeros(-(-self.vocab_size // 32), WORD)
            set_bits(out, found)
            return out
        return found

    def mask_from(self, state: int) -> Int32[ndarray, " words"] | list[int]:
        if self._first is not None and state == self.nfa.start[0]:
            return self._first
        eos = self.vocab.eos_token_id
        if not self._explicit and state != self.sink:
            found = self.liveness.mask(state, eos if state in self._ends else None)
            if found is not None:
                return found if isinstance(found, list) else found.view(WORD)
        row = Row([], [], []) if state == self.sink else self.row(state)
        if self._explicit:
            return pack(Automaton.tokens_from(self, state))
        out = packed(self.walk, row)
        if state == self.sink or state in self._ends:
            out[eos >> 3] |= 1 << (eos & 7)
        return out.view(WORD)

    def edges_from(self, state: int) -> list[tuple[int, list[Int[ndarray, " some"]]]]:
        found: list[tuple[int, list[Int[ndarray, " some"]]]] = []
        row = Row([], [], []) if state == self.sink else self.row(state)
        if self._explicit:
            return super().edges_from(state)
        if state != self.sink:
            order = self.vocab.trie.order
            pieces = sorted(edges(self.walk, row).items())
            found = [(target, [order[ranks] for ranks in some]) for target, some in pieces]
        if state == self.sink or state in self._ends:
            found.append((self.sink, [np.array([self.eos_token_id])]))
        return found

    @cached_property
    def max_distance(self) -> int:
        """The bytes of the longest of the shortest texts, each a token, and EOS where it must be there."""
        return int(self._shortest.length.max())

    @cached_property
    def _shortest(self) -> Texts:
        return shortest_texts(self.walk.dfa, single_bytes(self.vocab), int(self.require_eos))

    @cached_property
    def distance_bounds(self) -> Int[ndarray, " states"]:
        """The fewest tokens that one shortest text from each state can be written with, and EOS where it must be there."""
        return fewest_tokens(self._shortest, np.array(sorted(self._ends), np.int64), self.vocab.trie)

    @cached_property
    def bounds_after(self) -> Int[ndarray, " states"]:
        """The largest of the bounds within as many bytes as the longest token has."""
        largest, dfa = self.distance_bounds.copy(), self.walk.dfa
        head = np.flatnonzero(np.diff(dfa.source, prepend=-1))
        state = dfa.source[head]
        for _ in range(len(self.vocab.trie.bounds) - 2 if len(head) else 0):
            near = np.maximum(largest[state], np.maximum.reduceat(largest[dfa.target], head))
            if np.array_equal(near, largest[state]):
                break
            largest[state] = near
        return largest

    @cached_property
    def distances(self) -> Int[ndarray, " states"]:
        ends = np.array(sorted(self._ends), np.int64)
        texts, trie = self._shortest, self.vocab.trie
        return exact(self.walk.dfa, trie, texts.length, self.distance_bounds, token_steps(texts, ends, trie))

    # ------------------------------------------------------------ written out

    @cached_property
    def _table(self) -> Table:
        return write_out(self.walk, self._ends)

    def _write_out(self) -> None:
        starts, accepts, eos = self.start_states, self.accept_states, self.eos_token_id
        found = lift(self.nfa, self.vocab, self.require_eos) if self.num_states <= AT_ONCE else None
        if (
            found is not None and found.num_states == self.num_states
        ):  # none is left out, so states keep their numbers
            rows = np.column_stack([found.source, found.token_class_of_edge, found.target])
            Automaton.__init__(self, rows, found.token_class, starts, accepts, self.num_states, eos)
            return
        table, order = self._table, self.vocab.trie.order
        sets = [order[without.drop(ranks)] for ranks, without in table.sets] + [np.array([self.eos_token_id])]
        row = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
        tokens = Incidence(
            torch.from_numpy(row), torch.from_numpy(np.concatenate(sets)), (len(sets), self.vocab_size)
        )
        rows = np.column_stack([table.source, table.klass, table.target])
        Automaton.__init__(self, rows, tokens, starts, accepts, self.num_states, eos, trusted=True)

    def map(self, fn: TensorMap) -> Self:
        self.labels  # noqa: B018  written out
        return super().map(fn)
