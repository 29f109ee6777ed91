"""The tokens and past messages of a next-token query's rows, for exact recomputation and for rollback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Int
from torch import Tensor

from ...errors import EvidenceError

NO_ROWS = "the query has no rows yet: call start(batch=…) first"
KEPT_STEPS = 32  # tokens that can be taken back without replaying the prefix
KEPT_BYTES = 1 << 26  # of the messages kept for that

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

    def recovered(
        self,
        found: tuple[Tensor, ...],
        wider: Sequence[Callable[[], Any]],
        ask: Callable[[Any], tuple[Tensor, ...]],
    ) -> tuple[Tensor, ...]:
        """Return tables in which what is NaN, lost to underflow, is replaced by what queries in wider ranges answer to ``ask``.

        ``wider`` makes these queries, each when first needed: in float64, then in log space.
        """
        for i, make in enumerate(wider):
            if not any(bool(x.isnan().any()) for x in found):
                break
            more = ask(self.query(f"attempt {i}", make))
            found = tuple(torch.where(x.isnan(), y.to(x), x) for x, y in zip(found, more, strict=True))
        return found


class Trail:
    """The messages of the rows before each of the last tokens, newest last, for rollback.

    It keeps at most :data:`KEPT_STEPS` of them and about :data:`KEPT_BYTES` bytes. They are never changed in place.
    """

    def __init__(self) -> None:
        # Messages before a token, and the rows selected since then, before the next token (None: all).
        self._entries: list[tuple[Any, Int[Tensor, " rows"] | None]] = []

    def __copy__(self) -> Trail:
        out = Trail()
        out._entries = list(self._entries)
        return out

    def clear(self) -> None:
        """Forget all messages."""
        self._entries = []

    def append(self, messages: Any) -> None:
        """Push the messages before a token, dropping the oldest beyond the limits."""
        most = min(KEPT_STEPS, KEPT_BYTES // max(1, messages.nbytes))
        self._entries.append((messages, None))
        del self._entries[: len(self._entries) - most]

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Record a selection of rows."""
        if self._entries:
            messages, former = self._entries[-1]
            self._entries[-1] = messages, rows if former is None else former[rows]

    def back(self, n: int) -> Any:
        """Return the messages ``n`` tokens ago, with later selections applied; None if they are no longer kept."""
        if n > len(self._entries):
            self.clear()
            return None
        taken, self._entries = self._entries[-n:], self._entries[:-n]
        rows: Int[Tensor, " rows"] | None = None
        for _, selected in reversed(taken):
            rows = selected if rows is None else rows if selected is None else selected[rows]
        found = taken[0][0].fork()  # the trail may be another query's, too
        if rows is not None:
            found.select(rows)
            self.select(rows)  # the selection also applies to the older ones
        return found
