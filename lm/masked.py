"""Masked (diffusion) language models: the distribution of every masked position of a text, given the tokens that are there.

LLaDA (Nie et al. 2025) and the masked models of ``transformers`` predict a position at the position itself; Dream (Ye et al.
2025), made from a model that reads left to right, one position before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import ContextTooLong, EvidenceError
from ..token_bytes import size_of
from .architectures import check_outputs, logits_of, outputs_of


class Denoiser(Protocol):
    """What :func:`tractile.decoding.denoise` asks of a model: ``tokenizer`` may also be a :class:`tractile.Vocabulary`."""

    tokenizer: Any
    mask_token_id: int
    eos_token_id: int | None
    pad_token_id: int | None

    @property
    def device(self) -> torch.device:
        """The device of the log-probabilities."""

    def log_probs(self, ids: Int[Tensor, "rows positions"]) -> Float[Tensor, "rows positions vocab"]:
        """Return log p_t(v) in nats at every position, −inf for the mask."""


class MaskedLM:
    """A model of transformers with a logit for each token at each position: ``AutoModelForMaskedLM``, LLaDA, Dream.

    ``mask_token_id`` is read from the tokenizer or the configuration. A text of the model ends with ``eos_token_id``, and goes
    on with ``pad_token_id`` (default: with end tokens, as LLaDA's base model and the embedded one); LLaDA-Instruct ends with
    ``<|eot_id|>``, then ``<|endoftext|>``. With ``shifted`` the logits of a position are those before it (default: for Dream).
    Raises :class:`EvidenceError` for a model that has no such logits, or whose mask is not known.

    Examples
    --------
    >>> import tractile as tt
    >>> lm = tt.lm.MaskedLM(*tt.embedded.load_masked_lm())
    >>> lm
    MaskedLM(BertForMaskedLM, 1,025 tokens)
    >>> ids = lm.ids("Once upon a", 1, ", there was a dog.")
    >>> open_at = ids.tolist().index(lm.mask_token_id)
    >>> lm.tokenizer.decode(lm.log_probs(ids[None])[0, open_at].argmax())
    'time'
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        mask_token_id: int | None = None,
        eos_token_id: int | None = None,
        pad_token_id: int | None = None,
        shifted: bool | None = None,
    ) -> None:
        config = getattr(model, "config", None)
        known = (
            mask_token_id,
            getattr(tokenizer, "mask_token_id", None),
            getattr(config, "mask_token_id", None),
        )
        mask = next((token for token in known if token is not None), None)
        if mask is None:
            raise EvidenceError(
                "MaskedLM: neither the tokenizer nor the model's configuration names a mask token; give mask_token_id"
            )
        self.model, self.tokenizer, self.mask_token_id = model.eval(), tokenizer, int(mask)
        self.eos_token_id: int | None = getattr(tokenizer, "eos_token_id", None)
        self.eos_token_id = self.eos_token_id if eos_token_id is None else eos_token_id
        self.pad_token_id, self.vocab_size = pad_token_id, size_of(tokenizer)
        if (
            getattr(config, "vocab_size", None) is not None
        ):  # a model may have fewer outputs than the tokenizer has ids
            self.vocab_size = min(self.vocab_size, outputs_of(model))
        self.shifted = (
            str(getattr(config, "model_type", "")).lower() == "dream" if shifted is None else shifted
        )
        limits = (getattr(config, name, None) for name in ("max_position_embeddings", "max_sequence_length"))
        self._limit = next((limit for limit in limits if limit is not None), None)

    def __repr__(self) -> str:
        return f"MaskedLM({type(self.model).__name__}, {self.vocab_size:,} tokens)"

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        found: torch.device = next(self.model.parameters()).device
        return found

    def ids(self, *pieces: str | int | Sequence[int]) -> Int[Tensor, " positions"]:
        """Join pieces into token ids: a text is tokenized without special tokens, n stands for n masks, ids stay as they are."""
        out = list[int]()
        for piece in pieces:
            if isinstance(piece, str):
                out += self.tokenizer(piece, add_special_tokens=False)["input_ids"]
            else:
                out += [self.mask_token_id] * piece if isinstance(piece, int) else list(piece)
        return torch.tensor(out, dtype=torch.long)

    @torch.no_grad()
    def log_probs(self, ids: Int[Tensor, "rows positions"]) -> Float[Tensor, "rows positions vocab"]:
        """Return log p_t(v) in nats at every position, −inf for the mask. Raises :class:`ContextTooLong`."""
        if self._limit is not None and ids.shape[1] > self._limit:
            raise ContextTooLong(
                f"MaskedLM: {ids.shape[1]} positions, but the model has {self._limit}; shorten the canvas"
            )
        logits = logits_of(self.model, self.model(input_ids=ids.to(self.device)))
        if self.shifted:
            logits = torch.cat([logits[:, :1], logits[:, :-1]], 1)
        logits = check_outputs(logits, self.vocab_size).float()
        if self.mask_token_id < logits.shape[-1]:
            logits[..., self.mask_token_id] = -torch.inf
        return logits.log_softmax(-1)
