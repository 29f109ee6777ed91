"""One interface to the key–value caches of all supported versions of transformers.

Since transformers 4.54 a cache has ``layers``, each with ``keys`` and ``values`` of shape (rows, heads, length, dim). In older
versions it is two lists of tensors or, for some architectures, a tuple of pairs; :class:`LayeredCache` wraps these as layers.
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
    """A wrapper for a cache of a transformers version without layers; ``pairs``: whether the model takes a tuple of pairs."""

    def __init__(self, layers: list[Layer], pairs: bool) -> None:
        self.layers, self._pairs = layers, pairs

    def reorder_cache(self, indices: Int[Tensor, " rows"]) -> None:
        """Keep these rows, in this order, with repetitions."""
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[indices], layer.values[indices]

    def crop(self, tokens: int) -> None:
        """Remove the last ``-tokens`` tokens of each row; ``tokens`` is negative, as in ``DynamicCache.crop``."""
        for layer in self.layers:
            layer.keys, layer.values = layer.keys[:, :, :tokens], layer.values[:, :, :tokens]

    def given(self) -> Any:
        """Return the cache in the form that its model takes."""
        pairs = tuple((layer.keys, layer.values) for layer in self.layers)
        return pairs if self._pairs else DYNAMIC_CACHE.from_legacy_cache(pairs)


def input_cache(cache: Any) -> Any:
    """Return a cache in the form that its model takes; None (first pass: the model makes its own) stays None."""
    return cache.given() if isinstance(cache, LayeredCache) else cache


def layered(cache: Any) -> Any:
    """Return a model's cache as one with layers; None for an old version's cache whose rows cannot be copied or grow."""
    if DYNAMIC_LAYER is not None:
        return cache
    if type(cache) is DYNAMIC_CACHE:
        pairs = zip(cache.key_cache, cache.value_cache, strict=True)
        return LayeredCache([Layer(*pair) for pair in pairs], pairs=False)
    if isinstance(cache, tuple) and all(_is_pair(entry) for entry in cache):
        return LayeredCache([Layer(*entry) for entry in cache], pairs=True)
    return None


def can_be_cut(cache: Any) -> bool:
    """Return whether a cache can be cropped: all its layers keep the keys and values of all tokens."""
    return not getattr(cache, "has_windows", False) and all(
        type(layer) in (DYNAMIC_LAYER, Layer) for layer in getattr(cache, "layers", [None])
    )


def attends(cache: Any) -> bool:
    """Return whether some layer of a cache keeps keys and values."""
    return any(hasattr(layer, "keys") for layer in getattr(cache, "layers", []))


def _is_pair(entry: Any) -> bool:
    """Return whether an entry of a tuple cache is a pair of a layer's keys and values."""
    if not isinstance(entry, tuple) or len(entry) != 2:
        return False
    return all(isinstance(part, torch.Tensor) and part.ndim == 4 for part in entry)
