"""The classes of vLLM and SGLang that adapters derive from, if installed, and the token budget of a vLLM request."""

from __future__ import annotations

import importlib
from typing import Any


def interface(module: str, name: str) -> Any:
    """Import a class of an engine; ``object`` if the engine is not installed, so that adapters can be imported and tested."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        return object


def budget_of(max_tokens: int, prompt: int, max_model_len: int) -> int:
    """Return the most tokens of a request's output: ``max_tokens``, or what the prompt leaves of the model's context."""
    return min(max_tokens, max_model_len - prompt)
