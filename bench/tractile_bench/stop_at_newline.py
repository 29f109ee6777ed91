"""A language model whose answers end at the first newline, for models that were trained only to continue texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tractile.constraints import Vocabulary
from tractile.errors import EvidenceError
from tractile.lm import LanguageModel
from tractile.lm.base import Prompt, fingerprint_of


@final
class NewlineStopLM:
    """A wrapper of ``lm``: the end token also gets the probability of every white-space token that contains a newline.

    Both papers treat models that were not trained to end their answers in this way (Loula et al. 2025 ask for one more
    molecule of a list). Raises :class:`EvidenceError` if the model has no end token.
    """

    def __init__(self, lm: LanguageModel, vocab: Vocabulary) -> None:
        if lm.eos_token_id is None:
            raise EvidenceError("a newline cannot end the text: the language model has no end token")
        self._lm, self.vocab_size = lm, lm.vocab_size
        self.eos_token_id: int | None = lm.eos_token_id
        self.vocabulary_fingerprint = fingerprint_of(lm)
        pieces = enumerate(vocab.token_bytes[: lm.vocab_size])
        self._ends = torch.tensor(
            [i for i, piece in pieces if piece and b"\n" in piece and not piece.strip()]
        )

    def start(self, prompts: Sequence[Prompt]) -> None:
        self._lm.start(prompts)

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        table = self._lm.log_probs().detach().clone()
        if len(self._ends):
            ends = self._ends.to(table.device)
            over = table[:, ends].logsumexp(dim=1)
            table[:, self.eos_token_id] = torch.logaddexp(table[:, self.eos_token_id], over)
            table[:, ends] = -torch.inf
        return table

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        self._lm.advance(tokens)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self._lm.select(indices)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._lm.decode(token_ids)
