"""Token masks of a lazy automaton, whose states are numbered as they are reached; for :class:`~.gcd.GCDQuery`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, final

import torch
from jaxtyping import Bool, Int32
from numpy import ndarray
from torch import Tensor

from ...circuits.automaton import UNREACHABLE
from .rows import Shortfall


class TokenStates(Protocol):
    """A lazy automaton over tokens; its states are numbers, given as the states are reached, and −1 is no state."""

    start_state: int
    vocab_size: int
    is_exact: bool  # whether each distance is, and not an upper bound

    def step(self, state: int, token: int) -> int:
        """Return the state after a token, −1 if the token may not follow."""

    def after(self, rows: Sequence[tuple[Any, ...]], tokens: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return each row after its token: (state, tokens left, row before). A row with no tokens left keeps its state."""

    def words_within(self, state: int, left: int = ...) -> Int32[ndarray, " words"]:
        """Return as a bit mask the tokens that may follow a state, after which ``left`` tokens suffice; by default any number."""

    def allows(self, state: int, budget: int, token: int) -> bool:
        """Return whether the mask of a state has a token; ``budget``: the tokens left, the next one included."""

    def fill(self, rows: Sequence[tuple[Any, ...]], out: Int32[ndarray, "row words"]) -> None:
        """Write the masks of rows, each of which begins with its state and its budget."""

    def exact(self, state: int, budget: int) -> bool:
        """Return whether the mask of a state with a budget has all tokens that it should."""

    def within(self, state: int, left: int) -> bool:
        """Return whether a state is at most ``left`` tokens from acceptance."""

    def fewest(self, state: int) -> int:
        """Return the fewest tokens from a state to acceptance, or an upper bound."""

    def accepting(self, state: int) -> bool:
        """Return whether the text may end in a state without a further token."""


@final
class LazyMasks:
    """The masks of a lazy automaton; ``horizon``: the largest budget in tokens, None for no budget."""

    def __init__(self, tokens: TokenStates, horizon: int | None) -> None:
        self.tokens, self.horizon = tokens, horizon
        self.start_state, self.accepting = tokens.start_state, tokens.accepting
        self.step, self.after = tokens.step, tokens.after
        self.fill = self._fill_endless if horizon is None else tokens.fill
        self._newer: LazyMasks | None = None

    def of(self, tokens: TokenStates) -> LazyMasks:
        """Return the masks of ``tokens``: this object, or that of the automaton that has taken over from this one's."""
        if tokens is self.tokens:
            return self
        if self._newer is None or self._newer.tokens is not tokens:
            self._newer = LazyMasks(tokens, self.horizon)
        return self._newer

    def budget(self, budget: int) -> int:
        """Return the tokens that a text with this budget may take."""
        return UNREACHABLE if self.horizon is None and budget else budget

    def mask(self, state: int, budget: int) -> memoryview:
        """Return the tokens after which acceptance is reachable within ``budget`` − 1 more, as int32 words of 32 bits each."""
        return self.tokens.words_within(state, self.budget(budget) - 1).data

    def allows(self, state: int, budget: int, token: int) -> bool:
        """Return whether that mask has a token."""
        return self.tokens.allows(state, self.budget(budget), token)

    def _fill_endless(self, rows: Sequence[tuple[Any, ...]], out: Int32[ndarray, "row words"]) -> None:
        self.tokens.fill([(row[0], self.budget(row[1])) for row in rows], out)

    def exact(self, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Return whether the masks of rows have all tokens that they should."""
        return self.horizon is None or all(self.tokens.exact(row[0], row[1]) for row in rows)

    # ------------------------------------------------------------ lengths

    def feasible_lengths(self) -> Bool[Tensor, " lengths"]:
        """Implement :meth:`NextTokenQuery.feasible_lengths`."""
        if self.horizon is None:
            return torch.tensor([self.start_state >= 0])
        fewest = self._fewest(self.horizon)
        return torch.arange(self.horizon + 1) >= (UNREACHABLE if fewest is None else fewest)

    def shortfall(self, lengths: list[int]) -> Shortfall | None:
        """Return the smallest of ``lengths`` and the fewest tokens of an accepted text (None: unknown).

        Return None if all lengths are feasible.
        """
        least, start = min(lengths, default=0), self.start_state
        if not lengths or (start >= 0 and (self.horizon is None or self.tokens.within(start, least))):
            return None
        unknown = self.horizon is None or start < 0
        return Shortfall(
            least, None if unknown else self._fewest(self.tokens.fewest(start)), self.tokens.is_exact
        )

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
