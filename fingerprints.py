"""Which vocabulary a model, an automaton or a file was made for: a fingerprint, and the check that two agree.

    fingerprint = SHA-256(end token, number of tokens, bytes of each token; special tokens have none)

Token ids mean nothing outside the tokenizer that they are of, and two tokenizers may well have equally many tokens. So
whatever is made for a vocabulary carries its fingerprint, a hexadecimal string, and is refused where another is in use.
``None`` stands for a vocabulary that is not known (automata by token id, HMMs made from arrays): nothing is checked then.

Ids after the last token with bytes are not part of it: a language model whose outputs are padded beyond the tokenizer's
tokens has the tokenizer's fingerprint, and only another size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from .errors import VocabularyMismatch

SHOWN = 12  # hexadecimal digits in messages


def fingerprint(token_bytes: Sequence[bytes | None], eos_token_id: int) -> str:
    """The fingerprint of a vocabulary: 64 hexadecimal digits, the same on every machine and in every version.

    ``token_bytes[i]`` are the bytes of token i, ``None`` (or none at all) for a special token, which the end token is.
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
    """Raise :class:`VocabularyMismatch` if two things were made for different vocabularies, as far as both are known.

    ``first`` and ``second`` name them, ``cure`` says what to do: "the HMM", "the automaton", "distil another HMM".
    """
    if fingerprint is not None and other is not None and fingerprint != other:
        raise VocabularyMismatch(
            f"{first} was made for the vocabulary {fingerprint[:SHOWN]}…, {second} for {other[:SHOWN]}…: the bytes of "
            f"their tokens or their end tokens differ, so token ids of one mean nothing to the other; {cure}"
        )
