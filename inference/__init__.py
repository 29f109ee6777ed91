"""Inference: semirings, the contraction engine, queries, and the incremental next-token queries."""

from .evidence import Evidence
from .guided import ProductQuery, pgcd
from .masks import MaskQuery, gcd, lcd
from .next_token import NextToken, pack_bits
from .query import conditional, count, entropy, log_marginal, mpe, partition, sample, support
from .semiring import Boolean, Counting, Log, MaxProduct, MinPlus, Real, Semiring

__all__ = [
    "Boolean",
    "Counting",
    "Evidence",
    "Log",
    "MaskQuery",
    "MaxProduct",
    "MinPlus",
    "NextToken",
    "ProductQuery",
    "Real",
    "Semiring",
    "conditional",
    "count",
    "entropy",
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
