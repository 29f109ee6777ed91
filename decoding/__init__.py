"""Decoding with constraints: values of Python types, exact probabilities of texts, beam search, logits processors."""

from .beam import Beam, beam_search
from .choose import Choices, choose
from .generate import generate
from .logits_processor import ConstraintLogitsProcessor

__all__ = ["Beam", "Choices", "ConstraintLogitsProcessor", "beam_search", "choose", "generate"]
