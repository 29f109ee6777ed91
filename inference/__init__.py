"""Inference: semirings, the contraction engine, queries, and the incremental next-token queries."""

from .evidence import Evidence
from .guided import ProductQuery, pgcd
from .learn import Clamp, Counts, Fit, Trainable, em, em_step, expected_counts
from .masks import MaskQuery, gcd, lcd
from .next_token import NextToken, pack_bits
from .query import conditional, count, entropy, log_marginal, mpe, partition, sample, support
from .semiring import Boolean, Counting, Log, MaxProduct, MinPlus, Real, Semiring

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
    "em",
    "em_step",
    "entropy",
    "expected_counts",
    "gcd",
    "lcd",
    "log_marginal",
    "mpe",
    "pack_bits",
    "partition",
    "pgcd",
    "sample",
    "support",
]
