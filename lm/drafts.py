"""Speculative decoding: evaluate several drafted tokens of each row in one pass, and take back the rejected ones."""

from __future__ import annotations

from typing import Protocol, final, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import EvidenceError
from .base import Forking, LanguageModel


@runtime_checkable
class Extending(LanguageModel, Protocol):
    """A language model that reads several tokens in one pass."""

    def extend(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch new vocab"]:
        """Append tokens to each row; return log p_lm(next token) after each of them.

        −1 at the end of a row is padding; the values returned there are undefined. :meth:`keep` must follow.
        """

    def keep(self, counts: Int[Tensor, " batch"]) -> None:
        """Keep the first ``counts[i]`` tokens of the last :meth:`extend` in row i and forget the others."""


@final
class StepByStep:
    """An adapter that makes a language model with ``fork`` :class:`Extending`, one token at a time.

    ``lm`` holds the rows, without the draft.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self._tokens: Int[Tensor, "batch new"] = torch.zeros(0, 0, dtype=torch.long)

    def extend(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch new vocab"]:
        """Append tokens to each row of a fork, one at a time; a row stops before a token of probability zero."""
        if not isinstance(self.lm, Forking):
            raise EvidenceError(
                f"{type(self.lm).__name__} cannot take drafted tokens back: it needs extend and keep, or fork"
            )
        trial, tables, self._tokens = self.lm.fork(), [], tokens
        going = torch.ones(len(tokens), dtype=torch.bool)
        for column in tokens.T:
            possible = trial.log_probs().cpu().gather(1, column.clamp(min=0)[:, None])[:, 0] > -torch.inf
            going = going & (column >= 0) & possible
            trial.advance(column.masked_fill(~going, -1))
            tables.append(trial.log_probs())
        return torch.stack(tables, 1)

    def keep(self, counts: Int[Tensor, " batch"]) -> None:
        """Append the first ``counts[i]`` drafted tokens to row i of ``lm``."""
        for place in range(int(counts.max()) if len(counts) else 0):
            self.lm.advance(self._tokens[:, place].masked_fill(counts <= place, -1))

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        """Select rows as :meth:`LanguageModel.select` does."""
        self.lm.select(indices)
