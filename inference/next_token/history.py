"""What the rows of a next-token query have been given: to recompute rows exactly, and to take tokens back."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Int
from torch import Tensor

KEPT_STEPS = 32  # that can be taken back without replaying the prefix
KEPT_BYTES = 1 << 26


Q = TypeVar("Q")


class History:
    """The tokens (batch, length) of each row, −1 where it stayed as it was, and the budgets (batch,) it was begun with.

    A query that computes fast keeps exact ones beside it, for the rows in which it lost something to the range of its
    precision. They are made when first needed, share their tables among all copies of the query, and read only the tokens
    that came since they were last asked.
    """

    def __init__(self) -> None:
        self.tokens: Int[Tensor, "batch length"] = torch.zeros(0, 0, dtype=torch.long)
        self.budgets: Int[Tensor, " batch"] = torch.zeros(0, dtype=torch.long)
        self._made: dict[str, Any] = {}  # queries that were never begun, shared by all copies
        self._begun: dict[str, tuple[Any, int]] = {}  # copies of those, and how many tokens each has read

    def __copy__(self) -> History:
        out = object.__new__(History)
        out.__dict__.update(self.__dict__)
        out._begun = {name: (copy(query), read) for name, (query, read) in self._begun.items()}
        return out

    def begin(self, budgets: Int[Tensor, " batch"]) -> None:
        """Take up empty prefixes."""
        self.budgets, self._begun = budgets.clone(), {}
        self.tokens = torch.zeros(len(budgets), 0, dtype=torch.long, device=budgets.device)

    def append(self, tokens: Int[Tensor, " batch"]) -> None:
        """A token for each row, or −1."""
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

    def made(self, name: str, make: Callable[[], Q]) -> Q:
        """The query of a name, made at the first call; not begun."""
        if name not in self._made:
            self._made[name] = make()
        return cast(Q, self._made[name])

    def share(self, other: History, name: str) -> None:
        """Take over the query of a name from another history, if it has been made there."""
        if name in other._made:
            self._made[name] = other._made[name]

    def query(self, name: str, make: Callable[[], Q]) -> Q:
        """The query of a name, which has read all tokens."""
        if name in self._begun:
            query, read = self._begun[name]
        else:
            query, read = copy(cast(Any, self.made(name, make))), 0
            query.take_up(self.budgets)
        for tokens in self.tokens[:, read:].T:
            query.advance_some(tokens, tokens >= 0)
        self._begun[name] = query, self.tokens.shape[1]
        return cast(Q, query)


class Trail:
    """The states of rows before their last tokens, newest last, within :data:`KEPT_BYTES`.

    A state has ``nbytes`` and ``select(rows)``, and is never changed in place.
    """

    def __init__(self) -> None:
        self._entries: list[Any] = []  # a state before a token, or rows that were selected
        self._states = 0

    def __copy__(self) -> Trail:
        out = Trail()
        out._entries, out._states = list(self._entries), self._states
        return out

    def clear(self) -> None:
        """Forget all."""
        self._entries, self._states = [], 0

    def append(self, state: Any) -> None:
        """A state before a token."""
        most = min(KEPT_STEPS, KEPT_BYTES // max(1, state.nbytes))
        self._entries.append(state)
        self._states += 1
        while self._states > most:
            self._states -= not isinstance(self._entries.pop(0), Tensor)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Rows were selected."""
        if self._states:
            former = self._entries.pop()[rows] if isinstance(self._entries[-1], Tensor) else rows
            self._entries.append(former)

    def back(self, n: int) -> Any:
        """The state ``n`` tokens ago, with the rows selected since; the newer ones are forgotten. None if it is not kept."""
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
            self.select(rows)  # the older ones are to follow
            return entry.select(rows)
