"""HMMs from and to the hmmlearn package."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import FormatError
from ..hmm import HMM


def from_hmmlearn(model: Any, dtype: torch.dtype = torch.float64) -> HMM:
    """An HMM from a fitted ``CategoricalHMM`` of the hmmlearn package; :class:`FormatError` for anything else."""
    try:
        parts = [model.startprob_, model.transmat_, model.emissionprob_]
        initial, transition, emission = (torch.as_tensor(part, dtype=dtype) for part in parts)
        return HMM(initial, transition, emission)
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(
            f"from_hmmlearn: {type(model).__name__} is not a fitted CategoricalHMM: {error}"
        ) from error


def to_hmmlearn(hmm: HMM) -> Any:
    """A ``CategoricalHMM`` of the hmmlearn package (which must be installed) with the same probabilities."""
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(n_components=hmm.hidden, n_features=hmm.vocab_size)
    model.startprob_ = hmm.initial_probs.detach().double().cpu().numpy()
    model.transmat_ = hmm.transition.dense().detach().double().cpu().numpy()
    model.emissionprob_ = hmm.emission_probs.detach().double().cpu().numpy()
    return model
