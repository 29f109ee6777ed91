"""Language models whose probabilities are known exactly: hidden Markov models and tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..argument_checks import whole, whole_numbers
from ..circuits.hmm import HMM
from ..errors import EvidenceError, ShapeError, VocabularyMismatch
from ..layers.log_product import finite, log_product, smallest_weight
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
class CircuitLM(ExactLM):
    """A hidden Markov model as a language model: p(x_t | x_<t) = Σ_z p(z_t = z | x_<t) B[z, x_t], exactly, in float64.

    The distribution of the hidden state is kept by its logarithms, so that no state is lost to underflow.

    Prompts are token ids (or the empty text): the model continues them. With ``eos_token_id`` a row that has emitted this
    token repeats it with certainty, whatever the HMM's probabilities. ``vocabulary`` (anything with ``token_bytes``) is used
    by ``decode``; a :class:`~tractile.Vocabulary` also allows constraints that are not compiled.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> lm = tt.CircuitLM(hmm)
    >>> lm.start([[], [1]])  # no prompt, and the prompt 1
    >>> lm.log_probs().exp()
    tensor([[0.4500, 0.5500],
            [0.3609, 0.6391]], dtype=torch.float64)
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> round(tt.smc(lm, [], one, "pgcd", hmm, particles=8, max_new_tokens=3, seed=0).log_evidence, 4)
    -1.2277
    >>> round(tt.partition(hmm * one, n=3).item(), 4)  # the same: the HMM is the language model itself
    -1.2277
    """

    def __init__(
        self, hmm: HMM, eos_token_id: int | None = None, vocabulary: TokenBytes | None = None
    ) -> None:
        super().__init__(hmm.vocab_size, eos_token_id, vocabulary)
        self.vocabulary_fingerprint = hmm.vocabulary_fingerprint
        self._initial = hmm.initial_probs.detach().double().log()
        self._transition = hmm.transition.dense().detach().double()
        self._emission = hmm.emission_probs.detach().double()
        self._smallest = smallest_weight(self._transition), smallest_weight(self._emission)

    def __repr__(self) -> str:
        return f"CircuitLM(HMM of {len(self._initial)} hidden states, {self.vocab_size:,} tokens)"

    def start(self, prompts: Sequence[Prompt]) -> None:
        hidden = []
        for prompt in prompts:
            self._hidden = self._initial[None]
            self._finished = torch.zeros(1, dtype=torch.bool)
            for token in self._prompt_ids(prompt):
                self.advance(torch.tensor([token]))
            hidden.append(self._hidden)
        self._hidden = torch.cat(hidden)
        self._finished = torch.zeros(len(hidden), dtype=torch.bool)

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        log_probs = log_product(self._hidden, self._emission, self._smallest[1])
        return _pin(log_probs, self._finished, self.eos_token_id)

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        tokens = self._tokens(tokens, len(self._hidden), -1, "advance")
        if self.eos_token_id is not None:
            self._finished = self._finished | (tokens == self.eos_token_id)
        stays = self._finished | (tokens < 0)
        seen = self._hidden + self._emission[:, tokens.clamp(min=0)].T.log()
        total = seen.logsumexp(1, keepdim=True)
        if bool(total[:, 0].isneginf().masked_fill(stays, False).any()):
            raise EvidenceError("CircuitLM: a token was appended whose probability is zero")
        moved = log_product(seen - finite(total), self._transition, self._smallest[0])
        self._hidden = torch.where(stays[:, None], self._hidden, moved)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        self._hidden, self._finished = self._hidden[indices], self._finished[indices]


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
