"""The end token and vocabulary of models known exactly, and language models given by tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..argument_checks import whole, whole_numbers
from ..errors import EvidenceError, ShapeError, VocabularyMismatch
from .base import LanguageModel, Prompt, TokenBytes, _pin, _spell
from .products import Multiplies


class ExactLM(Multiplies):
    """The end token and the vocabulary of a language model over token ids; abstract."""

    def __init__(self, vocab_size: int, eos_token_id: int | None, vocabulary: TokenBytes | None) -> None:
        if eos_token_id is not None:
            eos_token_id = whole(eos_token_id, "the end-of-sequence token", None, VocabularyMismatch)
        if eos_token_id is not None and not 0 <= eos_token_id < vocab_size:
            raise VocabularyMismatch(
                f"the end-of-sequence token {eos_token_id} is not among the {vocab_size} tokens"
            )
        self.vocab_size, self.eos_token_id, self._vocabulary = vocab_size, eos_token_id, vocabulary

    def _prompt_ids(self, prompt: Prompt) -> list[int]:
        """Return the token ids of a prompt, checked. Raises :class:`EvidenceError` for a text."""
        if isinstance(prompt, str) and prompt:
            raise EvidenceError(
                f"this language model has no tokenizer: give the prompt {prompt!r} as token ids"
            )
        return self._tokens(list(prompt), None, 0, "the prompt").tolist()

    def _tokens(self, tokens: Any, rows: int | None, least: int, name: str) -> Int[Tensor, " tokens"]:
        """Return token ids from ``least`` on, one for each of ``rows``. Raises :class:`VocabularyMismatch` for anything else."""
        found = whole_numbers(tokens, f"{name}: token ids", VocabularyMismatch)
        if found.ndim != 1 or rows not in (None, len(found)):
            raise VocabularyMismatch(
                f"{name}: one token for each of {rows} rows, not shape {tuple(found.shape)}"
            )
        if len(found) and not least <= int(found.min()) <= int(found.max()) < self.vocab_size:
            raise VocabularyMismatch(f"{name}: a token lies outside the vocabulary of {self.vocab_size}")
        return found

    def fork(self) -> LanguageModel:
        return copy(self)

    @property
    def tokenizer(self) -> TokenBytes | None:
        """The vocabulary given, for which constraints are compiled; None if there is none."""
        return self._vocabulary

    def decode(self, token_ids: Sequence[int]) -> str:
        return _spell(token_ids, self._vocabulary, self.eos_token_id)


@final
class TableLM(ExactLM):
    """A language model given by a table, for tests and small examples.

    ``log_probs`` maps a context (a tuple of token ids) to the log-probabilities of the next token, in nats. The longest suffix
    of the tokens so far that is a key is used; the empty context () must be one. Whole prefixes as keys give any distribution,
    contexts of up to k tokens a Markov model of order k, and the empty context alone independent tokens.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.5, 0.5]).log(), (1,): torch.tensor([0.9, 0.1]).log()})
    >>> lm.start([[], [0, 0, 1]])  # no prompt, and one that ends with 1
    >>> lm.log_probs().exp()
    tensor([[0.5000, 0.5000],
            [0.9000, 0.1000]], dtype=torch.float64)
    >>> lm.advance(torch.tensor([1, 0]))
    >>> lm.log_probs().exp()
    tensor([[0.9000, 0.1000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """

    def __init__(
        self,
        log_probs: Mapping[tuple[int, ...], Sequence[float] | Tensor],
        eos_token_id: int | None = None,
        vocabulary: TokenBytes | None = None,
    ) -> None:
        self._table = {key: torch.as_tensor(row, dtype=torch.float64) for key, row in log_probs.items()}
        if () not in self._table:
            raise EvidenceError("TableLM: the table lacks the empty context ()")
        shape = self._table[()].shape
        for key, row in self._table.items():
            if row.shape != shape or row.ndim != 1 or abs(float(row.logsumexp(0))) > 1e-6:
                raise ShapeError(
                    f"TableLM: the row of context {key} is not {tuple(shape)} normalised log-probabilities"
                )
        super().__init__(len(self._table[()]), eos_token_id, vocabulary)

    def __repr__(self) -> str:
        return f"TableLM({len(self._table)} contexts, {self.vocab_size:,} tokens)"

    def start(self, prompts: Sequence[Prompt]) -> None:
        self._rows = [tuple(self._prompt_ids(prompt)) for prompt in prompts]
        self._finished = torch.zeros(len(self._rows), dtype=torch.bool)

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        rows = torch.stack([self._lookup(row) for row in self._rows])
        return _pin(rows, self._finished, self.eos_token_id)

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        tokens = self._tokens(tokens, len(self._rows), -1, "advance")
        pairs = zip(self._rows, tokens.tolist(), strict=True)
        self._rows = [row if token < 0 else (*row, token) for row, token in pairs]
        if self.eos_token_id is not None:
            self._finished = self._finished | (tokens == self.eos_token_id)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self._rows = [self._rows[i] for i in indices.tolist()]
        self._finished = self._finished[indices]

    def _lookup(self, row: tuple[int, ...]) -> Tensor:
        return next(self._table[row[i:]] for i in range(len(row) + 1) if row[i:] in self._table)
