"""Decoding with constraints: values of Python types, exact probabilities of texts, beam search, logits processors."""

from .beam import Beam, beam_search
from .choose import Choices, choose
from .generate import generate
from .infill import Infilling, infill
from .logits_processor import ConstraintLogitsProcessor

__all__ = [
    "Beam",
    "Choices",
    "ConstraintLogitsProcessor",
    "Infilling",
    "beam_search",
    "choose",
    "infill",
    "generate",
]
