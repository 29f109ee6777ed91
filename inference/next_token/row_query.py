"""The rows of every next-token query: begun with budgets, extended by tokens, selected, taken back, copied.

:class:`RowQuery` has the checks and the methods that follow from others; GCD keeps its rows in lists of its own.
:class:`SteppedQuery` keeps rows as messages, with the tokens appended so far and the messages before the last of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..semirings.base import Semiring
from .ahead import forced, validate
from .history import History, Trail
from .protocol import Budgets, Tokens
from .rows import (
    Copied,
    Shortfall,
    bitmask,
    checked_budgets,
    checked_rollback,
    checked_tokens,
    conditionals,
    described,
    mask_logits,
    resume,
    row_indices,
    shortfall_of,
    support,
    words,
)


class RowQuery(Copied):
    """What next-token queries share; abstract. A subclass keeps the rows."""

    horizon: int | None
    device: torch.device
    vocab_size: int
    semiring: Semiring[Any]
    has_lookahead = False
    resume, apply, fork = resume, mask_logits, copy
    mask, words, bitmask, validate, forced = support, words, bitmask, validate, forced
    __repr__ = described

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        self.take_up(checked_budgets(self, batch, budgets, self._shortfall))
        return self

    def _shortfall(self, lengths: Int[Tensor, " batch"]) -> Shortfall | None:
        return shortfall_of(self.feasible_lengths(), lengths, self.horizon)

    def select(self, indices: Tensor | Sequence[int]) -> None:
        self._keep(row_indices(indices, self._size()))

    def rollback(self, n: int) -> None:
        if n := checked_rollback(n, self._appended()):
            self._back(n)

    def scores(self) -> Float[Tensor, "batch vocab"]:
        return conditionals(self.log_weights(), self.remaining, self.semiring)

    @property
    @abstractmethod
    def remaining(self) -> Int[Tensor, " batch"]: ...

    @abstractmethod
    def take_up(self, budgets: Int[Tensor, " batch"]) -> None: ...

    @abstractmethod
    def log_weights(self) -> Float[Tensor, "batch vocab"]: ...

    @abstractmethod
    def feasible_lengths(self) -> Bool[Tensor, " lengths"]: ...

    @abstractmethod
    def _size(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def _appended(self) -> int:
        """Return the number of tokens appended since the start."""

    @abstractmethod
    def _keep(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep the rows ``indices``."""

    @abstractmethod
    def _back(self, n: int) -> None:
        """Take back n ≥ 1 tokens."""


class Steps(Copied):
    """The rows of a query as messages, a named tuple with the tokens ``left``; abstract."""

    _rows: Any

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        """The tokens left in each row."""
        left: Tensor = self._rows.left
        return left

    def fork(self) -> Self:
        """Return a copy with rows of its own."""
        return copy(self)

    def snapshot(self) -> Self | None:
        """Return a copy of the rows as they are; None if they are changed in place."""
        return self.fork()

    def selected(self, rows: Int[Tensor, " rows"]) -> Self:
        """Return a copy with the rows ``rows``."""
        out = self.fork()
        out.select(rows)
        return out

    @abstractmethod
    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin one empty prefix per budget."""

    @abstractmethod
    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows where ``moving`` is True."""

    @abstractmethod
    def select(self, indices: Tensor | Sequence[int]) -> None:
        """Keep the rows ``indices``, in that order."""


class SteppedQuery(RowQuery):
    """A query whose rows are steps, beside the history of their tokens and a trail of earlier steps; abstract."""

    _steps: Any  # Steps

    def __init__(self, steps: Steps) -> None:
        self._steps, self._history, self._trail = steps, History(), Trail()

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._steps = self._steps.fork()
        out._history, out._trail = copy(self._history), copy(self._trail)
        return out

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        found: Tensor = self._steps.remaining
        return found

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        self._steps.take_up(budgets)
        self._history.begin(self.remaining)  # on the same device, so that no token is read back
        self._trail.clear()
        self._changed()

    def _changed(self) -> None:
        """Forget what was computed of the rows as they were."""

    def advance(self, tokens: Tokens) -> None:
        self._append(self._checked(tokens), self.remaining > 0)

    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        moving = moving.to(self.remaining.device)
        tokens = self._checked(tokens.to(moving.device).masked_fill(~moving, 0))
        self._append(tokens, moving & (self.remaining > 0))

    def _checked(self, tokens: Tokens) -> Int[Tensor, " batch"]:
        return checked_tokens(tokens, self._size(), self.vocab_size).to(self.remaining.device)

    def _append(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        before = self._steps.snapshot()
        self._steps.advance_some(tokens, moving)
        self._history.append(tokens.masked_fill(~moving, -1))
        self._trail.append(before) if before is not None else self._trail.clear()
        self._changed()

    def _size(self) -> int:
        return len(self.remaining)

    def _appended(self) -> int:
        return self._history.tokens.shape[1]

    def _keep(self, indices: Int[Tensor, " rows"]) -> None:
        indices = indices.to(self.remaining.device)
        self._steps.select(indices)
        self._history.select(indices)
        self._trail.select(indices)
        self._changed()

    def _back(self, n: int) -> None:
        self._history.rollback(n)
        self._changed()
        if (before := self._trail.back(n)) is not None:
            self._steps = before.fork()  # the trail may be another query's, too
            return
        self._steps.take_up(self._history.budgets)
        for tokens in self._history.tokens.T:
            self._steps.advance_some(tokens, tokens >= 0)
