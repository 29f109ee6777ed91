"""Inference: semirings, the contraction engine, queries, and the incremental next-token queries."""

from .decode import mpe, sample
from .evidence import Evidence
from .guided import ProductQuery, pgcd
from .information import (
    cross_entropy,
    entropy,
    expectation,
    kl_divergence,
    renyi_divergence,
    renyi_entropy,
)
from .learn import Clamp, Counts, Fit, Trainable, em, em_step, expected_counts
from .masks import MaskQuery, gcd, lcd
from .next_token import NextToken, pack_bits
from .query import conditional, count, log_marginal, marginals, partition, support
from .ranking import k_best
from .real import Real
from .semiring import Boolean, Counting, Log, MaxProduct, MinPlus, Semiring

__all__ = [
    "Boolean",
    "Clamp",
    "Counting",
    "Counts",
    "Evidence",
    "Fit",
    "Log",
    "MaskQuery",
    "MaxProduct",
    "MinPlus",
    "NextToken",
    "ProductQuery",
    "Real",
    "Semiring",
    "Trainable",
    "conditional",
    "count",
    "cross_entropy",
    "em",
    "em_step",
    "entropy",
    "expectation",
    "expected_counts",
    "gcd",
    "k_best",
    "kl_divergence",
    "lcd",
    "log_marginal",
    "marginals",
    "mpe",
    "pack_bits",
    "partition",
    "pgcd",
    "renyi_divergence",
    "renyi_entropy",
    "sample",
    "support",
]
