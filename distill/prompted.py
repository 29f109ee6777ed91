"""What a text repeats of its prompt, for an HMM that has not seen it: names, numbers, words of the question.

    B'(s, v)  ∝  B(s, v) · (1 + boost · 1[v is a token of the prompt])

A cache model (Kuhn and De Mori 1990) in the form of an HMM, so every query takes it as it is.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import torch

from ..circuits.hmm import HMM
from ..errors import ShapeError
from ..lm.base import LanguageModel, Prompt
from .context import ContextHead
from .copying import NAMES, Copying

logger = logging.getLogger(__name__)


def boosted(hmm: HMM, prompt: Iterable[int], boost: float = 100.0) -> HMM:
    """The HMM whose states emit the tokens of a prompt ``1 + boost`` times as readily, each state's emissions renormalised.

    What has probability zero keeps it. Raises :class:`ShapeError` for a boost that is negative or no number, and for tokens
    beyond the vocabulary.
    """
    if not (math.isfinite(boost) and boost >= 0):
        raise ShapeError(f"boosted: boost must be a number not below zero, it is {boost}")
    emission = hmm.emission_probs
    tokens = sorted(set(prompt))
    if tokens and not 0 <= tokens[0] <= tokens[-1] < emission.shape[1]:
        raise ShapeError(f"boosted: the prompt has tokens beyond the vocabulary of {emission.shape[1]}")
    factor = torch.ones_like(emission[0])
    factor[tokens] += boost
    raised = emission * factor
    found = HMM(hmm.initial_probs, hmm.transition, raised / raised.sum(1, keepdim=True))
    return found.for_vocabulary(hmm.vocabulary_fingerprint)


def with_context(hmm: HMM, folder: Path, lm: LanguageModel, prompt: Prompt) -> HMM:
    """The HMM after a prompt, by the context head in its folder; as it was for language models that are no transformer."""
    model, tokenizer = getattr(lm, "model", None), getattr(lm, "tokenizer", None)
    if model is None or tokenizer is None:
        logger.warning(
            "the context head in %s was left out: %s has no model and tokenizer that it could read the prompt with",
            folder,
            type(lm).__name__,
        )
        return hmm
    return ContextHead.from_pretrained(folder).begin(hmm, model, tokenizer, _given(prompt))


def with_copying(hmm: HMM, folder: Path, lm: LanguageModel, prompt: Prompt) -> HMM:
    """The HMM of texts that copy from a prompt, as its folder says how; as it was for a text that nothing can tokenize."""
    tokenizer = getattr(lm, "tokenizer", None)
    if not callable(tokenizer):
        tokenizer = None
    if isinstance(prompt, str) and tokenizer is None:
        logger.warning(
            "the copying in %s was left out: %s has no tokenizer to read the prompt with",
            folder,
            type(lm).__name__,
        )
        return hmm
    copying = Copying.from_pretrained(folder)
    alike = {name: getattr(copying, name).to(hmm.emission_probs) for name in NAMES}
    return replace(copying, hmm=hmm, **alike).read(_given(prompt), tokenizer)


def _given(prompt: Prompt) -> str | list[int]:
    return prompt if isinstance(prompt, str) else list(prompt)
