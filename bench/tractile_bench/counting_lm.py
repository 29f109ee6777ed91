"""A language model that counts its calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from tractile.lm import LanguageModel
from tractile.lm.base import Prompt, fingerprint_of


@final
class CountingLM:
    """A wrapper of ``lm`` that counts its work since :meth:`reset`.

    ``calls``: number of calls; ``rows``: batch rows summed over calls; ``started``: ``time.perf_counter`` at the first
    :meth:`start`, or None."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm
        self.vocab_size, self.eos_token_id = lm.vocab_size, lm.eos_token_id
        self.vocabulary_fingerprint = fingerprint_of(lm)
        self.reset()

    def reset(self) -> None:
        """Set the counts to zero."""
        self.calls = self.rows = 0
        self.started: float | None = None

    def start(self, prompts: Sequence[Prompt]) -> None:
        self.started = time.perf_counter() if self.started is None else self.started
        self._count(len(prompts))
        self._lm.start(prompts)

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        return self._lm.log_probs()

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        self._count(len(tokens))
        self._lm.advance(tokens)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self._lm.select(indices)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._lm.decode(token_ids)

    def _count(self, rows: int) -> None:
        self.calls += 1
        self.rows += rows
