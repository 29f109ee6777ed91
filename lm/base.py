"""Language models: p_lm(x) = Π_t p_lm(x_t | prompt, x_<t), evaluated one token at a time for a batch of rows.

A row is one unfinished sequence. After the end-of-sequence token a row yields that token with certainty, so p_lm is a
distribution over padded sequences of every length. ``select`` copies, drops and reorders rows, with the caches of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Prompt = str | Sequence[int]


class LanguageModel(Protocol):
    """The protocol of a language model that the samplers use; log-probabilities are in nats.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> class Coin:
    ...     vocab_size, eos_token_id = 2, None
    ...     def start(self, prompts): self.rows = len(prompts)
    ...     def log_probs(self): return torch.full((self.rows, 2), 0.5).log()
    ...     def advance(self, tokens): pass
    ...     def select(self, indices): self.rows = len(indices)
    ...     def decode(self, token_ids): return "".join(map(str, token_ids))
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> post = tt.smc(Coin(), [], one, "gcd", particles=50, max_new_tokens=3, seed=0)
    >>> sorted({particle.text for particle in post.particles})
    ['001', '010', '100']
    """

    vocab_size: int
    eos_token_id: int | None

    def start(self, prompts: Sequence[Prompt]) -> None:
        """Forget all rows and start one row for each prompt (text or token ids)."""

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        """Return log p_lm(next token | prompt, tokens so far) for each row."""

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        """Append one token to each row; −1 leaves a row as it is (a particle that waits for others)."""

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        """Replace row i by a copy of the former row ``indices[i]``; the number of rows may change."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of a continuation as it follows the prompt, without end-of-sequence and special tokens."""


@runtime_checkable
class Forking(LanguageModel, Protocol):
    """A language model that can be copied."""

    def fork(self) -> LanguageModel:
        """Return an independent copy with the same rows."""


def fingerprint_of(lm: LanguageModel) -> str | None:
    """Return the fingerprint of a language model's vocabulary; None if the model does not have one."""
    fingerprint: str | None = getattr(
        lm, "vocabulary_fingerprint", None
    )  # isinstance with a protocol would take a millisecond
    return fingerprint


class TokenBytes(Protocol):
    """The part of a vocabulary that decoding needs: the bytes of each token, None for special tokens."""

    @property
    def token_bytes(self) -> Sequence[bytes | None]: ...


def _spell(token_ids: Sequence[int], vocabulary: TokenBytes | None, eos_token_id: int | None) -> str:
    """Decode tokens by the vocabulary; without one, join the ids by spaces. End-of-sequence is left out."""
    kept = [int(token) for token in token_ids if token != eos_token_id]
    if vocabulary is None:
        return " ".join(map(str, kept))
    return b"".join(vocabulary.token_bytes[token] or b"" for token in kept).decode(errors="replace")


def _pin(log_probs: Tensor, finished: Tensor, eos_token_id: int | None) -> Tensor:
    """Give all probability of finished rows to the end-of-sequence token."""
    if eos_token_id is None or not finished.any():
        return log_probs
    certain = torch.full_like(log_probs[0], -torch.inf)
    certain[eos_token_id] = 0.0
    return torch.where(finished[:, None], certain, log_probs)
