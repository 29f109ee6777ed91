"""Decoding with constraints in other programs: logits processors, beam search; exact probabilities of texts."""

from .beam import Beam, beam_search
from .choose import Choices, choose
from .logits_processor import ConstraintLogitsProcessor

__all__ = ["Beam", "Choices", "ConstraintLogitsProcessor", "beam_search", "choose"]
