"""Language models: the protocol, transformers, models whose distribution is known exactly, and products of them."""

from .base import LanguageModel
from .exact import CircuitLM, TableLM
from .products import ProductLM
from .transformers import TransformersLM

__all__ = ["CircuitLM", "LanguageModel", "ProductLM", "TableLM", "TransformersLM"]
