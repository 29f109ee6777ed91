"""Distillation: language model → corpus → hidden Markov model."""

from .corpus import Corpus
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
    "Evaluation",
    "Guidance",
    "evaluate",
    "from_text",
    "guidance",
    "initialise",
    "kronecker",
    "sample_prefixes",
    "random_start",
    "sample",
    "split",
    "train",
]
