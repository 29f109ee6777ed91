"""Guides beyond a distilled HMM: adapted to a prompt by a context head, copying or a cache, and n-gram models as HMMs."""

from .cache_model import cache_model
from .context import ContextHead
from .copying import Copying
from .copying_fit import copying_nats, fit_copying
from .ngram import ngram, ngram_guide
from .prompted import prompted

__all__ = [
    "ContextHead",
    "Copying",
    "cache_model",
    "copying_nats",
    "fit_copying",
    "ngram",
    "ngram_guide",
    "prompted",
]
