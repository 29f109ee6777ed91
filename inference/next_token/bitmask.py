"""Boolean answers as bits: what every next-token query with masks has in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int32
from numpy import ndarray
from torch import Tensor

from ...errors import ShapeError, VocabularyMismatch
from .generic import NextToken


class BitmaskQuery(NextToken):
    """A next-token query of an automaton whose masks are read as bits."""

    automaton: Any

    @abstractmethod
    def words(self, out: Int32[ndarray, "batch words"] | None = None) -> Int32[ndarray, "batch words"]:
        """``bitmask`` as a numpy array, written into ``out`` if given."""

    def mask(self) -> Bool[Tensor, "batch vocab"]:
        bits = np.unpackbits(self.words().view(np.uint8), axis=1, bitorder="little")
        return torch.from_numpy(bits[:, : self.vocab_size].view(bool))

    def bitmask(self, out: Int[Tensor, "batch words"] | None = None) -> Int[Tensor, "batch words"]:
        """The mask as int32 words, token v in bit v mod 32 of word v div 32; written into ``out`` (on the CPU) if given.

        Raises :class:`ShapeError` where ``out`` is not (batch, words) of int32.
        """
        if out is None:
            return torch.from_numpy(self.words())
        if out.dtype != torch.int32 or out.device.type != "cpu":
            raise ShapeError(f"bitmask: the buffer must be int32 on the CPU, not {out.dtype} on {out.device}")
        self.words(out.numpy())
        return out

    def apply(self, logits: Float[Tensor, "batch vocab"]) -> None:
        """Set the logits of the tokens outside the mask to −inf, in place; columns past the vocabulary too.

        Raises :class:`VocabularyMismatch` where the shape does not fit.
        """
        if logits.ndim != 2 or len(logits) != len(self.remaining) or logits.shape[1] < self.vocab_size:
            raise VocabularyMismatch(
                f"apply: the logits must be ({len(self.remaining)}, {self.vocab_size}) or wider, not {tuple(logits.shape)}"
            )
        logits[:, : self.vocab_size].masked_fill_(~self.mask().to(logits.device), -torch.inf)
        logits[:, self.vocab_size :] = -torch.inf

    def log_weights(self) -> Tensor:
        return torch.zeros(len(self.remaining), self.vocab_size).masked_fill(~self.mask(), -torch.inf)
