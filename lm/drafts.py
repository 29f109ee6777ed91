"""Drafted tokens through a language model: several of each row in one pass, and those that were rejected taken back."""

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
        """Append tokens to each row; log p_lm(next token) after each of them.

        −1 at the end of a row is padding: what is returned there means nothing. :meth:`keep` must follow.
        """

    def keep(self, counts: Int[Tensor, " batch"]) -> None:
        """Keep the first ``counts[i]`` tokens of the last :meth:`extend` in row i and forget the others."""


@final
class StepByStep:
    """:class:`Extending` for a language model that reads one token at a time and can be forked.

    ``lm`` is where the rows are; it is another object after each call of :meth:`keep`.
    """

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self._tokens: Int[Tensor, "batch new"] = torch.zeros(0, 0, dtype=torch.long)

    def extend(self, tokens: Int[Tensor, "batch new"]) -> Float[Tensor, "batch new vocab"]:
        """Append tokens to each row of a fork, one after another; a row ends at a token of probability zero."""
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
        """Append the tokens that are kept."""
        for place in range(int(counts.max()) if len(counts) else 0):
            self.lm.advance(self._tokens[:, place].masked_fill(counts <= place, -1))

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        """As :meth:`LanguageModel.select`."""
        self.lm.select(indices)
