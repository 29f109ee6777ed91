"""Get a :class:`.Vocabulary` from a vocabulary or a tokenizer; each tokenizer is read once."""

from __future__ import annotations

from typing import Any

from ...errors import EvidenceError
from ...token_bytes import once, state
from ..validation import short
from .vocabulary import Vocabulary


def vocabulary_of(source: Any, eos_token_id: int | None = None, size: int | None = None) -> Vocabulary:
    """Return a vocabulary as it is, or read that of a tokenizer.

    ``eos_token_id``, if given, replaces the end token, ``size`` the number of ids (:meth:`.Vocabulary.adapted`). Results are
    cached by tokenizer or vocabulary; a tokenizer whose number of tokens or end token has changed is read again. Raises
    ``FormatError`` for a tokenizer that :meth:`.Vocabulary.from_tokenizer` does not read, ``VocabularyMismatch`` for an end
    token beyond ``size``, ``EvidenceError`` if ``source`` is ``None``, text, a number, a list, a tuple or a dict.
    """
    if isinstance(source, Vocabulary):
        asked = (
            source.eos_token_id if eos_token_id is None else eos_token_id,
            len(source) if size is None else size,
        )
        if asked == (source.eos_token_id, len(source)):
            return source
        return once(source, ("adapted", *asked), lambda: source.adapted(eos_token_id=eos_token_id, size=size))
    if source is None or isinstance(source, str | bytes | int | float | list | tuple | dict):
        raise EvidenceError(
            f"compile: vocab is {short(source)}; give a tokenizer, or tt.Vocabulary.from_tokenizer(tokenizer)"
        )
    if size is not None:
        return vocabulary_of(vocabulary_of(source, eos_token_id), size=size)
    key = ("vocabulary", eos_token_id, *state(source))
    return once(source, key, lambda: Vocabulary.from_tokenizer(source, eos_token_id=eos_token_id))


def vocabulary_within(source: Any, outputs: int) -> Vocabulary:
    """Return :func:`vocabulary_of`'s result without the tokens from ``outputs`` on, for which a language model has no outputs."""
    vocab = vocabulary_of(source)
    return vocabulary_of(vocab, size=min(outputs, len(vocab)))
