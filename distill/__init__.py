"""Distillation: language model → corpus → hidden Markov model."""

from .corpus import Corpus
from .em import Counts, blend, expected_counts, m_step, posteriors
from .evaluate import Evaluation, evaluate
from .grow import kronecker, split
from .guidance import Guidance, guidance
from .latent import initialise, random_start
from .sampling import from_text, sample, sample_prefixes
from .train import train
from .vllm import VLLM

__all__ = [
    "VLLM",
    "Corpus",
    "Counts",
    "Evaluation",
    "Guidance",
    "blend",
    "evaluate",
    "expected_counts",
    "from_text",
    "guidance",
    "initialise",
    "kronecker",
    "m_step",
    "sample_prefixes",
    "posteriors",
    "random_start",
    "sample",
    "split",
    "train",
]
