"""A byte DFA read through a vocabulary: a token-level automaton, written out on demand.

Its states are those of the byte automaton and a sink after EOS. Masks ask :attr:`TokenDfa.lazy`, which reads only the states
that a text visits. Counting, probabilities and drawing need all transitions, which are made on first use (`transitions`,
`labels`, `left`, …).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray

from ...circuits.automaton import Automaton
from ...layers.operator import TensorMap
from ..automata import request_limits
from ..automata.dfa_table import Dfa
from ..automata.lazy import Numbered
from ..automata.machines import DfaMachine
from ..automata.nfa import Nfa
from ..automata.stack import StackAutomaton
from ..masks.lazy_tokens import LazyTokens
from ..vocabulary.vocabulary import Vocabulary
from .dfa_distances import DfaDistances
from .lift import lift

UNITS_A_STATE = 100  # of work, to write out the transitions of a state
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


def all_reachable(nfa: Nfa, vocab: Vocabulary) -> bool:
    """Return whether each edge can be taken by a token of one byte.
    So tokens reach every state, and acceptance from it."""
    count = np.concatenate([[0], np.cumsum(vocab.trie.single)])
    return bool((count[nfa.edges[:, 2] + 1] > count[nfa.edges[:, 1]]).all())


class TokenDfa(Automaton):
    """The token-level automaton of a trimmed byte DFA; one-byte tokens must take every edge."""

    def __init__(self, nfa: Nfa, vocab: Vocabulary, require_eos: bool = True) -> None:
        self.nfa, self.vocab, self.require_eos = nfa.plain, vocab, require_eos
        self.eos_token_id: int | None = vocab.eos_token_id
        self.vocabulary_fingerprint: str | None = vocab.fingerprint
        self._transitions_by_class = None
        self._ends = frozenset(self.nfa.accept.tolist())

    def __getattr__(self, name: str) -> Any:
        if name not in WRITTEN or "nfa" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._write_out()
        return self.__dict__[name]

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_lazy", "_dfa", "kept")}

    # ------------------------------------------------------------ without writing anything out

    @property
    def lazy(self) -> LazyTokens | None:
        """The automaton with states created on demand, for masks; ``None`` on an accelerator."""
        if self.device.type != "cpu":
            return None
        if self._lazy.full:  # rows keep theirs
            del self.__dict__["_lazy"]
        return self._lazy

    @cached_property
    def _lazy(self) -> LazyTokens:
        def distances(states: Numbered) -> DfaDistances:
            return DfaDistances(states, self.vocab, self.require_eos, self._all_distances)

        automaton = StackAutomaton(DfaMachine(self.nfa))
        return LazyTokens(automaton, self.vocab, self.require_eos, distances)

    def _all_distances(self) -> Int[ndarray, " states"]:
        request_limits.search(UNITS_A_STATE * self.num_states)
        return np.asarray(self.distances)

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
        if token == self.eos_token_id:
            return (self.sink,) if state in self._ends or state == self.sink else ()
        word = self.vocab.token_bytes[token]
        after = -1 if word is None or state == self.sink else self._dfa.run(state, word)
        return () if after < 0 else (after,)

    def fewest_after(self, tokens: Sequence[int]) -> int:
        lazy = self._lazy
        state = lazy.start_state
        for token in tokens:
            state = lazy.step(state, token)
        return lazy.fewest(state)

    # ------------------------------------------------------------ written out

    @cached_property
    def _dfa(self) -> Dfa:
        return Dfa(self.nfa)

    def _write_out(self) -> None:
        found = lift(self.nfa, self.vocab, self.require_eos)  # all states are reached, and keep their numbers
        rows = np.column_stack([found.source, found.token_class_of_edge, found.target])
        starts, accepts = found.start.tolist(), found.accept.tolist()
        Automaton.__init__(
            self, rows, found.token_class, starts, accepts, found.num_states, self.eos_token_id
        )

    def map(self, fn: TensorMap) -> Self:
        self.labels  # noqa: B018  written out
        return super().map(fn)
