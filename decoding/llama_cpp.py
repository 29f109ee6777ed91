"""Constraints in llama-cpp-python: the vocabulary of a model, and a logits processor.

fa = constraint.compile(llama_vocabulary(llama))
processor = LlamaProcessor(llama, ConstraintLogitsProcessor(fa, max_new_tokens=64))
llama(prompt, max_tokens=64, logits_processor=LogitsProcessorList([processor]))
"""

from __future__ import annotations

import ctypes
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray

from ..constraints import Vocabulary
from .logits_processor import ConstraintLogitsProcessor

LONGEST = 1 << 12  # bytes of a token


def llama_vocabulary(llama: Any) -> Vocabulary:
    """Read the tokens of a ``llama_cpp.Llama``: the bytes of each, and none for those that control the model."""
    from llama_cpp import llama_model_get_vocab, llama_token_to_piece

    vocab, buffer = llama_model_get_vocab(llama.model), ctypes.create_string_buffer(LONGEST)

    def piece(token: int) -> bytes:
        length = llama_token_to_piece(vocab, token, buffer, LONGEST, 0, False)
        return buffer.raw[: max(length, 0)]

    return Vocabulary([piece(token) for token in range(llama.n_vocab())], llama.token_eos())


@final
class LlamaProcessor:
    """A :class:`.ConstraintLogitsProcessor` for numpy arrays, one text at a time; it may be used for the next text.

    llama-cpp-python prints an error of a processor, such as :class:`BudgetTooSmall`, and goes on. The text then ends at once.
    """

    def __init__(self, llama: Any, processor: ConstraintLogitsProcessor) -> None:
        self._end, self._processor = llama.token_eos(), processor

    def reset(self) -> None:
        """Forget the text: the next call has a new prompt."""
        self._processor.reset()

    def __call__(
        self, input_ids: Int[ndarray, " length"], scores: Float[ndarray, " vocab"]
    ) -> Float[ndarray, " vocab"]:
        """Change the scores of the next token in place to those under the constraint, and return them."""
        given = torch.tensor(scores)[None]
        scores[:] = -np.inf
        scores[self._end] = 0
        scores[:] = self._processor(torch.tensor(input_ids).long()[None], given)[0].numpy()
        return scores
