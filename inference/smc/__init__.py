"""Sequential Monte Carlo: language models, proposals, potentials, resampling, the loop, and the posterior."""

from .awrs import AWRSProposal
from .boundaries import (
    Boundary,
    at_end,
    every_clause,
    every_json_value,
    every_line,
    every_statement,
    every_token,
)
from .bytewise import CharacterProposal
from .chains import Draw, MarkovChains
from .confidence import Estimate
from .field import Field
from .mcmc import mcmc, resample_move
from .paths import ABSENT
from .posterior import Particle, Posterior, json_value
from .potentials import ConstraintPotential, LookaheadPotential, Potential, PrefixPotential
from .proposals import (
    GCDProposal,
    LCDProposal,
    LMProposal,
    LookaheadProposal,
    MixtureProposal,
    Proposal,
)
from .runs import Runs
from .sampler import importance_sampling, smc
from .step import Extension, Knowledge, Step
from .strength import Strength
from .truncated import Truncated
from .user_potential import FunctionPotential

__all__ = [
    "smc",
    "importance_sampling",
    "mcmc",
    "resample_move",
    "MarkovChains",
    "Draw",
    "Posterior",
    "Particle",
    "Runs",
    "Estimate",
    "Field",
    "ABSENT",
    "Strength",
    "json_value",
    "Proposal",
    "Knowledge",
    "Step",
    "LMProposal",
    "LCDProposal",
    "GCDProposal",
    "LookaheadProposal",
    "MixtureProposal",
    "Truncated",
    "AWRSProposal",
    "CharacterProposal",
    "Potential",
    "Extension",
    "PrefixPotential",
    "LookaheadPotential",
    "ConstraintPotential",
    "FunctionPotential",
    "Boundary",
    "every_token",
    "every_line",
    "every_clause",
    "every_statement",
    "every_json_value",
    "at_end",
]
