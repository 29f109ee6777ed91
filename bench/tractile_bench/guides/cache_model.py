"""A cache model (Kuhn and De Mori 1990) as an HMM: texts repeat tokens of their prompt.

B'(s, v)  ∝  B(s, v) · (1 + boost · 1[v is a token of the prompt])
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from tractile.circuits.hmm import HMM
from tractile.errors import ShapeError


def cache_model(hmm: HMM, prompt: Iterable[int], boost: float = 100.0) -> HMM:
    """Return the HMM whose states emit the tokens of a prompt ``1 + boost`` times as readily, emissions renormalised.

    Probabilities of zero stay zero. Raises :class:`ShapeError` for a boost that is negative or not finite, and for tokens
    beyond the vocabulary.

    Examples
    --------
    >>> import tractile as tt
    >>> from tractile_bench.guides import cache_model
    >>> hmm = tt.HMM([1.0], [[1.0]], [[0.2, 0.3, 0.5]])
    >>> cache_model(hmm, prompt=[0], boost=4.0).emission_probs  # 5 · 0.2, 0.3 and 0.5, of 1.8
    tensor([[0.5556, 0.1667, 0.2778]])
    """
    if not (math.isfinite(boost) and boost >= 0):
        raise ShapeError(f"cache_model: boost must be finite and not negative, it is {boost}")
    emission = hmm.emission_probs
    tokens = sorted(set(prompt))
    if tokens and not 0 <= tokens[0] <= tokens[-1] < emission.shape[1]:
        raise ShapeError(f"cache_model: the prompt has tokens beyond the vocabulary of {emission.shape[1]}")
    factor = torch.ones_like(emission[0])
    factor[tokens] += boost
    raised = emission * factor
    found = HMM(hmm.initial_probs, hmm.transition, raised / raised.sum(1, keepdim=True))
    return found.for_vocabulary(hmm.vocabulary_fingerprint)
