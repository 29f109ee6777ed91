"""Texts and token ids by a transformers tokenizer: prompts encoded, continuations decoded as they follow a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from ..errors import EvidenceError
from .base import Prompt, _spell


@final
class TokenizerTexts:
    """Prompts to token ids and back; without a tokenizer (None) texts are the ids themselves."""

    def __init__(self, tokenizer: Any, eos_token_id: int | None) -> None:
        self._tokenizer, self._eos = tokenizer, eos_token_id
        # Decoders drop a leading space: texts are read behind a token, whose own text is cut off.
        self._anchor: list[int] = (
            [] if tokenizer is None else tokenizer("a", add_special_tokens=False).input_ids
        )
        self._anchor_length = len(self._text(self._anchor))

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of a continuation, special tokens left out."""
        return self._text([*self._anchor, *token_ids])[self._anchor_length :]

    def encode(self, prompt: Prompt) -> list[int]:
        """The token ids of a prompt, by default the beginning-of-sequence token; raises :class:`EvidenceError` for none."""
        if isinstance(prompt, str):
            if self._tokenizer is None:
                raise EvidenceError("TransformersLM: a text prompt needs a tokenizer; give token ids instead")
            ids = [int(token) for token in self._tokenizer(prompt).input_ids]
            if not ids and self._tokenizer.bos_token_id is not None:
                ids = [self._tokenizer.bos_token_id]
        else:
            ids = [int(token) for token in prompt]
        if not ids:
            raise EvidenceError(
                "TransformersLM: the prompt has no tokens; begin it with the model's first token (BOS)"
            )
        return ids

    def _text(self, ids: Sequence[int]) -> str:
        if self._tokenizer is None:
            return _spell(ids, None, self._eos)
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
