"""A deterministic byte automaton that is read byte by byte."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from .nfa import Nfa


class Dfa:
    """A DFA with its edges sorted by source and lowest byte, for look-ups of single bytes."""

    def __init__(self, nfa: Nfa) -> None:
        edges = nfa.edges if nfa.by_byte is None else nfa.edges[nfa.by_byte]
        source, *columns = edges.T
        count = np.bincount(source, minlength=nfa.num_states)
        self._begin = np.concatenate([[0], np.cumsum(count)]).tolist()
        self._low, self._high, self._target = (np.ascontiguousarray(column).data for column in columns)

    def after(self, state: int, byte: int) -> int:
        """Return the state after a byte, −1 if there is none."""
        begin = self._begin[state]
        edge = bisect_right(self._low, byte, begin, self._begin[state + 1]) - 1
        return self._target[edge] if edge >= begin and self._high[edge] >= byte else -1

    def run(self, state: int, word: bytes) -> int:
        """Return the state after a word, −1 if there is none."""
        for byte in word:
            state = self.after(state, byte)
            if state < 0:
                return -1
        return state
