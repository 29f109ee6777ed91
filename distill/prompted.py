"""What a text repeats of its prompt, for an HMM that has not seen it: names, numbers, words of the question.

    B'(s, v)  ∝  B(s, v) · (1 + boost · 1[v is a token of the prompt])

A cache model (Kuhn and De Mori 1990) in the form of an HMM, so every query takes it as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from ..circuits.hmm import HMM
from ..errors import ShapeError


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
