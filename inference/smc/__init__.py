"""Sequential Monte Carlo: language models, proposals, potentials, resampling, the loop, and the posterior."""

from .lm import CircuitLM, ContextTooLong, LanguageModel, TableLM, TransformersLM
from .logits_processor import ConstraintLogitsProcessor
from .posterior import NoParticleSurvived, Particle, Posterior
from .potentials import LookaheadPotential, Potential, PrefixPotential
from .proposals import (
    GCDProposal,
    LCDProposal,
    LMProposal,
    LookaheadProposal,
    MixtureProposal,
    Proposal,
    Step,
)
from .rejection import Rejection, rejection_sampling
from .resampling import effective_sample_size, multinomial, residual, stratified, systematic
from .sampler import importance_sampling, smc

__all__ = [
    "smc",
    "importance_sampling",
    "rejection_sampling",
    "Posterior",
    "Particle",
    "Rejection",
    "NoParticleSurvived",
    "LanguageModel",
    "TransformersLM",
    "CircuitLM",
    "TableLM",
    "ContextTooLong",
    "ConstraintLogitsProcessor",
    "Proposal",
    "Step",
    "LMProposal",
    "LCDProposal",
    "GCDProposal",
    "LookaheadProposal",
    "MixtureProposal",
    "Potential",
    "PrefixPotential",
    "LookaheadPotential",
    "multinomial",
    "stratified",
    "systematic",
    "residual",
    "effective_sample_size",
]
