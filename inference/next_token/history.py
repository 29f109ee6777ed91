"""The tokens and past states of a next-token query's rows, for exact recomputation and for rollback."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Int
from torch import Tensor

from ...errors import EvidenceError

NO_ROWS = "the query has no rows yet: call start(batch=…) first"
KEPT_STEPS = 32  # tokens that can be taken back without replaying the prefix
KEPT_BYTES = 1 << 26  # of the states kept for that


Q = TypeVar("Q")


class History:
    """The tokens (batch, length) appended to each row, −1 where none was, and the initial budgets (batch,).

    It also holds the exact queries with which a fast query recomputes rows that lost something to underflow. They are made
    when first needed and addressed by name. All copies of the fast query share their tables. When asked, an exact query
    first reads the tokens that were appended since it was last asked.
    """

    def __init__(self) -> None:
        self.tokens: Int[Tensor, "batch length"] = torch.zeros(0, 0, dtype=torch.long)
        self.budgets: Int[Tensor, " batch"] = torch.zeros(0, dtype=torch.long)
        self._has_rows = False
        self._made: dict[str, Any] = {}  # queries without rows, shared by all copies
        self._begun: dict[str, tuple[Any, int]] = {}  # copies with rows, and the tokens each has read

    def __copy__(self) -> History:
        out = object.__new__(History)
        out.__dict__.update(self.__dict__)
        out._begun = {name: (copy(query), read) for name, (query, read) in self._begun.items()}
        return out

    def begin(self, budgets: Int[Tensor, " batch"]) -> None:
        """Begin one empty prefix per budget."""
        self.budgets, self._begun, self._has_rows = budgets.clone(), {}, True
        self.tokens = torch.zeros(len(budgets), 0, dtype=torch.long, device=budgets.device)

    def append(self, tokens: Int[Tensor, " batch"]) -> None:
        """Append one token to each row; −1: none."""
        self.tokens = torch.cat([self.tokens, tokens.to(self.tokens.device)[:, None]], 1)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep the rows ``rows``, in that order."""
        rows = rows.to(self.tokens.device)
        self.tokens, self.budgets = self.tokens[rows], self.budgets[rows]
        for query, _ in self._begun.values():
            query.select(rows)

    def rollback(self, n: int) -> None:
        """Forget the last ``n`` tokens; exact queries that have read them are replayed when next asked."""
        self.tokens = self.tokens[:, : self.tokens.shape[1] - n]
        length = self.tokens.shape[1]
        self._begun = {name: (query, read) for name, (query, read) in self._begun.items() if read <= length}

    def shared(self, name: str, make: Callable[[], Q]) -> Q:
        """Return the query of this name, without rows, making it at the first call."""
        if name not in self._made:
            self._made[name] = make()
        return cast(Q, self._made[name])

    def query(self, name: str, make: Callable[[], Q]) -> Q:
        """Return the query of this name, making it if needed, after it has read all tokens.

        Raises :class:`EvidenceError` before rows begin.
        """
        if not self._has_rows:
            raise EvidenceError(NO_ROWS)
        if name in self._begun:
            query, read = self._begun[name]
        else:
            query, read = copy(cast(Any, self.shared(name, make))), 0
            query.take_up(self.budgets)
        for tokens in self.tokens[:, read:].T:
            query.advance_some(tokens, tokens >= 0)
        self._begun[name] = query, self.tokens.shape[1]
        return cast(Q, query)


class Trail:
    """A stack of the states before each of the last tokens, newest last, for rollback.

    It keeps at most :data:`KEPT_STEPS` states and about :data:`KEPT_BYTES` bytes. A state has ``nbytes`` and
    ``selected(rows)``, and is never changed in place.
    """

    def __init__(self) -> None:
        self._entries: list[Any] = []  # a state before a token, or the indices of a selection of rows
        self._states = 0

    def __copy__(self) -> Trail:
        out = Trail()
        out._entries, out._states = list(self._entries), self._states
        return out

    def clear(self) -> None:
        """Forget all states."""
        self._entries, self._states = [], 0

    def append(self, state: Any) -> None:
        """Push the state before a token, dropping the oldest states beyond the limits."""
        most = min(KEPT_STEPS, KEPT_BYTES // max(1, state.nbytes))
        self._entries.append(state)
        self._states += 1
        while self._states > most:
            self._states -= not isinstance(self._entries.pop(0), Tensor)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Record a selection of rows."""
        if self._states:
            former = self._entries.pop()[rows] if isinstance(self._entries[-1], Tensor) else rows
            self._entries.append(former)

    def back(self, n: int) -> Any:
        """Pop and return the state ``n`` tokens ago, with later selections applied; None if it is no longer kept."""
        if n > self._states:
            self.clear()
            return None
        rows: Int[Tensor, " rows"] | None = None
        while True:
            entry = self._entries.pop()
            if isinstance(entry, Tensor):
                rows = entry if rows is None else entry[rows]
                continue
            n, self._states = n - 1, self._states - 1
            if n:
                continue
            if rows is None:
                return entry
            self.select(rows)  # the selection also applies to the older states
            return entry.selected(rows)
