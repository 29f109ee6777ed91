"""Distillation: language model → corpus → hidden Markov model."""

from .corpus import Corpus, midway, sample
from .em import Counts, blend, counts_by_autograd, expected_counts, maximise
from .latent import initialise
from .train import Evaluation, evaluate, train

__all__ = [
    "Corpus",
    "Counts",
    "Evaluation",
    "blend",
    "counts_by_autograd",
    "evaluate",
    "expected_counts",
    "initialise",
    "maximise",
    "midway",
    "sample",
    "train",
]
