"""Language models: the protocol, transformers, masked models, exactly known models, and products of models."""

from .base import LanguageModel
from .chain import CircuitLM
from .exact import TableLM
from .masked import MaskedLM
from .products import ProductLM
from .transformers import TransformersLM

__all__ = ["CircuitLM", "LanguageModel", "MaskedLM", "ProductLM", "TableLM", "TransformersLM"]
