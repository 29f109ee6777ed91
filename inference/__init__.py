"""Inference: semirings, the contraction engine, queries, and the incremental next-token queries."""

from .next_token.protocol import NextTokenQuery
from .next_token.query import NextToken, gcd, lcd, pgcd
from .queries.condition import condition
from .queries.conditional import conditional, marginals
from .queries.counting import count
from .queries.determinism import is_deterministic
from .queries.divergences import alpha_divergence, chi_squared, hellinger, power, renyi_divergence
from .queries.em import Fit, em, em_step, expected_counts
from .queries.evidence import Evidence
from .queries.information import cross_entropy, entropy, expectation, kl_divergence
from .queries.k_best import k_best
from .queries.marginal import evaluate, log_marginal, partition, support
from .queries.normalize import normalise
from .queries.prune import prune
from .queries.sample_mpe import mpe, sample
from .queries.states import filter, smooth, viterbi
from .queries.trainable import Trainable
from .semirings.base import Semiring
from .semirings.linear import Boolean, Counting
from .semirings.logarithms import Log, MaxProduct, MinPlus
from .semirings.scaled_real import Real

__all__ = [
    "alpha_divergence",
    "chi_squared",
    "evaluate",
    "hellinger",
    "power",
    "renyi_divergence",
    "Boolean",
    "Counting",
    "Evidence",
    "Fit",
    "Log",
    "MaxProduct",
    "MinPlus",
    "NextToken",
    "NextTokenQuery",
    "Real",
    "Semiring",
    "Trainable",
    "condition",
    "conditional",
    "count",
    "cross_entropy",
    "em",
    "em_step",
    "entropy",
    "expectation",
    "expected_counts",
    "filter",
    "gcd",
    "is_deterministic",
    "k_best",
    "kl_divergence",
    "lcd",
    "log_marginal",
    "marginals",
    "mpe",
    "normalise",
    "partition",
    "pgcd",
    "prune",
    "sample",
    "smooth",
    "support",
    "viterbi",
]
