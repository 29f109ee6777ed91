"""Token masks of a lazy automaton, whose states are numbered as they are reached; for :class:`~.gcd.GCDQuery`."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np
import torch
from jaxtyping import Bool, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.automaton import UNREACHABLE
from .rows import Shortfall

KEPT_BYTES = 1 << 26  # of masks in one cache
ENTRY_BYTES = 1 << 11  # estimated overhead of a cached mask beside its words


class TokenStates(Protocol):
    """A lazy automaton over tokens; its states are numbers, given as the states are reached, and −1 is no state."""

    start_state: int
    vocab_size: int

    def step(self, state: int, token: int) -> int:
        """Return the state after a token, −1 if the token may not follow."""

    def words_from(self, state: int) -> Int32[ndarray, " words"]:
        """Return as a bit mask the tokens that may follow a state, whatever the budget."""

    def words_within(self, state: int, left: int) -> Int32[ndarray, " words"]:
        """Return as a bit mask the tokens that may follow a state and after which ``left`` tokens suffice."""

    def enough(self, state: int) -> int:
        """Return a cheap upper bound of the tokens to acceptance after any token that may follow a state."""

    def ample(self, state: int) -> int:
        """Return a tighter and more expensive bound than :meth:`enough`."""

    def within(self, state: int, left: int) -> bool:
        """Return whether a state is at most ``left`` tokens from acceptance."""

    def bound(self, state: int) -> int:
        """Return an upper bound of the tokens from a state to acceptance."""

    def accepting(self, state: int) -> bool:
        """Return whether the text may end in a state without a further token."""


@final
class LazyMasks:
    """The masks of a lazy automaton; ``horizon``: the largest budget in tokens, None for no budget.

    ``kept`` caches for a state its full mask and the smallest budget for which that mask applies.
    """

    def __init__(self, tokens: TokenStates, horizon: int | None) -> None:
        self.tokens, self.horizon = tokens, horizon
        self.start_state, self.step, self.accepting = tokens.start_state, tokens.step, tokens.accepting
        self.kept: dict[int, tuple[memoryview, int]] = {}
        self._near: dict[tuple[int, int], memoryview] = {}  # by state and tokens left
        self._newer: LazyMasks | None = None
        self._most_kept = max(16, KEPT_BYTES // (4 * -(-tokens.vocab_size // 32) + ENTRY_BYTES))

    def of(self, tokens: TokenStates) -> LazyMasks:
        """Return the masks of an automaton that has taken over from this one, or is this one."""
        if tokens is self.tokens:
            return self
        if self._newer is None or self._newer.tokens is not tokens:
            self._newer = LazyMasks(tokens, self.horizon)
        return self._newer

    def mask(self, state: int, budget: int) -> memoryview:
        """Return as int32 words the tokens after which acceptance is reachable within ``budget`` − 1 more."""
        words, least = self.kept.get(state) or self._own(state)
        return words if budget >= least else self._within(state, budget - 1, words)

    def _own(self, state: int) -> tuple[memoryview, int]:
        """Return and cache the full mask of a state, and the smallest budget for which that mask applies."""
        if len(self.kept) >= self._most_kept:
            self.kept.clear()
        words = self.tokens.words_from(state).view(np.int32)
        found = words.data, 1 if self.horizon is None else self.tokens.enough(state) + 1
        self.kept[state] = found
        return found

    def _within(self, state: int, left: int, own: memoryview) -> memoryview:
        """Return the mask for ``left`` tokens after the next one; ``own``: the full mask of the state."""
        found = self._near.get((state, left))
        if found is None:
            if len(self._near) >= self._most_kept:
                self._near.clear()
            if left >= 0 and (ample := self.tokens.ample(state)) <= left:
                self.kept[state] = own, ample + 1
                return own
            words = self.tokens.words_within(state, left) if left >= 0 else self.tokens.words_from(-1)
            found = self._near[state, left] = words.view(np.int32).data
        return found

    # ------------------------------------------------------------ lengths

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        """Implement :meth:`NextTokenQuery.feasible_lengths`."""
        if self.horizon is None:
            return torch.tensor([self.start_state >= 0])
        fewest = self._fewest(self.horizon)
        return torch.arange(self.horizon + 1) >= (UNREACHABLE if fewest is None else fewest)

    def shortfall(self, lengths: Int[Tensor, " batch"]) -> Shortfall | None:
        """Return the smallest of ``lengths`` and the fewest tokens of an accepted text (None: unknown).

        Return None if all lengths are feasible.
        """
        if not len(lengths):
            return None
        least, start = int(lengths.min()), self.start_state
        if start >= 0 and (self.horizon is None or self.tokens.within(start, least)):
            return None
        unknown = self.horizon is None or start < 0
        return least, None if unknown else self._fewest(self.tokens.bound(start))

    def _fewest(self, most: int) -> int | None:
        """Return the fewest tokens of an accepted text, by bisection; None if there are more than ``most``."""
        start, within = self.start_state, self.tokens.within
        if start < 0 or not within(start, most):
            return None
        low, high = -1, most  # too few tokens, enough tokens
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if within(start, middle) else (middle, high)
        return high
