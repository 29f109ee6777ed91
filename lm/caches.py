"""Caches of keys and values, in every supported version of transformers.

Since transformers 4.54 a cache has ``layers``, each with ``keys`` and ``values`` of shape (rows, heads, length, dim). Before, it
was two lists of tensors or, for some architectures, a tuple of pairs; :class:`LayeredCache` gives those layers. Newer caches are
left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import cache_utils

DYNAMIC_CACHE: Any = cache_utils.DynamicCache
DYNAMIC_LAYER: Any = getattr(cache_utils, "DynamicLayer", None)
"""The class of a layer whose keys and values grow and can be cut; None before transformers had layers."""


@dataclass
class Layer:
    """Keys and values of a layer, (rows, heads, length, dim)."""

    keys: Tensor
    values: Tensor


@final
class LayeredCache:
    """A cache of a transformers version without cache layers; ``pairs``: whether its model takes a tuple of pairs."""

    def __init__(self, layers: list[Layer], pairs: bool) -> None:
        self.layers, self._pairs = layers, pairs

    def reorder_cache(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep these rows, in this order, with repetitions."""
        for layer in self.layers:
            layer.keys, layer.values = (
                layer.keys.index_select(0, indices),
                layer.values.index_select(0, indices),
            )

    def crop(self, tokens: int) -> None:
        """Remove the last ``-tokens`` tokens of each row."""
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[:, :, :tokens], layer.values[:, :, :tokens]

    def given(self) -> Any:
        """The cache as its model takes it."""
        pairs = tuple((layer.keys, layer.values) for layer in self.layers)
        return pairs if self._pairs else DYNAMIC_CACHE.from_legacy_cache(pairs)


def input_cache(cache: Any) -> Any:
    """The cache to give to a model, as it takes it; None for a first pass, in which the model makes its own."""
    return cache.given() if isinstance(cache, LayeredCache) else cache


def layered(cache: Any) -> Any:
    """The cache that a model returned, with layers; None for an old version's whose rows cannot be copied or cannot grow."""
    if DYNAMIC_LAYER is not None:
        return cache
    if type(cache) is DYNAMIC_CACHE:
        pairs = zip(cache.key_cache, cache.value_cache, strict=True)
        return LayeredCache([Layer(*pair) for pair in pairs], pairs=False)
    if isinstance(cache, tuple) and all(_is_pair(entry) for entry in cache):
        return LayeredCache([Layer(*entry) for entry in cache], pairs=True)
    return None


def can_be_cut(cache: Any) -> bool:
    """Whether the last tokens of a cache can be removed: all its layers keep keys and values of all tokens."""
    return all(type(layer) in (DYNAMIC_LAYER, Layer) for layer in getattr(cache, "layers", [None]))


def attends(cache: Any) -> bool:
    """Whether a cache keeps keys and values in some layer."""
    return any(hasattr(layer, "keys") for layer in getattr(cache, "layers", []))


def _is_pair(entry: Any) -> bool:
    """Whether an entry of a tuple cache is the keys and values of a layer."""
    if not isinstance(entry, tuple) or len(entry) != 2:
        return False
    return all(isinstance(part, torch.Tensor) and part.ndim == 4 for part in entry)
