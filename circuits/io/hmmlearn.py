"""Convert HMMs from and to the hmmlearn package."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import FormatError
from ..hmm import HMM


def from_hmmlearn(model: Any, dtype: torch.dtype = torch.float64) -> HMM:
    """Convert a fitted ``CategoricalHMM`` of the hmmlearn package to an HMM. Raises :class:`FormatError` for anything else.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> import tractile as tt
    >>> from hmmlearn.hmm import CategoricalHMM
    >>> from tractile.circuits import from_hmmlearn
    >>> model = CategoricalHMM(n_components=2)
    >>> model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.eye(2)
    >>> model.emissionprob_ = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> tt.log_marginal(from_hmmlearn(model), torch.tensor([[0, 0]])).exp()  # ½ · 0.9² + ½ · 0.2²
    tensor([0.4250], dtype=torch.float64)
    """
    try:
        parts = [model.startprob_, model.transmat_, model.emissionprob_]
        initial, transition, emission = (torch.as_tensor(part, dtype=dtype) for part in parts)
        return HMM(initial, transition, emission)
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(
            f"from_hmmlearn: {type(model).__name__} is not a fitted CategoricalHMM: {error}"
        ) from error


def to_hmmlearn(hmm: HMM) -> Any:
    """Convert an HMM to a ``CategoricalHMM`` of the hmmlearn package (which must be installed).

    Examples
    --------
    >>> import numpy as np
    >>> import tractile as tt
    >>> from tractile.circuits import to_hmmlearn
    >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
    >>> round(to_hmmlearn(hmm).score(np.array([[1], [1]])), 4), round(tt.log_marginal(hmm, [1, 1]).item(), 4)
    (-1.0455, -1.0455)
    """
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(n_components=hmm.hidden, n_features=hmm.vocab_size)
    model.startprob_ = hmm.initial_probs.detach().double().cpu().numpy()
    model.transmat_ = hmm.transition.dense().detach().double().cpu().numpy()
    model.emissionprob_ = hmm.emission_probs.detach().double().cpu().numpy()
    return model
