"""Get a :class:`.Vocabulary` from a vocabulary or a tokenizer; each tokenizer is read once."""

from __future__ import annotations

from typing import Any

from ...errors import EvidenceError
from ...token_bytes import once, state
from ..validation import short
from .vocabulary import Vocabulary


def vocabulary_of(source: Any, eos_token_id: int | None = None) -> Vocabulary:
    """Return a vocabulary as it is, or read that of a tokenizer.

    ``eos_token_id``, if given, replaces the end token. Results are cached by tokenizer; one whose number of tokens or end token
    has changed is read again. Raises ``FormatError`` for a tokenizer that :meth:`.Vocabulary.from_tokenizer` does not read,
    ``EvidenceError`` if ``source`` is ``None``, text, a number, a list, a tuple or a dict.
    """
    if isinstance(source, Vocabulary):
        if eos_token_id is None or eos_token_id == source.eos_token_id:
            return source
        other = Vocabulary(source.token_bytes, eos_token_id)
        other.tokenizer = source.tokenizer
        return other
    if source is None or isinstance(source, str | bytes | int | float | list | tuple | dict):
        raise EvidenceError(
            f"compile: vocab is {short(source)}; give a tokenizer, or tt.Vocabulary.from_tokenizer(tokenizer)"
        )
    key = ("vocabulary", eos_token_id, *state(source))
    return once(source, key, lambda: Vocabulary.from_tokenizer(source, eos_token_id=eos_token_id))
