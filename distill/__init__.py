"""Distillation: language model → corpus → hidden Markov model."""

from .context import ContextHead
from .copying import Copying
from .copying_fit import copying_nats, fit_copying
from .corpus import Corpus
from .em import Counts, blend, counts_by_autograd, expected_counts, maximise, posteriors
from .evaluate import Evaluation, evaluate
from .grow import kronecker, split
from .guidance import Guidance, guidance
from .latent import initialise, random_start
from .ngram import ngram, ngram_guide
from .prompted import boosted
from .sampling import from_text, midway, sample
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
    "boosted",
    "copying_nats",
    "counts_by_autograd",
    "evaluate",
    "expected_counts",
    "fit_copying",
    "from_text",
    "guidance",
    "initialise",
    "kronecker",
    "maximise",
    "midway",
    "ngram",
    "ngram_guide",
    "posteriors",
    "random_start",
    "sample",
    "split",
    "train",
]
