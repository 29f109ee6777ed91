"""Requirements on a model of transformers: logits of the next token, and a cache, passed under one of these names.

    past_key_values    keys and values of attention; hybrids keep the states of their other layers there too
    cache_params       the states of a state-space model (Mamba)
    cache              either of them, since transformers 5.24

A model without logits or a cache is refused with an error that names it. So is an encoder–decoder, whose prompt is the input
of an encoder.
"""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor

from ..errors import EvidenceError, VocabularyMismatch


def cache_argument(model: Any) -> str:
    """Return the name of the model's cache argument; raise :class:`EvidenceError` if there is none."""
    if not callable(getattr(model, "forward", None)) or not hasattr(model, "config"):
        raise EvidenceError(
            f"TransformersLM: model is a {type(model).__name__}; give a model of transformers, such as "
            "AutoModelForCausalLM.from_pretrained(…)"
        )
    if getattr(model.config, "is_encoder_decoder", False):
        raise EvidenceError(
            f"TransformersLM: {type(model).__name__} is an encoder–decoder, whose prompt is read by an encoder that this class "
            "does not run; give a decoder alone (AutoModelForCausalLM), or a tt.lm.LanguageModel of your own"
        )
    parameters = inspect.signature(model.forward).parameters
    for name in ("past_key_values", "cache_params", "cache"):
        if name in parameters:
            return name
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):  # a wrapper that passes arguments on
        return attention_cache_argument()
    raise lacks(model, "an argument past_key_values, cache_params or cache")


def attention_cache_argument() -> str:
    """Return the name under which this transformers passes keys and values: ``past_key_values``, or ``cache`` since 5.24."""
    from transformers.modeling_outputs import CausalLMOutputWithPast

    return "cache" if "cache" in inspect.signature(CausalLMOutputWithPast).parameters else "past_key_values"


def outputs_of(model: Any) -> int:
    """Return the number of outputs of a model, by its configuration (that of the text, for a model of text and images)."""
    config = model.config
    return int(getattr(config, "get_text_config", lambda: config)().vocab_size)


def check_outputs(logits: Tensor, vocab_size: int) -> Tensor:
    """Return the logits of the first ``vocab_size`` tokens. Raises :class:`VocabularyMismatch` if there are fewer."""
    if logits.shape[-1] < vocab_size:
        raise VocabularyMismatch(
            f"the model's configuration says {vocab_size:,} or more outputs (vocab_size), but it has {logits.shape[-1]:,}: set "
            "model.config.vocab_size to that"
        )
    return logits[..., :vocab_size]


def logits_of(model: Any, output: Any) -> Tensor:
    """Return the logits of an output, (rows, tokens, vocab). Raises :class:`EvidenceError` for a model with another head."""
    logits = getattr(output, "logits", None)
    if not isinstance(logits, Tensor) or logits.ndim != 3:
        raise lacks(model, "logits of the next token")
    return logits


def cache_of(model: Any, output: Any, name: str) -> Any:
    """Return the cache of an output. Raises :class:`EvidenceError` if there is none, or its rows cannot be reordered."""
    from transformers import __version__

    from .caches import layered

    cache = layered(getattr(output, name, None))
    if cache is None or not hasattr(cache, "reorder_cache"):
        raise lacks(
            model,
            f"a cache in its output ({name}, with reorder_cache), so its rows cannot be copied (with transformers "
            f"{__version__}; those of Mamba, Jamba, Gemma 2 and Gemma 3 can be with 5.23)",
        )
    return cache


def lacks(model: Any, what: str) -> EvidenceError:
    """Make the error that names the model and what it lacks."""
    return EvidenceError(
        f"TransformersLM: {type(model).__name__} lacks {what}; give a causal language model (AutoModelForCausalLM); masked ones "
        "take tt.decoding.denoise"
    )
