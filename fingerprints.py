"""Fingerprints of vocabularies: they tell which vocabulary a model, an automaton or a file was made for.

    fingerprint = SHA-256(end token, number of tokens, bytes of each token; special tokens have none)

Token ids have a meaning only for one tokenizer, and different tokenizers may have equally many tokens. So automata, HMMs,
corpora and other objects made for a vocabulary carry its fingerprint, a hexadecimal string, and are refused together with
another one. ``None`` stands for an unknown vocabulary (automata by token id, HMMs made from arrays), which is not checked.

The fingerprint ignores ids after the last token with bytes: a language model whose outputs are padded beyond the tokenizer's
tokens has the tokenizer's fingerprint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import VocabularyMismatch

SHOWN = 12  # hexadecimal digits in messages
FEWER_OUTPUTS = (
    "the tokenizer has tokens that the model cannot write: give the tokenizer that the model was made with, or first call "
    "model.resize_token_embeddings(len(tokenizer))"
)
"""What to do where a language model has fewer outputs than its tokenizer has tokens."""


def fingerprint(token_bytes: Sequence[bytes | None], eos_token_id: int) -> str:
    """Compute the fingerprint of a vocabulary: 64 hexadecimal digits, the same on every machine and in every version.

    ``token_bytes[i]`` are the bytes of token i, ``None`` or ``b""`` for a special token; the end token counts as special.
    """
    pieces = [b"" if i == eos_token_id else piece or b"" for i, piece in enumerate(token_bytes)]
    lengths = np.array([len(piece) for piece in pieces], "<i4")
    count = max(eos_token_id, int(lengths.nonzero()[0].max(initial=-1))) + 1
    out = hashlib.sha256(b"tractile vocabulary 1: %d %d\n" % (eos_token_id, count))
    out.update(lengths[:count].tobytes())
    out.update(b"".join(pieces))
    return out.hexdigest()


def check_same(
    first: str,
    fingerprint: str | None,
    second: str,
    other: str | None,
    cure: str = "use those of one tokenizer",
) -> None:
    """Raise :class:`VocabularyMismatch` if two fingerprints are known and differ.

    ``first`` and ``second`` name their owners and ``cure`` the remedy in the message: "the HMM", "the automaton", "distil
    another HMM".
    """
    if fingerprint is not None and other is not None and fingerprint != other:
        raise VocabularyMismatch(
            f"{first} was made for the vocabulary {fingerprint[:SHOWN]}…, {second} for {other[:SHOWN]}…: the bytes of "
            f"their tokens or their end tokens differ, so token ids of one mean nothing to the other; {cure}"
        )


class VocabularyPrint(NamedTuple):
    """The number of tokens of a vocabulary and its fingerprint, for :func:`check_vocabularies`."""

    vocab_size: int
    vocabulary_fingerprint: str | None = None


def check_vocabularies(
    first: str, one: Any, second: str, other: Any, cure: str = "use those of one tokenizer"
) -> None:
    """Raise :class:`VocabularyMismatch` if two objects have different numbers of tokens, or fingerprints that differ.

    Both have a ``vocab_size``, and a ``vocabulary_fingerprint`` if theirs is known; the second's is read only if the first has
    one. Names and ``cure`` are as in :func:`check_same`.
    """
    if one.vocab_size != other.vocab_size:
        raise VocabularyMismatch(
            f"{first} has {one.vocab_size:,} tokens, {second} {other.vocab_size:,}; {cure}"
        )
    if (known := getattr(one, "vocabulary_fingerprint", None)) is not None:
        check_same(first, known, second, getattr(other, "vocabulary_fingerprint", None), cure)
