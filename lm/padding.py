"""Left padding of inputs, masks and caches, for rows of unequal length in one batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import EvidenceError
from .architectures import logits_of


@torch.no_grad()
def check_padding(model: Any) -> None:
    """Raise :class:`EvidenceError` if padding on the left changes a model's logits, by a test run of one token.

    A model that takes no position ids must count positions by the attention mask, or use none.
    """
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
    """Merge rows: ``moved`` goes to the indices ``rows``, ``kept[waiting]`` to ``waiting``, right-aligned along ``dim``."""
    length = moved.shape[dim]
    shape = [len(rows) + len(waiting), *moved.shape[1:]]
    both = moved.new_zeros(shape)
    both[rows.to(moved.device)] = moved
    size = kept.shape[dim]
    both.narrow(dim, length - size, size)[waiting.to(moved.device)] = kept[waiting.to(moved.device)]
    return both
