"""Sets of tokens as bits of little-endian 32-bit words: token v is bit v mod 32 of word v div 32."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Int32


def pack(allowed: Bool[np.ndarray, " vocab"]) -> Int32[np.ndarray, " words"]:
    """Pack booleans into the bits of little-endian 32-bit words."""
    packed = np.zeros(-(-len(allowed) // 32) * 4, np.uint8)
    bits = np.packbits(allowed, bitorder="little")
    packed[: len(bits)] = bits
    return packed.view("<i4")
