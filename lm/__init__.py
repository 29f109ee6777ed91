"""Language models: the protocol, transformers, models whose distribution is known exactly, and products of them."""

from .base import LanguageModel
from .byte_level import ByteLM
from .exact import CircuitLM, TableLM
from .products import ProductLM
from .transformers import TransformersLM

__all__ = ["ByteLM", "CircuitLM", "LanguageModel", "ProductLM", "TableLM", "TransformersLM"]
