"""The tokens of a vocabulary that may end one item of an array and go on with the next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .text_tokens import Bits

CLOSERS, COMMA, OPENER = frozenset(b"}]"), 44, 91
MOST_CLOSERS = 3


class ItemTokens:
    """Sets of the tokens with a comma, by the brackets that they close before the last one.

    ``between[k]``: the tokens that close at least k brackets before the last comma, or open an array before a comma.
    """

    def __init__(self, token_bytes: Sequence[bytes | None], num_bytes: int) -> None:
        flags = np.zeros((MOST_CLOSERS + 1, 8 * num_bytes), bool)
        for token, word in enumerate(token_bytes):
            if word is not None and COMMA in word:
                closers = sum(byte in CLOSERS for byte in word[: word.rindex(COMMA)])
                enters = OPENER in word and COMMA in word[word.index(OPENER) :]
                flags[: MOST_CLOSERS + 1 if enters else min(closers, MOST_CLOSERS) + 1, token] = True
        self.between: list[Bits] = list(np.packbits(flags, axis=1, bitorder="little"))


def tokens_of(bits: Bits) -> list[int]:
    """Return the tokens of a packed set, in order."""
    words = bits.view(np.uint32)
    at = np.flatnonzero(words)
    where, bit = np.nonzero(np.unpackbits(words[at].view(np.uint8).reshape(-1, 4), axis=1, bitorder="little"))
    found: list[int] = (32 * at[where] + bit).tolist()
    return found
