"""The vocabulary of whatever stands for one: a :class:`.Vocabulary`, or a tokenizer, which is read once."""

from __future__ import annotations

from collections.abc import Hashable, Sized
from typing import Any
from weakref import WeakKeyDictionary

from tokenizers import Tokenizer

from ...errors import EvidenceError
from ..validation import short
from .vocabulary import Vocabulary

_read: WeakKeyDictionary[Any, dict[tuple[Hashable, ...], Vocabulary]] = WeakKeyDictionary()


def vocabulary_of(source: Any, eos_token_id: int | None = None) -> Vocabulary:
    """The vocabulary itself, or that of a tokenizer; a text ends with ``eos_token_id`` where that is given.

    A tokenizer that has been changed (tokens added, another end token) is read again. Raises ``FormatError`` for a
    tokenizer that :meth:`.Vocabulary.from_tokenizer` does not read, ``EvidenceError`` for what is none.
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
    key = _state(source), eos_token_id
    try:
        known = _read.setdefault(source, {})
    except TypeError:  # of a class that has no weak references
        known = {}
    if key not in known:
        known[key] = Vocabulary.from_tokenizer(source, eos_token_id=eos_token_id)
    return known[key]


def _state(tokenizer: Any) -> Hashable:
    """A key that changes when the tokens of a tokenizer do."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.get_vocab_size()
    return len(tokenizer) if isinstance(tokenizer, Sized) else 0, getattr(tokenizer, "eos_token_id", None)
