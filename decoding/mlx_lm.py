"""Constraints in MLX-LM: a logits processor.

processor = MLXProcessor(ConstraintLogitsProcessor(constraint, max_new_tokens=64, tokenizer=tokenizer._tokenizer))
mlx_lm.generate(model, tokenizer, prompt, max_tokens=64, logits_processors=[processor])
"""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch

from .logits_processor import ConstraintLogitsProcessor


@final
class MLXProcessor:
    """A :class:`.ConstraintLogitsProcessor` for arrays of MLX, one text at a time; it may be used for the next text."""

    def __init__(self, processor: ConstraintLogitsProcessor) -> None:
        self._processor = processor

    def reset(self) -> None:
        """Forget the text: the next call has a new prompt."""
        self._processor.reset()

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return the logits (1, vocab) of the token after ``tokens``, those of the prompt and the text, under the constraint."""
        import mlx.core as mx

        scores = torch.from_numpy(np.array(logits.astype(mx.float32)))
        found = self._processor(torch.from_numpy(np.array(tokens, np.int64))[None], scores)
        return mx.array(found.numpy()).astype(logits.dtype)
