"""Convert between texts and token ids by a transformers tokenizer: encode prompts, decode continuations of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, final

from ..argument_checks import whole_numbers
from ..errors import EvidenceError, VocabularyMismatch
from ..token_bytes import size_of
from .base import Prompt, _spell


@final
class TokenizerTexts:
    """Encodes prompts and decodes continuations; without a tokenizer (None) a text is its ids, joined by spaces."""

    def __init__(self, tokenizer: Any, eos_token_id: int | None) -> None:
        self._tokenizer, self._eos = tokenizer, eos_token_id
        # Decoders drop spaces at the ends of a text, so texts are decoded between two anchors, whose own text is then cut off.
        self._anchor: list[int] = []
        if tokenizer is not None:
            letter = tokenizer("a", add_special_tokens=False).input_ids
            others = ([token] for token in range(size_of(tokenizer)))  # where "a" is an unknown character
            self._anchor = next((ids for ids in chain([letter], others) if self._text(ids).strip()), [])
        self._before = len(self._text(self._anchor))
        self._after = len(self._text(self._anchor * 2)) - self._before

    def decode(self, token_ids: Sequence[int]) -> str:
        """Return the text of a continuation, special tokens left out."""
        text = self._text([*self._anchor, *token_ids, *self._anchor])
        return text[self._before : len(text) - self._after]

    def encode(self, prompt: Prompt) -> list[int]:
        """Return the token ids of a prompt; for an empty text the beginning-of-sequence token, if there is one.

        Raises :class:`EvidenceError` if there are no ids, or for a text without a tokenizer.
        """
        if isinstance(prompt, str):
            if self._tokenizer is None:
                raise EvidenceError("TransformersLM: a text prompt needs a tokenizer; give token ids instead")
            ids = [int(token) for token in self._tokenizer(prompt).input_ids]
            if not ids and self._tokenizer.bos_token_id is not None:
                ids = [self._tokenizer.bos_token_id]
        else:
            ids = whole_numbers(list(prompt), "the prompt's token ids", VocabularyMismatch).tolist()
        if not ids:
            raise EvidenceError(
                "TransformersLM: the prompt has no tokens; begin it with the model's first token (BOS)"
            )
        return ids

    def _text(self, ids: Sequence[int]) -> str:
        if self._tokenizer is None:
            return _spell(ids, None, self._eos)
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
