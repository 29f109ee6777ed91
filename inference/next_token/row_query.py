"""The rows of every next-token query: begun with budgets, extended by tokens, selected, taken back, copied.

:class:`RowQuery` has the checks and the methods that follow from others; GCD keeps its rows in lists of its own.
:class:`MessageQuery` keeps rows as messages, with the tokens appended so far and the messages before the last of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...errors import BudgetTooLarge, BudgetTooSmall, EvidenceError, ShapeError, VocabularyMismatch
from ..arguments import each_whole, whole
from ..semirings.base import Semiring
from .ahead import forced, validate
from .history import History, Trail
from .protocol import Budgets, Tokens
from .rows import (
    Copied,
    Shortfall,
    buffer_of,
    check_words,
    checked_tokens,
    conditionals,
    pack_bits,
    row_indices,
    shortfall_of,
)

UNLIMITED = 2**31  # tokens left if no budget applies


class RowQuery(Copied):
    """What next-token queries share; abstract. A subclass keeps the rows."""

    horizon: int | None
    device: torch.device
    vocab_size: int
    semiring: Semiring[Any]
    has_lookahead = False
    fork, validate, forced = copy, validate, forced

    def __repr__(self) -> str:
        horizon = "no horizon" if self.horizon is None else f"a horizon of {self.horizon} tokens"
        try:
            rows = f"{self._size()} rows"
        except EvidenceError:
            rows = "not started"
        return f"{type(self).__name__}({rows}, {horizon}, {self.vocab_size:,} tokens)"

    # ------------------------------------------------------------ rows

    def start(self, batch: int = 1, budgets: Budgets = None) -> Self:
        left = self._budgets(whole(batch, "start: batch", 0), budgets)
        if min(left, default=0) < 0:
            raise BudgetTooSmall("budgets must not be negative", needed=None, given=min(left))
        if self.horizon is not None and max(left, default=0) > self.horizon:
            raise BudgetTooLarge(given=max(left), horizon=self.horizon)
        short = self._shortfall([0] * len(left) if self.horizon is None else left)
        if short is not None:
            raise BudgetTooSmall(given=short.given, needed=short.needed, exact=short.exact)
        self._begin(left)
        return self

    def _begin(self, budgets: list[int]) -> None:
        self.take_up(torch.tensor(budgets, dtype=torch.long, device=self.device))

    def _budgets(self, batch: int, budgets: Budgets) -> list[int]:
        """Return a budget in tokens for each row; by default the horizon."""
        most = UNLIMITED if self.horizon is None else self.horizon
        return each_whole(most if budgets is None else budgets, batch, "start: budgets")

    def _shortfall(self, lengths: list[int]) -> Shortfall | None:
        """Return the smallest infeasible length of ``lengths`` and the next feasible one; None if all are feasible."""
        return shortfall_of(self.feasible_lengths(), lengths, self.horizon)

    def resume(self, prefixes: Int[Tensor, "batch length"], budgets: Budgets = None) -> None:
        self._begin(self._budgets(len(prefixes), budgets))
        for tokens in prefixes.T:
            self.advance_some(tokens, tokens >= 0)

    def select(self, indices: Tensor | Sequence[int]) -> None:
        self._keep(row_indices(indices, self._size()))

    def rollback(self, n: int) -> None:
        n, length = whole(n, "rollback: n", 0), self._appended()
        if n > length:
            raise ShapeError(
                f"rollback: {n} tokens cannot be taken back, {length} were appended since the start"
            )
        if n:
            self._back(n)

    # ------------------------------------------------------------ answers

    def scores(self) -> Float[Tensor, "batch vocab"]:
        return conditionals(self.log_weights(), self.remaining, self.semiring)

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        return self.log_weights() > -torch.inf

    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        found: Int32[ndarray, "batch words"] = pack_bits(self.mask()).cpu().numpy()
        if out is None:
            return found
        check_words(out, *found.shape)
        out[:] = found
        return out

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        if out is None:
            return pack_bits(self.mask())
        self.words(buffer_of(out))
        return out

    def apply(self, logits: Float[Tensor, "batch vocab"]) -> None:
        rows, vocab_size = self._size(), self.vocab_size
        if logits.ndim != 2 or len(logits) != rows or logits.shape[1] < vocab_size:
            raise VocabularyMismatch(
                f"apply: the logits must be ({rows}, {vocab_size}) or wider, not {tuple(logits.shape)}"
            )
        logits[:, :vocab_size].masked_fill_(~self.mask().to(logits.device), -torch.inf)
        logits[:, vocab_size:] = -torch.inf

    # ------------------------------------------------------------ what a subclass has

    @property
    @abstractmethod
    def remaining(self) -> Int[Tensor, " batch"]: ...

    @abstractmethod
    def take_up(self, budgets: Int[Tensor, " batch"]) -> None: ...

    @abstractmethod
    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None: ...

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


class Messages(Copied):
    """The rows of a query, each a message over states and a number of tokens ``left``, in one named tuple; abstract."""

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

    @abstractmethod
    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin one empty prefix per budget."""

    @abstractmethod
    def advance_some(self, tokens: Int[Tensor, " batch"], moving: Bool[Tensor, " batch"]) -> None:
        """Append a token to the rows where ``moving`` is True."""

    @abstractmethod
    def select(self, indices: Tensor | Sequence[int]) -> None:
        """Keep the rows ``indices``, in that order."""


class MessageQuery(RowQuery):
    """A query whose rows are steps, beside the history of their tokens and a trail of earlier steps; abstract."""

    _messages: Any  # Messages

    def __init__(self, messages: Messages) -> None:
        self._messages, self._history, self._trail = messages, History(), Trail()

    def __copy__(self) -> Self:
        out = super().__copy__()
        out._messages = self._messages.fork()
        out._history, out._trail = copy(self._history), copy(self._trail)
        return out

    @property
    def remaining(self) -> Int[Tensor, " batch"]:
        found: Tensor = self._messages.remaining
        return found

    def take_up(self, budgets: Int[Tensor, " batch"]) -> None:
        self._messages.take_up(budgets)
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
        before = self._messages.snapshot()
        self._messages.advance_some(tokens, moving)
        self._history.append(tokens.masked_fill(~moving, -1))
        self._trail.append(before) if before is not None else self._trail.clear()
        self._changed()

    def _size(self) -> int:
        return len(self.remaining)

    def _appended(self) -> int:
        return self._history.tokens.shape[1]

    def _keep(self, indices: Int[Tensor, " rows"]) -> None:
        indices = indices.to(self.remaining.device)
        self._messages.select(indices)
        self._history.select(indices)
        self._trail.select(indices)
        self._changed()

    def _back(self, n: int) -> None:
        self._history.rollback(n)
        self._changed()
        if (before := self._trail.back(n)) is not None:
            self._messages = before
            return
        self._messages.take_up(self._history.budgets)
        for tokens in self._history.tokens.T:
            self._messages.advance_some(tokens, tokens >= 0)
