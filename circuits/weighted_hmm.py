"""An HMM with a weight for each future token: its backward messages give E_hmm[Π_{s>t} w(x_s) · 1[C] | x_≤t].

Past tokens are not weighed: the forward filter p_hmm(z_t | x_≤t) is the HMM's own."""

from __future__ import annotations

from typing import final

from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError, VocabularyMismatch
from ..layers import Categorical
from .chain import Chain
from .hmm import HMM


@final
class WeightedHMM(HMM):
    """An HMM with ``token_log_weights``, log w(v) ≤ 0 in nats for every token v, which :func:`.pgcd` uses in its lookahead.

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


def weights_of(hmm: HMM) -> Float[Tensor, " vocab"] | None:
    """Return log w of each token of a :class:`WeightedHMM`, on the HMM's device; None for other HMMs."""
    return hmm.token_log_weights.to(hmm.device) if isinstance(hmm, WeightedHMM) else None


def future_emission(hmm: HMM) -> Float[Tensor, "hidden vocab"]:
    """Return the emission of future tokens: B[h, v] · w(v), or B for an HMM without weights."""
    weights = weights_of(hmm)
    return (
        hmm.emission_probs if weights is None else hmm.emission_probs * weights.exp().to(hmm.emission_probs)
    )


def weighted_chain(hmm: HMM) -> Chain:
    """Return the unnormalised chain p_hmm(x) Π_t w(x_t); the HMM itself if it has no weights."""
    if weights_of(hmm) is None:
        return hmm
    return Chain(hmm.initial, hmm.left, Categorical(future_emission(hmm)), hmm.right, hmm.final)


def parameters_of(hmm: HMM) -> list[Tensor]:
    """Return all tensors on which queries depend: π, A, B, and the weights if there are any."""
    own = [hmm.token_log_weights] if isinstance(hmm, WeightedHMM) else []
    return [hmm.initial_probs, *hmm.transition.parameters(), hmm.emission_probs, *own]
