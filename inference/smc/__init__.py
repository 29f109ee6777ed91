"""Sequential Monte Carlo: language models, proposals, potentials, resampling, the loop, and the posterior."""

from ...errors import ContextTooLong, NoParticleSurvived, PotentialError, ProposalError
from .adaptive import AdaptiveProposal
from .boundaries import (
    Boundary,
    at_end,
    every_clause,
    every_json_value,
    every_line,
    every_statement,
    every_token,
)
from .characters import CharacterProposal
from .checks import TopKProposal
from .functions import FunctionPotential
from .known_lm import CircuitLM, TableLM
from .lm import LanguageModel
from .logits_processor import ConstraintLogitsProcessor
from .mcmc import Chains, Draw, mcmc
from .meanings import json_value, sql_result
from .posterior import Particle, Posterior
from .potentials import ConstraintPotential, LMPotential, LookaheadPotential, Potential, PrefixPotential
from .presets import PRESETS, Preset
from .proposals import (
    EitherProposal,
    GCDProposal,
    LCDProposal,
    LMProposal,
    LookaheadProposal,
    MixtureProposal,
    Proposal,
    Uncorrected,
)
from .ranks import smc_on_ranks
from .rejecting import AWRSProposal, GeometricProposal, MaskedAWRSProposal, TwoRoundsProposal
from .rejection import Rejection, rejection_sampling
from .resample_move import resample_move
from .resampling import (
    effective_sample_size,
    multinomial,
    residual,
    ssp,
    stratified,
    systematic,
    without_replacement,
)
from .runs import Runs
from .sampler import importance_sampling, smc
from .step import Extended, Knowledge, Step
from .transformers_lm import TransformersLM
from .twists import HiddenTwist, RolloutPotential

__all__ = [
    "smc",
    "smc_on_ranks",
    "importance_sampling",
    "rejection_sampling",
    "mcmc",
    "resample_move",
    "Chains",
    "Draw",
    "PRESETS",
    "Preset",
    "Posterior",
    "Particle",
    "Runs",
    "json_value",
    "sql_result",
    "Rejection",
    "NoParticleSurvived",
    "LanguageModel",
    "TransformersLM",
    "CircuitLM",
    "TableLM",
    "ContextTooLong",
    "ConstraintLogitsProcessor",
    "Proposal",
    "Knowledge",
    "Step",
    "LMProposal",
    "LCDProposal",
    "GCDProposal",
    "LookaheadProposal",
    "MaskedAWRSProposal",
    "MixtureProposal",
    "AdaptiveProposal",
    "AWRSProposal",
    "TwoRoundsProposal",
    "GeometricProposal",
    "TopKProposal",
    "CharacterProposal",
    "EitherProposal",
    "Uncorrected",
    "Potential",
    "PotentialError",
    "ProposalError",
    "Extended",
    "PrefixPotential",
    "LookaheadPotential",
    "RolloutPotential",
    "HiddenTwist",
    "LMPotential",
    "ConstraintPotential",
    "FunctionPotential",
    "Boundary",
    "every_token",
    "every_line",
    "every_clause",
    "every_statement",
    "every_json_value",
    "at_end",
    "multinomial",
    "stratified",
    "systematic",
    "residual",
    "ssp",
    "without_replacement",
    "effective_sample_size",
]
