"""A deterministic byte automaton read through a vocabulary: a token-level automaton that is written out only when asked.

Its states are those of the byte automaton and a sink after EOS. The masks need only what follows the states that a text
visits; counting, probabilities and drawing need all transitions, which are made on first use (`transitions`, `labels`,
`left`, …).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy import ndarray

from ..circuits.automaton import NEVER, Automaton
from ..errors import TooManyStates
from ..layers import Incidence
from ..layers.operator import TensorMap
from .nfa import Nfa
from .tokenizers import Vocabulary
from .walk import Row, Walk

MAX_TRANSITIONS = 50_000_000
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
MAX_ROWS = 4096  # rows kept


def all_reachable(nfa: Nfa, vocab: Vocabulary) -> bool:
    """Whether tokens of one byte alone reach every state and acceptance from it."""
    single = np.zeros(256, bool)
    trie = vocab.trie
    level = slice(trie.bounds[1], trie.bounds[2]) if len(trie.bounds) > 2 else slice(0, 0)
    single[trie.byte[level][trie.own[level] > 0]] = True
    count = np.concatenate([[0], np.cumsum(single)])
    return bool((count[nfa.edges[:, 2] + 1] > count[nfa.edges[:, 1]]).all())


class Lifted(Automaton):
    """The token-level automaton of a deterministic, trimmed byte automaton all of whose edges some single byte can take."""

    def __init__(self, nfa: Nfa, vocab: Vocabulary, require_eos: bool = True) -> None:
        self.nfa, self.vocab, self.require_eos = nfa, vocab, require_eos
        self.eos_token_id: int | None = vocab.eos_token_id
        self._moves = None
        self._steps: dict[tuple[int, int], tuple[int, ...]] = {}
        self._rows: dict[int, Row] = {}
        self._ends = frozenset(nfa.accept.tolist())

    def __getattr__(self, name: str) -> Any:
        if name not in WRITTEN or "nfa" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._write_out()
        return self.__dict__[name]

    # ------------------------------------------------------------ without writing anything out

    @cached_property
    def walk(self) -> Walk:
        return Walk(self.nfa, self.vocab.cells)

    @property
    def sink(self) -> int:
        """The state after EOS."""
        return self.nfa.num_states

    @property
    def num_states(self) -> int:
        return self.nfa.num_states + 1

    @property
    def vocab_size(self) -> int:
        return len(self.vocab)

    @property
    def cut_dims(self) -> tuple[int, ...]:
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
    def stays_accepted(self) -> bool:
        return True

    def step(self, state: int, token: int) -> tuple[int, ...]:
        if token == self.eos_token_id:
            return (self.sink,) if state in self._ends or state == self.sink else ()
        word = self.vocab.token_bytes[token]
        if word is None or state == self.sink:
            return ()
        after = self.walk.dfa.run(state, word)
        return (after,) if after >= 0 else ()

    def row(self, state: int) -> Row:
        """What follows a state of the byte automaton."""
        row = self._rows.get(state)
        if row is None:
            if len(self._rows) >= MAX_ROWS:
                self._rows.clear()
            row = self._rows[state] = self.walk.row(state)
        return row

    def tokens_from(self, state: int) -> Bool[ndarray, " vocab"]:
        if state == self.sink:
            out = np.zeros(self.vocab_size, bool)
        else:
            out = self.walk.allowed(self.row(state))
        out[self.eos_token_id] = state == self.sink or state in self._ends
        return out

    def edges_from(self, state: int) -> list[tuple[int, list[Int[ndarray, " some"]]]]:
        found: list[tuple[int, list[Int[ndarray, " some"]]]] = []
        if state != self.sink:
            order = self.vocab.trie.order
            edges = sorted(self.walk.edges(self.row(state)).items())
            found = [(target, [order[ranks] for ranks in pieces]) for target, pieces in edges]
        if state == self.sink or state in self._ends:
            found.append((self.sink, [np.array([self.eos_token_id])]))
        return found

    @cached_property
    def distance_bounds(self) -> Int[ndarray, " states"]:
        """Tokens to acceptance, each a piece of a shortest text: by what is taken from it greedily."""
        return self._shortest_texts()

    @cached_property
    def most_tokens(self) -> int:
        return int(self.distance_bounds.max())

    def _shortest_texts(self) -> Int[ndarray, " states"]:
        """For each state the bytes of a shortest accepted text, and EOS where it must be there."""
        dfa, n = self.walk.dfa, self.nfa.num_states
        out = np.full(n + 1, NEVER)
        out[self.sink] = 0
        reached = np.array(sorted(self._ends), np.int64)
        order = np.argsort(dfa.target, kind="stable")
        before = dfa.source[order]
        pointer = np.searchsorted(dfa.target[order], np.arange(n + 1))
        distance = int(self.require_eos)
        out[reached] = distance
        while len(reached):
            distance += 1
            count = pointer[reached + 1] - pointer[reached]
            at = np.repeat(pointer[reached] - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
            reached = np.unique(before[at])
            reached = reached[out[reached] == NEVER]
            out[reached] = distance
        return out

    # ------------------------------------------------------------ written out

    def _write_out(self) -> None:
        sources, classes, targets = [], [], []
        names: dict[bytes, int] = {}
        sets: list[Int[ndarray, " some"]] = []
        total = 0
        for state in range(self.num_states):
            for target, pieces in self.edges_from(state):
                for tokens in pieces:
                    key = tokens.tobytes()
                    if key not in names:
                        names[key] = len(sets)
                        sets.append(tokens)
                    sources.append(state)
                    classes.append(names[key])
                    targets.append(target)
            if len(sources) > MAX_TRANSITIONS:
                raise TooManyStates(limit=MAX_TRANSITIONS)
        total = sum(map(len, sets))
        row = np.repeat(np.arange(len(sets)), [len(s) for s in sets])
        token = np.concatenate(sets) if total else np.empty(0, np.int64)
        tokens_of = Incidence(
            torch.from_numpy(row), torch.from_numpy(token), (max(1, len(sets)), self.vocab_size)
        )
        rows = np.column_stack([sources, classes, targets])
        kept = self._steps
        Automaton.__init__(
            self,
            rows,
            tokens_of,
            self.start_states,
            self.accept_states,
            self.num_states,
            self.eos_token_id,
            trusted=True,
        )
        self._steps = kept

    def map(self, fn: TensorMap) -> Automaton:
        self.labels  # noqa: B018  written out
        return super().map(fn)
