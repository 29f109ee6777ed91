"""What the rows of a next-token query have been given, so that other queries can be brought to where it is.

A query that computes fast keeps others beside it that compute exactly, for the rows in which it lost something to the
range of its precision. They are made when they are first needed, share their backward tables among all copies of the
query, and read only the tokens that came since they were last asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeVar, cast

import torch
from jaxtyping import Int
from torch import Tensor

from ...errors import ShapeError

Query = TypeVar("Query")


class History:
    """The tokens (batch, length) of each row, −1 where it stayed as it was, and the budgets (batch,) it was begun with."""

    def __init__(self) -> None:
        self.tokens: Int[Tensor, "batch length"] = torch.zeros(0, 0, dtype=torch.long)
        self.budgets: Int[Tensor, " batch"] = torch.zeros(0, dtype=torch.long)
        self._made: dict[str, Any] = {}  # queries that were never begun, shared by all copies
        self._kept: dict[str, Any] = {}  # copies of those, begun
        self._read: dict[str, int] = {}  # how many of the tokens each has read

    def __copy__(self) -> History:
        out = object.__new__(History)
        out.__dict__.update(self.__dict__)
        out._kept = {name: copy(query) for name, query in self._kept.items()}
        out._read = dict(self._read)
        return out

    def begin(self, budgets: Int[Tensor, " batch"]) -> None:
        """Forget what was, and take up empty prefixes."""
        self.budgets = budgets.clone()
        self.tokens = torch.zeros(len(budgets), 0, dtype=torch.long, device=budgets.device)
        self._kept, self._read = {}, {}

    def append(self, tokens: Int[Tensor, " batch"]) -> None:
        """A token for each row, or −1."""
        self.tokens = torch.cat([self.tokens, tokens.to(self.tokens.device)[:, None]], 1)

    def select(self, rows: Int[Tensor, " rows"]) -> None:
        """Keep the rows ``rows``, in that order."""
        rows = rows.to(self.tokens.device)
        self.tokens, self.budgets = self.tokens[rows], self.budgets[rows]
        for query in self._kept.values():
            query.select(rows)

    def made(self, name: str, make: Callable[[], Query]) -> Query:
        """The query of a name, made at the first call; not begun."""
        if name not in self._made:
            self._made[name] = make()
        return cast(Query, self._made[name])

    def share(self, other: History, name: str) -> None:
        """Take over the query of a name from another record, if it has been made there."""
        if name in other._made:
            self._made[name] = other._made[name]

    def query(self, name: str, make: Callable[[], Query]) -> Query:
        """The query of a name, which has read all tokens."""
        if name not in self._kept:
            self._kept[name] = copy(self.made(name, make))
            self._kept[name].take_up(self.budgets)
            self._read[name] = 0
        query = self._kept[name]
        for tokens in self.tokens[:, self._read[name] :].T:
            query.advance_some(tokens, tokens >= 0)
        self._read[name] = self.tokens.shape[1]
        return cast(Query, query)


def row_indices(indices: Tensor | Sequence[int] | Sequence[bool], rows: int) -> Int[Tensor, " rows"]:
    """Rows to keep, read as PyTorch reads an index: positions (negative: from the end), or a Boolean for each row.

    Raises :class:`ShapeError` for anything else.
    """
    index = torch.as_tensor(indices)
    if not index.numel() and index.dtype != torch.bool:
        index = index.long()
    whole = not index.is_floating_point() and not index.is_complex()
    if index.ndim != 1 or not whole or (index.dtype == torch.bool and len(index) != rows):
        raise ShapeError(
            f"select: takes the positions of rows, or a Boolean for each of {rows} rows, "
            f"not {index.dtype} of shape {tuple(index.shape)}"
        )
    if index.dtype == torch.bool:
        return index.nonzero().squeeze(1)
    if index.device.type != "cpu":  # reading them back would wait for the device
        return index.long()
    lowest, highest = map(int, index.aminmax()) if len(index) else (0, -1)
    if lowest < -rows or highest >= rows:
        raise ShapeError(f"select: a position lies outside the {rows} rows: {index.tolist()}")
    return index.long() if lowest >= 0 else torch.where(index < 0, index + rows, index).long()
