"""GCD and LCD on a lazy automaton: the Boolean next-token query, a state and a budget for each prefix.

A mask is that of the state wherever the tokens left are ample for all that it allows, which is nearly always; near the end
of a budget it has the tokens after which acceptance is near enough. Equal, by test, to :class:`~.masks.GCDQuery` on the
automaton written out. ``advance`` and ``bitmask(out=…)`` take a few microseconds where a state has been met before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...errors import BudgetTooSmall, ShapeError, VocabularyMismatch
from ..semirings.base import Boolean
from .bitmask import BitmaskQuery
from .generic import Tokens
from .record import row_indices

KEPT_BYTES = 1 << 26  # of masks held by their states
UNREACHABLE = 1 << 62


class TokenStates(Protocol):
    """An automaton over tokens with numbers for its states, made as they are met; −1 is no state."""

    start_state: int
    vocab_size: int

    def step(self, state: int, token: int) -> int:
        """The state after a token."""

    def words_from(self, state: int) -> Int32[ndarray, " words"]:
        """The tokens that may follow a state, as bits."""

    def words_within(self, state: int, left: int) -> Int32[ndarray, " words"]:
        """The tokens that may follow a state and after which ``left`` tokens are enough."""

    def enough(self, state: int) -> int:
        """A number of tokens that is enough after each token that may follow a state, found quickly."""

    def ample(self, state: int) -> int:
        """The same, lower."""

    def within(self, state: int, left: int) -> bool:
        """Whether a state is at most so many tokens from acceptance."""

    def bound(self, state: int) -> int:
        """An upper bound of the tokens from a state to acceptance."""

    def accepting(self, state: int) -> bool:
        """Whether the text may end in a state as it is."""


class LazyGCDQuery(BitmaskQuery):
    """The Boolean query on a lazy automaton; ``horizon``: the largest budget in tokens, ``None`` for no budget (LCD)."""

    def __init__(self, tokens: TokenStates, horizon: int | None, automaton: Any = None) -> None:
        if horizon is not None and horizon < 1:
            raise BudgetTooSmall(
                f"LazyGCDQuery: the horizon must be at least one token, not {horizon}",
                needed=None,
                given=horizon,
            )
        self.tokens, self.horizon, self.semiring = tokens, horizon, Boolean()
        self.automaton: Any = tokens if automaton is None else automaton
        self.device, self.vocab_size = torch.device("cpu"), tokens.vocab_size
        self._record = self._shares = None
        self._width = -(-tokens.vocab_size // 32)
        self._states: list[int] = []  # of each row
        self._budget: list[int] = []
        self._kept: dict[
            int, tuple[memoryview, int]
        ] = {}  # mask by state, and the budget from which on it is that
        self._near: dict[tuple[int, int], memoryview] = {}  # mask by state and tokens left
        self._most_kept = max(16, KEPT_BYTES // (4 * self._width))
        self._buffer: Tensor | None = None  # the last one written to
        self._pointer = 0
        self._lines: list[memoryview] = []  # its rows

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._states, out._budget = list(self._states), list(self._budget)
        return out

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        """The tokens left in each row."""
        return torch.tensor(self._budget, dtype=torch.long)

    @remaining.setter
    def remaining(self, budgets: Int[Tensor, " batch"]) -> None:
        self._budget = budgets.tolist()

    # ------------------------------------------------------------ beginning

    def _begin(self, batch: int) -> None:
        self._states = [self.tokens.start_state] * batch

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        """Whether some sequence of exactly 0, 1, … horizon tokens is accepted (one entry, any length, without a horizon)."""
        if self.horizon is None:
            return torch.tensor([self.tokens.start_state >= 0])
        fewest = self._fewest(self.horizon)
        return torch.arange(self.horizon + 1) >= (UNREACHABLE if fewest is None else fewest)

    def _fewest(self, most: int) -> int | None:
        """The fewest tokens of an accepted text, None if it takes more than ``most``."""
        start, within = self.tokens.start_state, self.tokens.within
        if start < 0 or not within(start, most):
            return None
        low, high = -1, most  # not within low, within high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if within(start, middle) else (middle, high)
        return high

    def _infeasible(self, given: Int[Tensor, " batch"]) -> int | None:
        if not len(given):
            return None
        if self.tokens.start_state < 0:
            return int(given.min())
        least = int(given.min())
        fits = self.horizon is None or self.tokens.within(self.tokens.start_state, least)
        return None if fits else least

    def _needed(self, given: int) -> int | None:
        if self.horizon is None or self.tokens.start_state < 0:
            return None
        return self._fewest(self.tokens.bound(self.tokens.start_state))

    # ------------------------------------------------------------ masks

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        """The mask as int32 words, token v in bit v mod 32 of word v div 32; written into ``out`` (on the CPU) if given.

        Raises :class:`ShapeError` where ``out`` is not (batch, words) of int32.
        """
        if out is None:
            return torch.from_numpy(self.words())
        if (
            out is not self._buffer
            or len(self._lines) != len(self._states)
            or out.data_ptr() != self._pointer
        ):
            self._attach(out)
        if self._buffer is None:  # its rows are not contiguous
            out.copy_(torch.from_numpy(self.words()))
        else:
            self._fill(self._lines)
        return out

    def _attach(self, out: Tensor) -> None:
        """Check a buffer, and remember its rows."""
        if out.dtype != torch.int32 or out.device.type != "cpu":
            raise ShapeError(f"bitmask: the buffer must be int32 on the CPU, not {out.dtype} on {out.device}")
        self._check_shape(tuple(out.shape), out.dtype)
        self._buffer = None
        if out.is_contiguous():
            self._buffer, self._pointer = out, out.data_ptr()
            self._lines = [row.data for row in out.detach().numpy()]

    def _check_shape(self, shape: tuple[int, ...], dtype: object) -> None:
        if shape != (len(self._states), self._width):
            raise ShapeError(
                f"the buffer must be int32 of shape ({len(self._states)}, {self._width}), not {dtype} of {shape}"
            )

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        """``bitmask`` as a numpy array, written into ``out`` if given."""
        if out is None:
            out = np.empty((len(self._states), self._width), np.int32)
        else:
            self._check_shape(out.shape, out.dtype)
            if out.dtype != np.int32:
                raise ShapeError(f"the buffer must be int32, not {out.dtype}")
        if out.flags.c_contiguous:
            self._fill([row.data for row in out])
        else:
            out[:] = self.words()
        return out

    def _fill(self, lines: list[memoryview]) -> None:
        kept = self._kept
        for line, state, budget in zip(lines, self._states, self._budget, strict=True):
            found = kept.get(state)
            if found is None:
                found = self._plain(state)
            line[:] = found[0] if budget >= found[1] else self._within(state, budget - 1)

    def _plain(self, state: int) -> tuple[memoryview, int]:
        """The mask of a state, and the budget from which on it is that."""
        if len(self._kept) >= self._most_kept:
            self._kept.clear()
        words = self.tokens.words_from(state).view(np.int32)
        found = words.data, 1 if self.horizon is None else self.tokens.enough(state) + 1
        self._kept[state] = found
        return found

    def _within(self, state: int, left: int) -> memoryview:
        """The tokens that may follow a state in what is left after them."""
        found = self._near.get((state, left))
        if found is None:
            if len(self._near) >= self._most_kept:
                self._near.clear()
            if left >= 0 and (ample := self.tokens.ample(state)) <= left:
                found = self._kept[state][0]
                self._kept[state] = found, ample + 1
                return found
            words = self.tokens.words_within(state, left) if left >= 0 else self.tokens.words_from(-1)
            found = self._near[state, left] = words.view(np.int32).data
        return found

    def ended(self) -> Float[Tensor, " batch"]:
        accepted = [self.tokens.accepting(state) for state in self._states]
        return torch.zeros(len(accepted)).masked_fill(~torch.tensor(accepted, dtype=torch.bool), -torch.inf)

    # ------------------------------------------------------------ moving on

    def advance(self, tokens: Tokens) -> None:
        chosen = tokens.tolist() if isinstance(tokens, Tensor) else tokens
        states, budget, size, step = self._states, self._budget, self.vocab_size, self.tokens.step
        if len(chosen) != len(states):
            self._refuse(chosen)
        if len(states) > 1 and (min(chosen) < 0 or max(chosen) >= size):  # before any row moves on
            self._refuse(chosen)
        for row, token in enumerate(chosen):
            if not 0 <= token < size:
                self._refuse(chosen)
            if left := budget[row]:
                states[row] = step(states[row], token)
                budget[row] = left - 1

    def _refuse(self, chosen: Sequence[int]) -> None:
        if len(chosen) != len(self._states):
            raise VocabularyMismatch(
                f"advance: one token for each of {len(self._states)} rows, not {len(chosen)} of them"
            )
        raise VocabularyMismatch(f"advance: a token lies outside the vocabulary of {self.vocab_size}")

    def select(self, indices: Tensor | Sequence[int]) -> None:
        rows = row_indices(indices, len(self._states)).tolist()
        self._states = [self._states[i] for i in rows]
        self._budget = [self._budget[i] for i in rows]
