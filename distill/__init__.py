"""Distillation: language model → corpus → hidden Markov model."""

from .cache_model import cache_model
from .context import ContextHead
from .copying import Copying
from .copying_fit import copying_nats, fit_copying
from .corpus import Corpus
from .em import Counts, blend, expected_counts, m_step, posteriors
from .evaluate import Evaluation, evaluate
from .grow import kronecker, split
from .guidance import Guidance, guidance
from .latent import initialise, random_start
from .ngram import ngram, ngram_guide
from .sampling import from_text, sample, sample_prefixes
from .train import train
from .vllm import VLLM

__all__ = [
    "VLLM",
    "ContextHead",
    "Copying",
    "Corpus",
    "Counts",
    "Evaluation",
    "Guidance",
    "blend",
    "cache_model",
    "copying_nats",
    "evaluate",
    "expected_counts",
    "fit_copying",
    "from_text",
    "guidance",
    "initialise",
    "kronecker",
    "m_step",
    "sample_prefixes",
    "ngram",
    "ngram_guide",
    "posteriors",
    "random_start",
    "sample",
    "split",
    "train",
]
