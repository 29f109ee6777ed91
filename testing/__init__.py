"""What every layer, semiring, language model, proposal, potential, resampling scheme and next-token query promises, as checks.

Write a class of your own, and let the check of its kind play with it:

    check_layer(layer)                       operators, input layers (densities too) and products
    check_semiring(semiring)                 its laws and its operations
    check_language_model(lm, prompts)        rows that are copied, dropped and reordered say what they say alone
    check_proposal(proposal, lm, fa)         properly weighted, for every token
    check_potential(potential, lm, fa)       its values for all accepted sequences
    check_resampler(scheme)                  unbiased, and never a dead particle
    check_next_token_query(make)             its answers after random moves, against sums over all sequences

Where everything can be enumerated a check is exact. Where something is drawn it states the probability, ``error``, with which it
refuses what is right; the draws have a seed, so that a check that has passed goes on to pass. A broken promise is an
``AssertionError`` that says which one, and where.
"""

from .language_models import check_language_model
from .layers import check_layer
from .potentials import check_potential
from .proposals import check_proposal
from .queries import check_next_token_query
from .resampling import check_resampler
from .semirings import check_semiring

__all__ = [
    "check_language_model",
    "check_layer",
    "check_next_token_query",
    "check_potential",
    "check_proposal",
    "check_resampler",
    "check_semiring",
]
