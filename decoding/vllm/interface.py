"""What adapters know of vLLM: the classes that they derive from, where it is installed, and how many tokens a request gets."""

from __future__ import annotations

import importlib
from typing import Any


def interface(module: str, name: str) -> Any:
    """A class of vLLM, or ``object`` where vLLM is not installed: adapters can then still be imported and tested."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return object


def budget_of(max_tokens: int, prompt: int, max_model_len: int) -> int:
    """The tokens that a request may have: vLLM ends it at ``max_tokens``, or where the model's context is full."""
    return min(max_tokens, max_model_len - prompt)
