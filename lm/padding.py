"""Left padding of inputs, masks and caches, for rows of unequal length in one batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

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
    """Return the rows of ``moved`` at indices ``rows`` and those of ``kept`` at ``waiting``, aligned at the end of ``dim``."""
    length, size = moved.shape[dim], kept.shape[dim]
    both = moved.new_zeros(len(rows) + len(waiting), *moved.shape[1:])
    both[rows.to(moved.device)] = moved
    both.narrow(dim, length - size, size)[waiting.to(moved.device)] = kept[waiting.to(moved.device)]
    return both


def join_caches(cache: Any, other: Any, width: int) -> None:
    """Append the rows of ``other`` to a cache of keys and values, both padded on the left to ``width`` tokens.

    Layers with a sliding window keep the last tokens of it. Raises :class:`EvidenceError` for caches of anything else.
    """
    check_layers(cache)
    check_layers(other)
    for layer, more in zip(cache.layers, other.layers, strict=True):
        length = max(layer.keys.shape[2], more.keys.shape[2])
        layer.keys = torch.cat([_from_left(x, length) for x in (layer.keys, more.keys)])
        layer.values = torch.cat([_from_left(x, length) for x in (layer.values, more.values)])
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = width


def cut_caches(cache: Any, width: int) -> None:
    """Keep the last ``width`` tokens in the layers of a cache: the others are padding of every row."""
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[:, :, -width:], layer.values[:, :, -width:]
        if hasattr(layer, "cumulative_length"):
            layer.cumulative_length = width


def _from_left(x: Tensor, length: int) -> Tensor:
    """Pad keys or values, (rows, heads, tokens, dim), on the left to this many tokens."""
    return pad(x, (0, 0, length - x.shape[2], 0))
