"""Language models: the protocol, transformers, and models whose distribution is known exactly."""

from .base import LanguageModel
from .exact import CircuitLM, TableLM
from .transformers import TransformersLM

__all__ = ["CircuitLM", "LanguageModel", "TableLM", "TransformersLM"]
