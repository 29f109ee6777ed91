"""Distillation: language model → corpus → hidden Markov model."""

from .corpus import Corpus
from .evaluate import Evaluation, evaluate
from .existing_text import from_text
from .grow import kronecker, split
from .guidance import Guidance, guidance
from .latent import initialise
from .sampling import sample, sample_share
from .start import random_start
from .train import train, train_sharded
from .vllm import VLLM

__all__ = [
    "VLLM",
    "Corpus",
    "Evaluation",
    "Guidance",
    "evaluate",
    "from_text",
    "guidance",
    "initialise",
    "kronecker",
    "random_start",
    "sample",
    "sample_share",
    "split",
    "train",
    "train_sharded",
]
