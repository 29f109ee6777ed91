"""What scaled arithmetic lost, computed again in a wider range: in float64, then in log space."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ...circuits.automaton import Automaton
from ...circuits.chain import Chain
from ..semirings.base import Semiring
from ..semirings.logarithms import Log
from ..semirings.scaled_real import Real
from .history import History
from .product_step import ProductSteps, Scores
from .product_tables import ProductTables


class Recovery:
    """Steps on the same chain × automaton in wider ranges, made when first needed and kept by the history of the rows.

    ``log_top``: what the scores of each token leave out (nats), as in :class:`~.token_scores.TableScores`.
    """

    def __init__(
        self, chain: Chain, automaton: Automaton, horizon: int, log_top: Float[Tensor, " vocab"]
    ) -> None:
        self._chain, self._automaton, self._horizon, self._log_top = chain, automaton, horizon, log_top

    def scores(self, history: History, found: Scores, lost: Bool[Tensor, " batch"]) -> Scores:
        """Replace the rows ``lost`` of the scores."""
        top = self._log_top.double()
        parts = []
        for mine, scale, other in zip(
            found[::2], found[1::2], self._wider(history, ProductSteps.totals), strict=True
        ):
            other = torch.where(top.isfinite(), other.to(mine.device) - top, -torch.inf)
            most = other.amax(1)
            most = torch.where(most.isfinite(), most, 0)
            parts.append(torch.where(lost[:, None], (other - most[:, None]).to(mine.dtype), mine))
            parts.append(torch.where(lost, most, scale))
        return Scores(*parts)

    def totals(
        self, history: History, found: Float[Tensor, " batch"], ask: Callable[[ProductSteps], Tensor]
    ) -> Float[Tensor, " batch"]:
        """Replace logarithms that are NaN by those that wider steps answer to ``ask``."""
        found = found.double()
        if not bool((lost := found.isnan()).any()):
            return found
        (wider,) = self._wider(history, lambda steps: (ask(steps).double(),))
        return torch.where(lost, wider.to(found.device), found)

    def _wider(
        self, history: History, ask: Callable[[ProductSteps], tuple[Tensor, ...]]
    ) -> tuple[Tensor, ...]:
        """Ask in float64, and in log space for the rows that float64 loses, too."""
        found: tuple[Tensor, ...] = ()
        double = self._chain.initial[0].dtype == torch.float64
        for semiring in (Log(),) if double else (Real(), Log()):
            more = ask(history.query(type(semiring).__name__, partial(self._made, semiring)))
            found = tuple(torch.where(x.isnan(), y, x) for x, y in zip(found or more, more, strict=True))
            if not any(bool(x.isnan().any()) for x in found):
                break
        return found

    def _made(self, semiring: Semiring[Any]) -> ProductSteps:
        wide = self._chain.to("cpu", torch.float64)
        return ProductSteps(ProductTables(wide, self._automaton, self._horizon, semiring))
