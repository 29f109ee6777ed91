"""What scaled arithmetic lost, computed again in a wider range: in float64, then in log space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .history import History

Found = tuple[Tensor, ...]


class Recovery:
    """Messages in ever wider ranges, each made when first needed; the history of a query's rows keeps them up with the tokens."""

    def __init__(self, *attempts: Callable[[], Any]) -> None:
        self._attempts = attempts

    def fill(self, history: History, found: Found, ask: Callable[[Any], Found]) -> Found:
        """Return tables with what is NaN replaced by what wider steps answer to ``ask``."""
        for i, make in enumerate(self._attempts):
            if not any(bool(x.isnan().any()) for x in found):
                break
            more = ask(history.query(f"attempt {i}", make))
            found = tuple(torch.where(x.isnan(), y.to(x), x) for x, y in zip(found, more, strict=True))
        return found
