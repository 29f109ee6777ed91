"""An HMM with a weight for each future token: its backward messages give E_hmm[Π_{s>t} w(x_s) · 1[C] | x_≤t].

Past tokens are not weighed: the forward filter p_hmm(z_t | x_≤t) is the HMM's own."""

from __future__ import annotations

from pathlib import Path
from typing import Self, final

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import FormatError, ShapeError, VocabularyMismatch
from ..layers import Categorical
from ..layers.operator import TensorMap
from .hmm import HMM


@final
class WeightedHMM(HMM):
    """An HMM with ``token_log_weights``, log w(v) ≤ 0 in nats for every token v, which :func:`.pgcd` uses in its lookahead.

    Queries see the unnormalised chain p_hmm(x) Π_t w(x_t).

    Raises :class:`VocabularyMismatch` unless there is one weight for each token, :class:`ShapeError` for a weight that is 0,
    above 1, or NaN.
    """

    def __init__(self, hmm: HMM, token_log_weights: Float[Tensor, " vocab"]) -> None:
        if token_log_weights.shape != (hmm.vocab_size,):
            raise VocabularyMismatch(
                f"WeightedHMM: {tuple(token_log_weights.shape)} weights for the {hmm.vocab_size} tokens of the HMM"
            )
        if not bool((token_log_weights.isfinite() & (token_log_weights <= 0)).all()):
            raise ShapeError("WeightedHMM: each weight must be above 0 and at most 1")
        self.__dict__.update(hmm.__dict__)
        self.base, self.token_log_weights = hmm, token_log_weights
        weights = token_log_weights.exp().to(hmm.emission_probs)
        self.inputs = Categorical(hmm.emission_probs * weights)

    @property
    def emission_probs(self) -> Float[Tensor, "hidden vocab"]:
        """B of the HMM itself, without the weights; ``inputs`` has them."""
        return self.base.emission_probs

    def map(self, fn: TensorMap) -> Self:
        """Return the mapped HMM with these weights, on its device."""
        base = self.base.map(fn)
        return type(self)(base, self.token_log_weights.to(base.device))

    def save(self, directory: str | Path) -> None:
        """Raise :class:`FormatError`: the format of HMMs has no weights."""
        raise FormatError("a WeightedHMM is not saved: save its `base`, and keep `token_log_weights`")

    def save_pretrained(self, directory: str | Path, dtype: torch.dtype | None = None) -> None:
        """Raise :class:`FormatError`, as :meth:`save`."""
        self.save(directory)
