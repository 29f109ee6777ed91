"""Rows of unequal length in one batch: padding on the left, in inputs, masks and caches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import EvidenceError
from .architectures import logits_of


@torch.no_grad()
def check_padding(model: Any) -> None:
    """Try whether a prompt behind padding is read as it is alone: a model that takes no position ids must count positions
    by the attention mask, or know none. Raises :class:`EvidenceError`."""
    ids = torch.tensor([[1, 1], [0, 1]], device=model.device)
    padded = logits_of(model, model(input_ids=ids, attention_mask=ids))[1, -1].float().log_softmax(0)
    alone = logits_of(model, model(input_ids=ids[:1, :1]))[0, -1].float().log_softmax(0)
    if not torch.allclose(padded, alone, rtol=0.02, atol=0.02):
        raise EvidenceError(
            f"TransformersLM: {type(model).__name__} takes no position_ids and reads a padded prompt at wrong positions; give "
            "prompts of one length, or one prompt at a time, without align"
        )


def check_layers(cache: Any) -> None:
    """Raise :class:`EvidenceError` for a cache that does not hold keys and values as tensors, which padding needs."""
    if not all(
        isinstance(getattr(layer, "keys", None), Tensor) for layer in getattr(cache, "layers", [None])
    ):
        raise EvidenceError(
            f"TransformersLM: particles cannot wait for each other with a cache of type {type(cache).__name__}; "
            "leave align out"
        )


def beside(moved: Tensor, rows: Tensor, kept: Tensor, waiting: Tensor, dim: int) -> Tensor:
    """Put ``moved`` at ``rows`` and those of ``kept`` that wait at ``waiting``, aligned at their ends along ``dim``."""
    length = moved.shape[dim]
    shape = [len(rows) + len(waiting), *moved.shape[1:]]
    both = moved.new_zeros(shape)
    both[rows.to(moved.device)] = moved
    size = kept.shape[dim]
    both.narrow(dim, length - size, size)[waiting.to(moved.device)] = kept[waiting.to(moved.device)]
    return both
