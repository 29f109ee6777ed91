"""Inference: semirings, the contraction engine, queries, and the incremental next-token queries."""

from .next_token.gcd import GCDQuery, gcd, lcd
from .next_token.generic import NextToken
from .next_token.pgcd import pgcd
from .next_token.product_query import ProductQuery
from .next_token.protocol import NextTokenQuery
from .next_token.rows import pack_bits
from .queries.condition import condition
from .queries.counts import Counts
from .queries.determinism import check_deterministic, is_deterministic
from .queries.em import Fit, em, em_step, expected_counts
from .queries.evidence import Evidence
from .queries.information import cross_entropy, entropy, expectation, kl_divergence
from .queries.k_best import k_best
from .queries.marginal import conditional, count, log_marginal, marginals, partition, support
from .queries.normalize import normalise
from .queries.prune import prune
from .queries.sample_mpe import mpe, sample
from .queries.trainable import Trainable
from .semirings.base import Boolean, Counting, Log, MaxProduct, MinPlus, Semiring
from .semirings.scaled_real import Real

__all__ = [
    "Boolean",
    "Counting",
    "Counts",
    "Evidence",
    "Fit",
    "Log",
    "GCDQuery",
    "MaxProduct",
    "MinPlus",
    "NextToken",
    "NextTokenQuery",
    "ProductQuery",
    "Real",
    "Semiring",
    "Trainable",
    "check_deterministic",
    "condition",
    "conditional",
    "count",
    "cross_entropy",
    "em",
    "em_step",
    "entropy",
    "expectation",
    "expected_counts",
    "gcd",
    "is_deterministic",
    "k_best",
    "kl_divergence",
    "lcd",
    "log_marginal",
    "marginals",
    "mpe",
    "normalise",
    "pack_bits",
    "partition",
    "pgcd",
    "prune",
    "sample",
    "support",
]
