"""The transitions of a DFA as an array that grows with the states that are queried."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Int, Int32
from numpy import ndarray

MAX_ROWS = 1 << 13  # states whose transitions are kept as rows of 256 targets
FEW_BYTES = 4  # queries of a state without a row that are answered one by one


class Transitions:
    """A transition table with rows filled on demand.

    ``moves(state)`` gives (low, high, state after such a byte), ``after(state, byte)`` one of them.
    """

    def __init__(
        self, moves: Callable[[int], Iterable[tuple[int, int, int]]], after: Callable[[int, int], int]
    ) -> None:
        self._moves, self._after = moves, after
        self._row_of: Int32[ndarray, " states"] = np.full(1024, -1, np.int32)
        self._rows: Int32[ndarray, "row 256"] = np.empty((64, 256), np.int32)
        self._used = 0

    def after(self, state: Int[ndarray, " n"], byte: Int[ndarray, " n"]) -> Int[ndarray, " n"]:
        """Return the state after each byte, −1 for none."""
        if not len(state):
            return np.empty(0, np.int64)
        if self._used > MAX_ROWS:
            self._row_of[:] = -1
            self._used = 0
        if (largest := int(state.max())) >= len(self._row_of):
            grown = np.full(2 * largest + 1, -1, np.int32)
            grown[: len(self._row_of)] = self._row_of
            self._row_of = grown
        row = self._row_of[state]
        if (row < 0).any():
            for new in np.flatnonzero(np.bincount(state[row < 0]) > FEW_BYTES).tolist():
                if self._used == len(self._rows):
                    self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
                line = self._rows[self._used]
                line[:] = -1
                for low, high, target in self._moves(new):
                    line[low : high + 1] = target
                self._row_of[new] = self._used
                self._used += 1
            row = self._row_of[state]
        out = np.asarray(self._rows[row, byte], np.int64)
        for i in np.flatnonzero(row < 0).tolist():
            out[i] = self._after(int(state[i]), int(byte[i]))
        return out
